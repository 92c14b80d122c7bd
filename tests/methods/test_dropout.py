import pytest
import torch
from torch import nn

from lupi import testing
from lupi.data import Batch
from lupi.likelihoods import Categorical
from lupi.methods import NoPI
from lupi.methods.dropout import HeteroscedasticDropout, heteroscedastic_dropout


class Constant(nn.Module):
    """Logit of the scale by annotator."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, a):
        return a @ self.logits


def test_noise_has_the_mean_and_variance_that_a_asks_for():
    seen = []

    class Spy(nn.Linear):
        def forward(self, features):
            seen.append(features.detach())
            return super().forward(features)

    logits = [[-1.0, 0.0, 1.0], [2.0, -2.0, 0.5]]
    method = HeteroscedasticDropout(nn.Identity(), Constant(logits), Spy(3, 2))
    n = 100_000
    x = torch.tensor([[1.0, -2.0, 3.0]])
    for who in (0, 1):
        a = nn.functional.one_hot(torch.full((n,), who), 2).float()
        torch.manual_seed(who)
        method.losses(Batch(x, torch.zeros(n, dtype=torch.long), a, torch.zeros(n, dtype=torch.long)))
        scale = torch.sigmoid(torch.tensor(logits[who]))
        torch.testing.assert_close(seen[-1].mean(0), x[0], atol=0.05, rtol=0)
        torch.testing.assert_close(seen[-1].std(0), scale * x[0].abs(), atol=0.02, rtol=0)


def test_evaluation_has_no_noise_and_is_no_pi():
    method = testing.make_method(heteroscedastic_dropout, Categorical()).eval()
    batch = testing.make_data(Categorical()).by_annotation(torch.arange(testing.ANNOTATIONS))
    plain = NoPI(method.trunk, method.marginal)
    assert torch.equal(method.losses(batch)["marginal"], plain.losses(batch)["marginal"])


def test_penalty_asks_for_noise():
    method = HeteroscedasticDropout(nn.Identity(), Constant([[0.0, 0.0, 0.0]]), nn.Linear(3, 2), penalty=0.5)
    batch = Batch(torch.ones(1, 3), torch.tensor([0]), torch.ones(1, 1), torch.tensor([0]))
    penalty = method.losses(batch)["penalty"]
    assert penalty.item() == pytest.approx(0.5 * torch.log(torch.tensor(2.0)).item())  # −λ log ½
    penalty.backward()
    assert bool((method.scale.logits.grad < 0).all())  # a step down the penalty makes the scale larger

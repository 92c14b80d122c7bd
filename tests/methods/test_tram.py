import numpy as np
import pytest
import torch
from torch import nn

from lupi import methods, testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import TRAM
from lupi.methods.tram import het_tram, tram, tram_plus_plus, two_step_tram
from lupi.nn import Tower
from lupi.nn.heads import GaussianHead, HeteroscedasticHead, ProbitHead
from lupi.settings import Settings
from lupi.training import fit


def batch_of(likelihood=Categorical(), seed=0):
    data = testing.make_data(likelihood, seed)
    return data.by_annotation(torch.arange(len(data)))


def test_loss_is_the_papers():
    method = testing.make_method(tram, Categorical())
    method.beta = 0.7
    batch = batch_of()
    with torch.no_grad():
        phi = method.trunk(batch.x).numpy()[batch.row]
        w1, b1, w2, b2 = (p.numpy() for p in method.tower.parameters())
        hidden = np.maximum(batch.a.numpy() @ w1.T + b1, 0)
        psi = np.maximum(np.concatenate([hidden, phi], 1) @ w2.T + b2, 0)

        def loss(head, features):
            logits = features @ head.weight.numpy().T + head.bias.numpy()
            return np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(phi)), batch.y])

        expected = loss(method.marginal, phi) + 0.7 * loss(method.conditional, psi)
        assert float(method(batch)) == pytest.approx(expected, rel=1e-5)


def test_trunk_with_batch_norm_gets_no_gradient_from_the_marginal_loss():
    trunk = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 8))
    method = TRAM(trunk, Tower(4, 8), nn.Linear(64, 3), nn.Linear(8, 3))
    batch = batch_of()._replace(x=torch.randn(testing.EXAMPLES, 1, 8, 8))
    before = {name: tensor.clone() for name, tensor in method.named_buffers()}
    method.losses(batch)["marginal"].backward()
    assert {name.split(".")[0] for name, p in method.named_parameters() if p.grad is not None} == {"marginal"}
    changed = {name for name, tensor in method.named_buffers() if not torch.equal(tensor, before[name])}
    assert changed == {"trunk.1.running_mean", "trunk.1.running_var", "trunk.1.num_batches_tracked"}


def test_the_marginal_head_leaves_trunk_and_tower_as_if_it_were_not_there():
    data = testing.make_data(Categorical())
    one, other = (testing.make_method(tram, Categorical()) for _ in range(2))
    with torch.no_grad():
        other.marginal.weight.mul_(100)
    for method in (one, other):
        fit(method, data, Settings(epochs=3, batch_size=8, optimizer="sgd", learning_rate=0.1))
    for part in ("trunk", "tower", "conditional"):
        for p, q in zip(getattr(one, part).parameters(), getattr(other, part).parameters(), strict=True):
            assert torch.equal(p, q)


def test_beta_rescales_the_learning_rate_of_the_conditional_parts_only():
    data, settings = testing.make_data(Categorical()), Settings(epochs=1, batch_size=40, optimizer=torch.optim.SGD)
    steps = {}
    for beta in (1.0, 3.0):
        method = testing.make_method(lambda parts, beta=beta: tram(parts, beta=beta), Categorical())
        before = {name: p.clone() for name, p in method.named_parameters()}
        fit(method, data, settings)
        steps[beta] = {name: p.detach() - before[name] for name, p in method.named_parameters()}
    for name, step in steps[1.0].items():
        factor = 1 if name.startswith("marginal") else 3
        torch.testing.assert_close(steps[3.0][name], factor * step, atol=1e-6, rtol=1e-3)


def test_the_marginal_head_fits_the_frozen_features_in_two_steps():
    data = testing.make_data(Categorical())
    method = testing.make_method(two_step_tram, Categorical())
    history = fit(method, data, Settings(epochs=600, batch_size=40, learning_rate=0.02))
    assert list(dict.fromkeys(row["stage"] for row in history)) == ["transfer", "marginalize"]
    # at the optimum of a linear head on fixed features, residuals are orthogonal to the features
    with torch.no_grad():
        features = method.trunk(data.x[data.row])
        residual = Categorical().mean(method.marginal(features)) - nn.functional.one_hot(data.y, 3)
        assert float((residual.T @ features).abs().max()) / len(data) < 5e-3


@pytest.mark.parametrize(
    ("likelihood", "kind"),
    [(Categorical(), HeteroscedasticHead), (Bernoulli(), HeteroscedasticHead), (Gaussian(), GaussianHead)],
)
def test_het_tram_has_noisy_heads_where_it_is_told(likelihood, kind):
    for heads, noisy in (("both", (True, True)), ("conditional", (True, False)), ("marginal", (False, True))):
        method = het_tram(testing.make_parts(likelihood), heads=heads)
        assert (isinstance(method.conditional, kind), isinstance(method.marginal, kind)) == noisy
    probit = het_tram(testing.make_parts(Bernoulli()), factors=0)
    assert isinstance(probit.marginal, ProbitHead)
    with pytest.raises(ValueError, match=r"`heads` .*'none'"):
        het_tram(testing.make_parts(likelihood), heads="none")


def test_tram_plus_plus_gives_the_tower_the_same_random_features_at_every_epoch():
    method = tram_plus_plus(testing.make_parts(Categorical()), random=5)
    data = testing.make_data(Categorical())
    (stage,) = method.stages(data)
    first, second = stage.prepare(data), stage.prepare(data)
    assert first.a.shape == (testing.ANNOTATIONS, testing.PRIVILEGED + 5)
    assert torch.equal(first.a, second.a)
    assert torch.equal(first.a[:, : testing.PRIVILEGED], data.a)


def test_tram_plus_plus_memorises_what_tram_cannot():
    """Labels that are noise: with random features the conditional head can learn them by heart."""
    data = testing.make_data(Categorical())
    losses = {}
    for name in ("tram", "tram-plus-plus"):
        method = testing.make_method(lambda parts, name=name: methods.build(name, parts), Categorical())
        losses[name] = fit(method, data, Settings(epochs=300, batch_size=40, learning_rate=5e-3))[-1][
            "train_conditional"
        ]
    assert losses["tram-plus-plus"] < 0.1 * losses["tram"]

"""Batched matrix products give the losses and gradients of vmap, and are used only where they do."""

from functools import partial

import pytest
import torch
from torch import nn

from lupi import methods, testing
from lupi.data import Batch
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import NoPI
from lupi.training import Replicas
from lupi.training.replicas import can_concatenate, map_losses

NAMES = ["no-pi", "mean-imputation", "tram", "two-step-tram", "pi-dual", "pi-transition", "crowd-layer"]
CASES = [
    (name, likelihood)
    for name in NAMES
    for likelihood in (Categorical(), Bernoulli(), Gaussian())
    if isinstance(likelihood, methods.kind(name).likelihoods)
]


def stack(build, likelihood=Categorical()):
    """Make two stacked replicas, and a batch in which they have examples and several labels of their own."""
    sets = [testing.make_data(likelihood, seed) for seed in range(2)]
    members = [testing.make_method(build, likelihood, seed) for seed in range(2)]
    random = getattr(members[0], "random", 0)
    x, a, y = (torch.stack([getattr(part, name) for part in sets]) for name in ("x", "a", "y"))
    replicas = Replicas(members)
    replicas.stack()
    weight = torch.rand(2, testing.ANNOTATIONS, generator=torch.Generator().manual_seed(0))
    return replicas, Batch(x, sets[0].row, nn.functional.pad(a, (0, random)), y, weight=weight)


@pytest.mark.parametrize(("name", "likelihood"), CASES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_losses_and_gradients_are_those_of_vmap(name, likelihood, weighted):
    replicas, batch = stack(partial(methods.build, name), likelihood)
    assert can_concatenate(replicas.members[0])
    batch = batch if weighted else batch._replace(weight=None)
    results = []
    for losses in (replicas.losses, map_losses(replicas.members[0], replicas.stacked)):
        replicas.zero_grad()
        found = losses(batch)
        sum(value.sum() for value in found.values()).backward()
        results.append((found, {key: value.grad for key, value in replicas.stacked.items() if value.requires_grad}))
    assert all(value.shape == (2,) for value in results[0][0].values())
    torch.testing.assert_close(*results)


def test_one_label_per_example():
    replicas, batch = stack(partial(methods.build, "no-pi"))
    batch = Batch(batch.x, torch.arange(12), batch.a[:, :12], batch.y[:, :12], one_to_one=True)
    torch.testing.assert_close(replicas.losses(batch), map_losses(replicas.members[0], replicas.stacked)(batch))


class Centred(NoPI):
    """No PI whose outputs depend on the other annotations of the batch."""

    def losses(self, batch):
        output = batch.spread(self.marginal(self.trunk(batch.x)))
        return {"marginal": self.likelihood.loss(output - output.mean(0), batch.y, batch.weight)}


class Doubled(nn.Linear):
    """A layer that is not quite linear."""

    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    "build",
    [
        lambda parts: Centred(parts.trunk(), parts.head()),
        lambda parts: NoPI(nn.Sequential(parts.trunk(), nn.BatchNorm1d(8)), parts.head()),
        lambda parts: NoPI(parts.trunk(), Doubled(8, 3)),
        partial(methods.build, "geo-crowd-net"),
        partial(methods.build, "annot-mix"),
        partial(methods.build, "het-tram"),
        partial(methods.build, "heteroscedastic-dropout"),
        partial(methods.build, "miml-fcn-plus"),
    ],
)
def test_what_depends_on_other_rows_or_layers_stays_with_vmap(build):
    assert not can_concatenate(testing.make_method(build, Categorical()))


def test_dropout_follows_the_mode_and_differs_between_replicas():
    replicas, batch = stack(lambda parts: NoPI(nn.Sequential(parts.trunk(), nn.Dropout(0.5)), parts.head()))
    for member in replicas.members[1:]:
        member.load_state_dict(replicas.members[0].state_dict())
    same = batch._replace(x=batch.x[:1].expand(2, -1, -1), y=batch.y[:1].expand(2, -1), weight=None)
    first, second = replicas.train().losses(same)["marginal"]
    assert first != second
    first, second = replicas.eval().losses(same)["marginal"]
    assert first == second


def test_a_layer_without_a_bias():
    replicas, batch = stack(lambda parts: NoPI(parts.trunk(), nn.Linear(8, 3, bias=False)))
    assert can_concatenate(replicas.members[0])
    torch.testing.assert_close(replicas.losses(batch), map_losses(replicas.members[0], replicas.stacked)(batch))

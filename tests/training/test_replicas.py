"""Seeds that train together as replicas equal the same seeds trained one after another."""

import copy
import dataclasses
import math

import pytest
import torch
from torch import nn

from lupi import methods, testing
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.nn import MLP
from lupi.settings import Settings
from lupi.training import StackedAnnotations
from tests.training.replica_helpers import (
    HOW,
    assert_as_alone,
    assert_close,
    crowd,
    make_members,
    make_sets,
    of_one,
    sparse,
    train_alone,
    train_together,
)

NOISY = ("het-tram", "heteroscedastic-dropout")


CASES = [
    pytest.param(name, likelihood, id=f"{name}-{type(likelihood).__name__}")
    for name in ("no-pi", "tram", "two-step-tram", "full-marginalization", "pi-dual")
    for likelihood in (Categorical(), Bernoulli(), Gaussian())
    if isinstance(likelihood, methods.kind(name).likelihoods)
]


def one_each(data):
    """Every annotation with an example of its own."""
    return Annotations(data.x[data.row], torch.arange(len(data)), data.a, data.y)


def assert_same_history(history, expected):
    assert len(history) == len(expected)
    for row, other in zip(history, expected, strict=True):
        assert list(row) == list(other)
        assert row["stage"] == other["stage"]
        for name in (name for name in row if name not in ("stage", "device", "execution")):
            assert row[name] == pytest.approx(other[name], rel=1e-4, abs=1e-5, nan_ok=True), name


@pytest.mark.parametrize(("name", "likelihood"), CASES)
def test_replicas_are_the_seeds_trained_alone(name, likelihood):
    history, expected = assert_as_alone(make_members(name, likelihood), make_sets(likelihood))
    for number, rows in enumerate(expected):
        assert_same_history(of_one(history, number), rows)


HOWS = {
    "l2": Settings(l2=0.05),
    "sgd": Settings(optimizer="sgd", learning_rate=0.1),
    "sgd-l2": Settings(optimizer="sgd", learning_rate=0.1, l2=0.05),
    "adamw": Settings(optimizer="adamw", weight_decay=0.5),
    "cosine": Settings(schedule="cosine", warmup=0.7, learning_rate=0.02),
    "step": Settings(schedule="step", milestones=(0.5, 1.5), learning_rate=0.02),
    "one-batch": Settings(batch_size=99),
    "even-batches": Settings(batch_size=10),
    "clip": Settings(optimizer="sgd", learning_rate=0.1, clip=0.3),
}


@pytest.mark.parametrize("how", HOWS.values(), ids=HOWS)
def test_every_way_to_train(how):
    how = dataclasses.replace(how, epochs=3, batch_size=12 if how.batch_size == 64 else how.batch_size)
    how = how if how.learning_rate != 1e-3 else dataclasses.replace(how, learning_rate=0.01)
    assert_as_alone(make_members(), make_sets(), how)


@pytest.mark.parametrize("unannotated", [0, 4])
@pytest.mark.parametrize("shared", ["nothing", "x", "everything"])
@pytest.mark.parametrize("name", ["tram", "no-pi", "pi-dual"])
def test_batches_of_examples(name, shared, unannotated):
    sets = [crowd(seed, unannotated=unannotated) for seed in range(3)]
    if shared == "x":
        sets = [dataclasses.replace(part, x=sets[0].x) for part in sets]
    if shared == "everything":
        sets = [sets[0]] * 3
    how = dataclasses.replace(HOW, draw="examples", batch_size=4)
    assert_as_alone(make_members(name), sets, how)


@pytest.mark.parametrize("shared", ["x", "everything"])
def test_shared_data(shared):
    sets = make_sets()
    sets = [sets[0]] * 3 if shared == "everything" else [dataclasses.replace(part, x=sets[0].x) for part in sets]
    assert len(StackedAnnotations(sets).whole.x) == testing.EXAMPLES, "what is shared stands once"
    members = make_members()
    assert_as_alone(members, sets)
    assert not torch.allclose(members[0].marginal.weight, members[1].marginal.weight, atol=1e-3)


@pytest.mark.parametrize("name", ["tram", "pi-dual", "full-marginalization", "distilled-tram"])
def test_sparse_privileged_information(name):
    sets = [sparse(part, entries) for part, entries in zip(make_sets(), (1, 3, 2), strict=True)]
    assert_as_alone(make_members(name), sets)


def test_sparse_beside_dense_privileged_information():
    sets = make_sets()
    assert_as_alone(make_members(), [sets[0], sparse(sets[1], 2), sets[2]])


def test_inputs_of_one_source_for_all():
    class Source:
        def __init__(self, x):
            self.x, self.shape = x, x.shape

        def __getitem__(self, index):
            return self.x[index]

    sets, source = make_sets(), Source(torch.randn(testing.EXAMPLES, testing.INPUTS))
    assert_as_alone(make_members(), [dataclasses.replace(part, x=source) for part in sets])
    with pytest.raises(ValueError, match=r"`x` .*one source"):
        train_together(make_members(), [dataclasses.replace(part, x=Source(part.x)) for part in sets])


def normed():
    return nn.Sequential(nn.Linear(testing.INPUTS, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU())


def test_batch_norm_has_the_statistics_of_each_seed():
    members = make_members("no-pi", trunk=normed)
    assert_as_alone(members, [one_each(part) for part in make_sets()], dataclasses.replace(HOW, l2=0.05))
    means = [member.trunk[1].running_mean for member in members]
    assert not torch.allclose(means[0], means[1], atol=1e-2)
    assert [int(member.trunk[1].num_batches_tracked) for member in members] == [8, 8, 8]


class Tied(nn.Module):
    """Two layers with the same weight, and biases of their own."""

    def __init__(self):
        super().__init__()
        self.first, self.one, self.other = nn.Linear(testing.INPUTS, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.other.weight = self.one.weight

    def forward(self, x):
        return self.other(self.one(self.first(x)).tanh()).tanh()


def test_tied_parameters_stay_tied():
    members = make_members("tram", trunk=Tied)
    assert_as_alone(members, make_sets(), dataclasses.replace(HOW, l2=0.01))
    for member in members:
        assert member.trunk.other.weight is member.trunk.one.weight


def test_frozen_parameters_stay():
    members = make_members("tram")
    for member in members:
        member.trunk.requires_grad_(False)
        member.tower.first.bias.requires_grad_(False)
    start = [copy.deepcopy(member.state_dict()) for member in members]
    assert_as_alone(members, make_sets(), dataclasses.replace(HOW, l2=0.05))
    for member, before in zip(members, start, strict=True):
        frozen = {name for name, value in member.named_parameters() if not value.requires_grad}
        assert frozen == {"trunk.0.weight", "trunk.0.bias", "trunk.2.weight", "trunk.2.bias", "tower.first.bias"}
        assert all(torch.equal(member.state_dict()[name], before[name]) for name in frozen)


def test_bfloat16():
    members = make_members()
    alone, how = (
        copy.deepcopy(members),
        dataclasses.replace(HOW, precision="bfloat16", optimizer=torch.optim.SGD, learning_rate=0.1),
    )
    full = copy.deepcopy(members)
    train_together(full, make_sets(), dataclasses.replace(how, precision="float32"))
    train_together(members, make_sets(), how)
    train_alone(alone, make_sets(), how)
    one, other = (torch.cat([v.detach().flatten() for v in part[0].parameters()]) for part in (members, full))
    assert float((one - other).abs().max()) > 1e-5
    assert_close(members, alone, atol=1e-2)  # products are rounded otherwise
    assert {value.dtype for member in members for value in member.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", ["tram", "two-step-tram"])
def test_each_replica_stops_on_its_own(name):
    how = Settings(epochs=25, batch_size=12, learning_rate=0.03, patience=2)
    members, sets, held_out = make_members(name), make_sets(), make_sets(first=10)
    alone = copy.deepcopy(members)
    history = train_together(members, sets, how, validation=held_out)
    expected = train_alone(alone, sets, how, validation=held_out)
    assert_close(members, alone)
    lengths = [len(rows) for rows in expected]
    assert len(set(lengths)) > 1, "all stop at once"
    assert len(history) < 25 * (1 if name == "tram" else 2)
    for number, rows in enumerate(expected):
        assert_same_history(of_one(history, number), rows)
    epochs = {stage: sum(row["stage"] == stage for row in history) for stage in {row["stage"] for row in history}}
    for stage, length in epochs.items():
        assert length == max(sum(row["stage"] == stage for row in rows) for rows in expected)
    stopped = [rows[-1]["epoch"] for rows in expected]
    for value, last in zip(history[-1]["train_marginal"], stopped, strict=True):
        assert math.isnan(value) == (last < history[-1]["epoch"]), "a loss of a replica that had stopped"


def test_a_replica_that_diverges_is_named():
    members = make_members("no-pi")
    with torch.no_grad():
        members[1].marginal.weight.fill_(math.inf)
    with pytest.raises(FloatingPointError, match=r"marginal loss .*epoch 1 .*with seed 3"):
        train_together(members, make_sets())


def test_a_replica_may_diverge_after_it_has_stopped():
    members, sets = make_members("no-pi"), make_sets()
    how = Settings(epochs=12, batch_size=40, optimizer=torch.optim.SGD, learning_rate=1.0, patience=1)
    held_out = make_sets(first=10)
    sets[0] = dataclasses.replace(sets[0], x=1e4 * sets[0].x)  # its loss explodes
    held_out[1] = sets[1]  # its held-out loss falls and falls
    history = train_together(members, sets, how, validation=held_out)
    lengths = [len(of_one(history, number)) for number in range(3)]
    assert lengths[0] < lengths[1]
    assert all(bool(value.isfinite().all()) for member in members for value in member.parameters())


def with_dropout():
    return nn.Sequential(MLP(testing.INPUTS, (16, 8)), nn.Dropout(0.3))


@pytest.mark.parametrize(
    ("name", "trunk", "noisy"),
    [
        ("het-tram", None, True),
        ("heteroscedastic-dropout", None, True),
        ("tram", with_dropout, True),
        ("tram", None, False),
    ],
)
def test_noise_is_independent_and_repeatable(name, trunk, noisy):
    """Of equal seeds, weights and data, only the noise can make them differ."""
    data, results = testing.make_data(Categorical()), []
    for seed, before in ((5, 1), (5, 2), (6, 3)):
        members = make_members(name, trunk=trunk, seeds=(1, 1, 1))
        torch.manual_seed(before)
        state = torch.get_rng_state()
        train_together(members, [data] * 3, dataclasses.replace(HOW, batch_size=40), (seed, seed, seed))
        assert torch.equal(torch.get_rng_state(), state)
        assert not any(part.training for member in members for part in member.modules())
        results.append([torch.cat([value.detach().flatten() for value in member.parameters()]) for member in members])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (float((results[0][one] - results[0][other]).abs().max()) > 1e-3) == noisy
    for one, again, other in zip(*results, strict=True):
        assert torch.equal(one, again)
        assert (float((one - other).abs().max()) > 1e-3) == noisy

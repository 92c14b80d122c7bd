"""The members of replicas: their own parameters and buffers, before, during and after training."""

import copy
import dataclasses
import pickle
from functools import partial

import pytest
import torch
from torch import nn

from lupi import methods, testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import NoPI
from lupi.nn import MLP
from lupi.settings import Settings
from lupi.training import Checkpoint, Replicas, StackedAnnotations, fit, fit_seeds
from tests.training.helpers import interrupted
from tests.training.replica_helpers import (
    HOW,
    SEEDS,
    assert_as_alone,
    assert_close,
    crowd,
    make_members,
    make_sets,
    train_alone,
    train_together,
)


def assert_own_parameters(members):
    for member in members:
        for value in (*member.parameters(), *member.buffers()):
            assert value.untyped_storage().nbytes() == value.numel() * value.element_size()
            assert value.is_leaf
        assert all(value.requires_grad for value in member.parameters())
    places = [value.data_ptr() for member in members for value in member.parameters()]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("name", ["tram", "two-step-tram", "full-marginalization", "distilled-tram"])
def test_members_own_their_parameters(name):
    sets, how = make_sets(), dataclasses.replace(HOW, patience=1)
    members, (alone,) = make_members(name), make_members(name, seeds=SEEDS[:1])
    replicas = Replicas(members)
    fit(replicas, StackedAnnotations(sets), how, seed=SEEDS, validation=StackedAnnotations(sets))
    fit(alone, sets[0], HOW)
    assert_own_parameters(members)
    assert [name for name, _ in replicas.named_parameters() if "/" in name] == []
    size = len(pickle.dumps(alone))
    assert all(0.95 * size < len(pickle.dumps(member)) < 1.05 * size for member in members)
    again = copy.deepcopy(members[1])
    fit(members[1], sets[1], HOW)  # which trains it, and no other
    assert not torch.equal(next(again.parameters()), next(members[1].parameters()))


def test_members_own_their_parameters_after_an_error():
    class Fails(NoPI):
        def losses(self, batch):  # noqa: ARG002
            raise RuntimeError("no loss")

    members = [Fails(nn.Linear(testing.INPUTS, 8), nn.Linear(8, 3)) for _ in SEEDS]
    start = [copy.deepcopy(member.state_dict()) for member in members]
    with pytest.raises(RuntimeError, match="no loss") as caught:  # which keeps the frames alive
        train_together(members, make_sets())
    assert caught.traceback
    assert_own_parameters(members)
    for member, before in zip(members, start, strict=True):
        assert all(torch.equal(value, before[name]) for name, value in member.state_dict().items())


@pytest.mark.parametrize(
    ("name", "likelihood"), [("tram", Categorical()), ("full-marginalization", Bernoulli()), ("no-pi", Gaussian())]
)
def test_predictor_is_the_predictors_side_by_side(name, likelihood):
    members, sets = make_members(name, likelihood), make_sets(likelihood)
    replicas = Replicas(members)
    fit(replicas, StackedAnnotations(sets), HOW, seed=SEEDS)
    x, predictor = sets[0].x, replicas.predictor().eval()
    with torch.no_grad():
        output = predictor(x)
        assert output.shape == (testing.EXAMPLES, 3, testing.make_parts(likelihood).outputs)
        for number, member in enumerate(members):
            assert torch.equal(output[:, number], member.predictor().eval()(x))


def test_replicas_can_be_trained_again():
    """Another `fit` of the same replicas starts from where they are."""
    members, sets = make_members(), make_sets()
    alone = copy.deepcopy(members)
    for _ in range(2):
        train_together(members, sets)
        train_alone(alone, sets)
    assert_close(members, alone)


@pytest.mark.parametrize(
    ("name", "step", "patience"),
    [
        ("tram", 6, None),
        ("het-tram", 5, None),
        ("two-step-tram", 11, None),
        ("full-marginalization", 6, None),
        ("tram", 18, 2),
    ],
)
def test_resumed_replicas_equal_uninterrupted_ones(name, step, patience, tmp_path):
    sets = [
        dataclasses.replace(part, a=(part.a[:, :1] * scale).expand(-1, 4)) for scale, part in enumerate(make_sets())
    ]
    how = dataclasses.replace(HOW, epochs=2 if patience is None else 9, patience=patience, learning_rate=0.03)
    options = {"validation": make_sets(first=10), "checkpoint": Checkpoint(tmp_path / "run.pt", every=3)}
    uninterrupted, members, again = (make_members(name) for _ in range(3))
    history = train_together(uninterrupted, sets, how, validation=options["validation"])
    assert interrupted(train_together, step, members, sets, how, **options) == (None, step)
    assert repr(train_together(again, sets, how, **options)) == repr(history)  # NaN is not equal to NaN
    assert_close(again, uninterrupted, atol=0)
    assert_own_parameters(members)
    assert_own_parameters(again)
    with pytest.raises(ValueError, match=r"`seed` is \[7, 3, 11\]"):
        train_together(make_members(name), sets, how, seeds=(7, 3, 12), **options)


def test_best_weights_are_kept_once(tmp_path):
    """Weights, two moments of Adam and the best weights, of each replica once."""
    seeds = tuple(range(8))
    trunk = partial(MLP, testing.INPUTS, (64, 64))
    parts = dataclasses.replace(testing.make_parts(Categorical()), trunk=trunk, features=64)
    members, data = [methods.build("no-pi", parts) for _ in seeds], testing.make_data(Categorical())
    path, how = tmp_path / "run.pt", dataclasses.replace(HOW, patience=5)
    train_together(members, [data] * 8, how, seeds, validation=[data] * 8, checkpoint=Checkpoint(path))
    size = sum(4 * value.numel() for member in members for value in member.parameters())
    assert 4 * size < path.stat().st_size < 5 * size


SETS = make_sets()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fabric": object()}, "`fabric` to be None"),
        ({"seeds": (1, 2)}, r"`seed` .*3 replicas.*\(1, 2\)"),
        ({"seeds": 4}, "`seed` .*3 replicas.*4"),
        ({"seeds": (1, 2, -3)}, "`seed` .*-3"),
        ({"how": Settings(patience=1)}, "`validation` .*`patience`"),
        ({"sets": [*SETS[:2], SETS[2].take(torch.arange(30))]}, r"annotations for every seed.*\[30, 40\]"),
        (
            {"sets": [*SETS[:2], dataclasses.replace(SETS[2], a=torch.ones(40, 2))]},
            r"privileged features for every seed.*\[2, 4\]",
        ),
        (
            {"sets": [*SETS[:2], dataclasses.replace(SETS[2], x=torch.ones(12, 6))]},
            r"inputs for every seed.*\[\(5,\), \(6,\)\]",
        ),
        (
            {"how": Settings(draw="examples"), "sets": [crowd(0, 2, 6), crowd(0, 2, 6), crowd(0, 3, 4)]},
            r"annotations for every example.*\[2, 3\]",
        ),
    ],
)
def test_invalid_arguments_leave_the_members_untouched(arguments, message):
    members = make_members()
    start = [copy.deepcopy(member.state_dict()) for member in members]
    with pytest.raises(ValueError, match=message):
        train_together(members, **{"sets": SETS, **arguments})
    for member, before in zip(members, start, strict=True):
        assert all(torch.equal(value, before[name]) for name, value in member.state_dict().items())
    assert_own_parameters(members)


def test_networks_must_be_alike():
    frozen = make_members()
    frozen[1].trunk.requires_grad_(False)
    wider = [NoPI(nn.Identity(), nn.Linear(5, outputs)) for outputs in (2, 3)]
    other = [*make_members("tram")[:1], *make_members("no-pi")[:1]]
    for members in (frozen, wider, other):
        with pytest.raises(ValueError, match="same shapes and frozen parameters"):
            Replicas(members)


def with_kinds(data, kinds):
    """A training set whose a has `kinds` distinct rows."""
    return dataclasses.replace(data, a=torch.eye(testing.PRIVILEGED)[torch.arange(len(data)) % kinds])


def test_each_replica_keeps_its_own_rows():
    sets = [with_kinds(part, kinds) for part, kinds in zip(make_sets(), (2, 4, 3), strict=True)]
    members = make_members("full-marginalization")
    assert_as_alone(members, sets)
    assert [len(member.weight) for member in members] == [2, 4, 3]


class Reads(NoPI):
    """Has a buffer whose length is the seed's own, and a loss that reads it."""

    def __init__(self, length, read):
        super().__init__(nn.Linear(testing.INPUTS, 8), nn.Linear(8, 3))
        self.kept, self.read = nn.Buffer(torch.arange(1.0, 1 + length)), read

    def losses(self, batch):
        (loss,) = super().losses(batch).values()
        return {"marginal": self.read(loss, self.kept)}


READS = {
    "sum": lambda loss, kept: loss + kept.sum(),
    "mean": lambda loss, kept: loss * kept.mean(),
    "first": lambda loss, kept: loss * kept[0],
    "broadcast": lambda loss, kept: (loss * kept).sum(),
    "number": lambda loss, kept: loss * float(kept.sum()),
    "positive": lambda loss, kept: loss * (kept > 0).sum(),
    "length": lambda loss, kept: loss * kept.shape[0],
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_loss_that_reads_a_buffer_of_unequal_shape_fails(read):
    members = [Reads(length, read) for length in (1, 2, 3)]
    start = [copy.deepcopy(member.state_dict()) for member in members]
    with pytest.raises((RuntimeError, ValueError), match=r"uninitialized parameter"):
        train_together(members, make_sets())
    for member, before in zip(members, start, strict=True):
        assert all(torch.equal(value, before[name]) for name, value in member.state_dict().items())
    assert_own_parameters(members)
    members, sets, seeds = [*members, Reads(4, read)], [*make_sets(), testing.make_data(Categorical(), 9)], (*SEEDS, 9)
    alone = copy.deepcopy(members)
    with pytest.warns(UserWarning, match=r"^Training 4 seeds one after another.*uninitialized parameter"):
        fit_seeds(members, sets, HOW, seeds=seeds)
    train_alone(alone, sets, seeds=seeds)
    assert_close(members, alone, atol=0)

"""Stages of several networks: together or one after another, with settings, held-out sets and memory of their own."""

import copy
import dataclasses
from contextlib import closing

import pytest
import torch
from torch import nn

from lupi import methods, testing
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import Method, NoPI
from lupi.methods.base import Remembered, Stage, join_stages
from lupi.nn.inference import over_examples
from lupi.settings import Settings
from lupi.training import Checkpoint, StackedAnnotations, fit
from lupi.training.fitting import can_stack, change_sets, iterate_stages, split_stage
from lupi.training.loop import Training
from lupi.training.stepper import OneDevice
from tests.training.helpers import assert_equal, interrupted, weights

HOW = Settings(epochs=3, batch_size=100, learning_rate=0.01)
"""One batch per epoch, so that its order does not matter."""
CPU = OneDevice("cpu", "float32")


def make_sets(count=5):
    return [testing.make_data(Categorical(), seed) for seed in range(count)]


class Several(Method):
    """Trains networks of its own, each on its own set; then a head, with what it remembers of them."""

    uses_privileged = False
    gradients = {"marginal": ("last",)}  # noqa: RUF012
    means = Remembered()

    def __init__(self, count=5, trunk=None, **stage):
        super().__init__()
        parts = testing.make_parts(Categorical())
        parts = parts if trunk is None else dataclasses.replace(parts, trunk=trunk)
        self.networks = [methods.build("no-pi", parts) for _ in range(count)]
        self.last = NoPI(nn.Identity(), nn.Linear(testing.INPUTS, 3))
        self.likelihood, self.stage, self.finished = Categorical(), stage, []

    def losses(self, batch):
        return self.last.losses(batch)

    def predictor(self):
        return self.last.predictor()

    def finish(self, data):
        self.finished.append(data)
        each = [over_examples(network.predictor(), data.x).softmax(-1) for network in self.networks]
        self.means["of all"] = torch.stack(each).mean(0)

    def stages(self, data):
        options = {"prepare": lambda _: make_sets(len(self.networks)), "finish": self.finish} | self.stage
        yield Stage("several", self.networks, **options)
        yield Stage(
            "last", self.last, lambda _: Annotations(data.x, torch.arange(12), torch.zeros(12, 0), self.means["of all"])
        )


def states(method):
    return [weights(network) for network in method.networks]


def assert_networks_close(one, other, atol=1e-4):
    for first, second in zip(states(one), states(other), strict=True):
        for name, value in first.items():
            torch.testing.assert_close(second[name], value, rtol=0, atol=atol, msg=name)


# ---------------------------------------------------------------------------- together, or one after another


@pytest.mark.parametrize("count", [2, 5])
def test_networks_train_as_they_would_alone(count):
    method = Several(count)
    alone = copy.deepcopy(method)
    history = fit(method, make_sets()[0], HOW)
    for network, data in zip(alone.networks, make_sets(count), strict=True):
        fit(network, data, HOW)
    assert_networks_close(method, alone)
    names = list(dict.fromkeys(row["stage"] for row in history))
    assert names == (["several", "last"] if count == 5 else ["several 1/2", "several 2/2", "last"])


class Branching(nn.Module):
    """A trunk with control flow that depends on data, which vmap does not support."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(testing.INPUTS, 8)

    def forward(self, x):
        return self.linear(x) if float(x.sum()) > 1e9 else self.linear(x).relu()


class Plain(Branching):
    def forward(self, x):
        return self.linear(x).relu()


def test_what_vmap_does_not_support_trains_one_after_another():
    data = make_sets()[0]
    together, apart = Several(trunk=Plain), Several(trunk=Branching)
    for network, other in zip(together.networks, apart.networks, strict=True):
        other.load_state_dict(network.state_dict())
    apart.last.load_state_dict(together.last.state_dict())
    stage, split = next(together.stages(data)), next(apart.stages(data))
    assert can_stack(stage, data, HOW, CPU)
    assert not can_stack(split, data, HOW, CPU)
    history = [fit(method, data, HOW) for method in (together, apart)]  # a warning would be an error
    assert_networks_close(together, apart)
    assert {row["stage"] for row in history[1]} == {*(f"several {n}/5" for n in range(1, 6)), "last"}
    for row, name in ((history[0][2], "together"), (history[1][2], "apart")):
        assert isinstance(row["train_marginal"], list) == (name == "together")


def test_running_statistics_are_those_of_training_alone():
    def normed():
        return nn.Sequential(nn.Linear(testing.INPUTS, 8, bias=False), nn.BatchNorm1d(8))

    sets = [dataclasses.replace(data.take(torch.arange(12)), row=torch.arange(12)) for data in make_sets()]
    method = Several(trunk=normed, prepare=lambda _: sets)
    alone = copy.deepcopy(method)
    fit(method, make_sets()[0], HOW)
    for network, data in zip(alone.networks, sets, strict=True):
        fit(network, data, HOW)
    assert_networks_close(method, alone)
    assert all(int(network.trunk[1].num_batches_tracked) == 3 for network in method.networks)


def test_a_probe_changes_neither_networks_nor_noise():
    method, data = (
        Several(trunk=lambda: nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout())),
        make_sets()[0],
    )
    before, noise = copy.deepcopy(states(method)), torch.get_rng_state()
    assert can_stack(next(method.stages(data)), data, HOW, CPU)
    assert torch.equal(torch.get_rng_state(), noise)
    for state, expected in zip(states(method), before, strict=True):
        assert_equal(state, expected)


@pytest.mark.parametrize("which", ["prepare", "split_validation"])
def test_sets_of_different_sizes_train_one_after_another(which):
    """Also if the sets of the first two networks have one size."""
    sets = [data.take(torch.arange(30 if number == 3 else 40)) for number, data in enumerate(make_sets())]
    method, data = Several(**{which: lambda _: sets}), make_sets()[0]
    history = fit(method, data, HOW)
    assert [row["stage"] for row in history[::3]] == [*(f"several {n}/5" for n in range(1, 6)), "last"]


@pytest.mark.parametrize(("draw", "together"), [("annotations", True), ("examples", False)])
def test_examples_with_different_numbers_of_labels_are_drawn_one_after_another(draw, together):
    how = dataclasses.replace(HOW, draw=draw)
    history = fit(Several(), make_sets()[0], how)
    assert (history[0]["stage"] == "several") == together


def test_a_split_stage_prepares_each_set_and_finishes_once():
    sets, calls = make_sets(3), []
    stage = Stage(
        "s",
        [NoPI(nn.Identity(), nn.Linear(5, 3)) for _ in range(3)],
        lambda _: sets,
        prepare_validation=lambda _: sets[::-1],
        split_validation=lambda _: [sets[1]] * 3,
        adapt=lambda how: dataclasses.replace(how, epochs=7),
        finish=calls.append,
    )
    parts = list(split_stage(stage))
    assert [part.name for part in parts] == ["s 1/3", "s 2/3", "s 3/3"]
    assert [part.method for part in parts] == list(stage.method)
    assert all(part.prepare(None) is own for part, own in zip(parts, sets, strict=True))
    assert all(part.prepare_validation(None) is own for part, own in zip(parts, sets[::-1], strict=True))
    assert all(part.split_validation(None) is sets[1] for part in parts)
    assert {part.adapt(HOW).epochs for part in parts} == {7}
    assert [part.finish is None for part in parts] == [True, True, False]
    stacked = change_sets(stage, StackedAnnotations)
    for function, expected in (
        (stacked.prepare, sets),
        (stacked.prepare_validation, sets[::-1]),
        (stacked.split_validation, [sets[1]] * 3),
    ):
        assert all(own is part for own, part in zip(function(None).parts, expected, strict=True))
    assert stacked.finish is stage.finish


def test_networks_are_separate_after_their_stage():
    """Also if training breaks off."""
    method, data = Several(), make_sets()[0]
    training = Training(method=method, data=data, validation=None, settings=HOW, place=CPU, seeds=[0], history=[])
    with closing(iterate_stages(training)) as stages:
        assert next(stages)[1] == method.networks
        assert count_storages(method) == 1
    for network in method.networks:
        assert all(parameter.requires_grad for parameter in network.parameters())
    assert count_storages(method) == 5


def count_storages(method):
    return len({network.marginal.weight.untyped_storage().data_ptr() for network in method.networks})


# ---------------------------------------------------------------------------- adapt, validate, finish, memory


@pytest.mark.parametrize("count", [2, 5])
def test_a_stage_adapts_the_settings(count):
    adapt = lambda how: dataclasses.replace(how, epochs=7, learning_rate=0.5, schedule="cosine")  # noqa: E731
    history = fit(Several(count, adapt=adapt), make_sets()[0], HOW)
    several = [row for row in history if row["stage"] != "last"]
    last = [row for row in history if row["stage"] == "last"]
    assert max(row["epoch"] for row in several) == 7
    assert several[0]["learning_rate"] == 0.5
    assert several[6]["learning_rate"] == pytest.approx(
        0.5 * HOW.rate(0) * (1 + torch.tensor(6 * torch.pi / 7).cos()) / 2
    )
    assert [row["learning_rate"] for row in last] == [0.01] * 3


@pytest.mark.parametrize("count", [2, 5])
def test_a_stage_stops_on_its_own_held_out_sets(count):
    """Whatever is held out for the whole training; each network restores its best weights."""
    held = [testing.make_data(Categorical(), 50 + number) for number in range(count)]
    adapt = lambda how: dataclasses.replace(how, epochs=60, patience=2, learning_rate=0.05)  # noqa: E731
    method = Several(count, adapt=adapt, split_validation=lambda _: held)
    alone = copy.deepcopy(method)
    history = fit(method, make_sets()[0], HOW, validation=testing.make_data(Categorical(), 99))
    epochs = set()
    for network, data, own in zip(alone.networks, make_sets(count), held, strict=True):
        epochs.add(len(fit(network, data, adapt(HOW), validation=own)))
    assert len(epochs) > 1
    assert_networks_close(method, alone, 1e-3)
    assert max(row["epoch"] for row in history if row["stage"] != "last") == max(epochs) < 60


@pytest.mark.parametrize("count", [2, 5])
def test_a_stage_finishes_once_with_the_training_set(count):
    method, data = Several(count), make_sets()[0]
    seen = []
    original = method.finish
    method.stage["finish"] = lambda part: (
        seen.append([weights(network) for network in method.networks]),
        original(part),
    )
    fit(method, data, HOW)
    assert len(method.finished) == 1
    assert torch.equal(method.finished[0].y, data.y)
    for state, network in zip(seen[0], method.networks, strict=True):
        assert_equal(state, weights(network))
    assert method.memory == {}, "emptied"


def test_join_stages_gives_every_method_its_own():
    sets, finished = make_sets(2), []
    networks = [NoPI(nn.Identity(), nn.Linear(5, 3)) for _ in range(3)]
    one = Stage(
        "s", networks[0], lambda data: data.take(torch.arange(10)), finish=lambda data: finished.append(("one", data))
    )
    two = Stage(
        "s",
        networks[1:],
        lambda data: [data, data.take(torch.arange(20))],
        finish=lambda data: finished.append(("two", data)),
    )
    joint = join_stages([one, two], lambda _: sets)
    assert list(joint.method) == networks
    made = joint.prepare(None)
    assert [len(part) for part in made] == [10, 40, 20]
    assert made[1] is sets[1]
    assert torch.equal(made[0].y, sets[0].y[:10])
    assert [len(part) for part in joint.prepare_validation(None)] == [10, 40, 20], "as `prepare` by default"
    joint.finish(None)
    assert finished == [("one", sets[0]), ("two", sets[1])]
    assert joint.split_validation is None


@pytest.mark.parametrize("count", [2, 5])
def test_memory_and_networks_survive_a_checkpoint(tmp_path, count):
    """Broken off before every step, and resumed by a method with other initial weights."""
    data, total = make_sets()[0], (count if count < 4 else 1) * 6 + 3
    how = dataclasses.replace(HOW, batch_size=20)
    torch.manual_seed(0)
    whole = Several(count)
    history = fit(whole, data, how)
    for step in range(1, total):
        torch.manual_seed(0)
        path = tmp_path / f"{step}.pt"
        assert interrupted(fit, step, Several(count), data, how, checkpoint=Checkpoint(path, every=2)) == (None, step)
        torch.manual_seed(int(path.exists()))
        again = Several(count)
        resumed, steps = interrupted(fit, None, again, data, how, checkpoint=Checkpoint(path, every=2))
        assert resumed == history
        assert_equal(weights(again), weights(whole))
        assert steps <= total - step + 1
        assert again.memory == {}


def test_a_checkpoint_of_other_stages_is_refused(tmp_path):
    """The same networks train together on one device, and one after another on another."""
    data, checkpoint = make_sets()[0], Checkpoint(tmp_path / "run.pt", every=1)
    for step, message in ((2, "'several' and is now 'several 1/5'"), (4, "'last' and is now 'several 2/5'")):
        interrupted(fit, step, Several(), data, HOW, checkpoint=checkpoint)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lupi.training.fitting.MIN_STACKED", 6)
            with pytest.raises(ValueError, match=message):
                fit(Several(), data, HOW, checkpoint=checkpoint)
        (tmp_path / "run.pt").unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lupi.training.fitting.MIN_STACKED", 6)
        interrupted(fit, 14, Several(), data, HOW, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="'several 5/5' and is now 'none'"):
        fit(Several(), data, HOW, checkpoint=checkpoint)

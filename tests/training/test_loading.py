"""Inputs that are not in memory, or have names: read in this process or in workers, with the same result."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, get_worker_info

from lupi.data import Annotations
from lupi.methods import build
from lupi.methods.auto import Auto
from lupi.nn.inference import over_examples
from lupi.settings import Settings
from lupi.training import Checkpoint, fit
from tests.training.helpers import (
    HOW,
    assert_equal,
    global_states,
    interrupted,
    make_data,
    make_method,
    make_parts,
    one_thread,
    weights,
)

METHODS = ["tram", "distilled-tram", "two-step-tram"]


class Items(Dataset):
    """The rows of a tensor, one by one; random ones with noise, as random crops would have."""

    def __init__(self, x, noise=0.0):
        self.x, self.noise = x, noise

    def __len__(self):
        return len(self.x)

    def __getitem__(self, row):
        return self.x[row] + self.noise * torch.randn(4)


class Source:
    """Rows that are read when they are indexed."""

    def __init__(self, x):
        self.x, self.shape = x, tuple(x.shape)

    def __getitem__(self, index):
        return self.x[index]


def train(name, data, how=HOW, **options):
    method = make_method(name)
    return fit(method, data, how, **options), weights(method)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("kind", [Items, Source, list])
@pytest.mark.parametrize("draw", ["annotations", "examples"])
def test_any_source_trains_the_same_network(name, kind, draw):
    data, held_out = make_data(), make_data(seed=1)
    how = dataclasses.replace(HOW, draw=draw)
    history, expected = train(name, data, how, validation=held_out)
    sources = [dataclasses.replace(part, x=kind(part.x)) for part in (data, held_out)]
    found, other = train(name, sources[0], how, validation=sources[1])
    assert found == history
    assert_equal(other, expected)


@pytest.mark.parametrize("kind", [Items, Source])
def test_the_number_of_workers_changes_nothing(kind):
    """Not even for items that draw random numbers, as random crops do."""
    data, held_out = make_data(), make_data(seed=1)
    noise = {"noise": 0.5} if kind is Items else {}
    sources = [dataclasses.replace(part, x=kind(part.x, **noise)) for part in (data, held_out)]
    before = global_states()
    runs = [
        train("distilled-tram", sources[0], dataclasses.replace(HOW, workers=workers), validation=sources[1])
        for workers in (0, 1, 2)
    ]
    assert global_states() == before
    for history, state in runs[1:]:
        assert history == runs[0][0]
        assert_equal(state, runs[0][1])
    plain = train("distilled-tram", data, validation=held_out)
    assert (runs[0][0] == plain[0]) == (kind is Source), "the noise of items has an effect"


def test_items_draw_anew_in_every_step():
    seen = []

    class Watched(Items):
        def __getitem__(self, row):
            seen.append((row, float(super().__getitem__(row)[0])))
            return self.x[row]

    data = make_data()
    train("no-pi", dataclasses.replace(data, x=Watched(data.x, noise=1.0)))
    assert len(set(seen)) == len(seen) > 40


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("step", [2, 4])
def test_a_run_resumes_within_an_epoch(tmp_path, workers, step):
    data = make_data()
    source = dataclasses.replace(data, x=Items(data.x, noise=0.5))
    history, expected = train("tram", source)
    how, checkpoint = dataclasses.replace(HOW, workers=workers), Checkpoint(tmp_path / "run.pt", every=1)
    assert interrupted(fit, step, make_method(), source, how, checkpoint=checkpoint) == (None, step)
    again = make_method(seed=2)
    how = dataclasses.replace(HOW, workers=2 - workers)
    assert interrupted(fit, None, again, source, how, checkpoint=checkpoint) == (history, 12 - step)
    assert_equal(weights(again), expected)


def test_workers_read_everything():
    """Batches, held-out batches, and what teachers predict."""

    class Elsewhere(Items):
        def __getitem__(self, row):
            assert get_worker_info() is not None
            return super().__getitem__(row)

    data, held_out = make_data(), make_data(seed=1)
    data, held_out = (dataclasses.replace(part, x=Elsewhere(part.x)) for part in (data, held_out))
    for name in METHODS:
        train(name, data, Settings(epochs=1, workers=1), validation=held_out)


class Unreadable(Items):
    def __getitem__(self, row):
        if row == 7:
            raise OSError("image file is truncated\n(3 bytes not processed)")
        return super().__getitem__(row)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("named", [False, True])
def test_an_unreadable_item_is_named(workers, named):
    data = make_data()
    source = Unreadable(data.x)
    if named:
        source.paths = [f"cats/{row}.jpg" for row in range(11)]
    which = "row 7 of `x`" + (" (cats/7.jpg)" if named else "")
    with pytest.raises(OSError, match=r"^Expected .*\.$|processed\)$") as caught:
        train("tram", dataclasses.replace(data, x=source), Settings(workers=workers))
    assert str(caught.value) == (
        f"Expected {which} to be readable, but got OSError: image file is truncated (3 bytes not processed)"
    )


@pytest.mark.parametrize("workers", [0, 1])
def test_items_must_be_tensors_of_one_shape(workers):
    data, how = make_data(), Settings(workers=workers)
    pairs = [(row, 3) for row in data.x]
    with pytest.raises(ValueError, match="to be tensors or dicts of tensors, but got tuple in row"):
        train("tram", dataclasses.replace(data, x=pairs), how)
    ragged = [torch.zeros(4 + row % 2) for row in range(11)]
    with pytest.raises(ValueError, match=r"to have one shape, but got \(4,\), \(5,\)\."):
        train("tram", dataclasses.replace(data, x=ragged), how)


def test_a_worker_that_dies_is_one_sentence():
    program = Path(__file__).parent / "programs" / "lose_a_worker.py"
    environment = one_thread() | {"PYTHONPATH": f"{Path(__file__).parents[2]}:{one_thread().get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("Expected worker processes to read `x`, but one of them died: ")


# ---------------------------------------------------------------- inputs with names


class Named(nn.Module):
    """A linear layer of the sum of two inputs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 8)

    def forward(self, x):
        return torch.relu(self.linear(x["one"] + x["two"])) if isinstance(x, dict) else torch.relu(self.linear(x))


class NamedItems(Items):
    def __getitem__(self, row):
        return {"one": self.x[row] / 2, "two": self.x[row] / 2}


def make_named(name):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return build(name, make_parts(Named))


@pytest.mark.parametrize("name", ["tram", "two-step-tram", "distillation", "label-posterior", "auto", "stack"])
@pytest.mark.parametrize("kind", ["memory", "items"])
def test_inputs_may_have_names(monkeypatch, name, kind):
    """A method trains the same network on them as on their sum, except that none are combined, linear or penalized."""
    monkeypatch.setattr(Auto, "mixes_linear", False)
    monkeypatch.setattr("lupi.methods.label_posterior.L2", 0.0)
    options = {"combined_inputs": 0} if name in ("label-posterior", "auto") else {}
    data = make_data()
    x = {"one": data.x / 2, "two": data.x / 2} if kind == "memory" else NamedItems(data.x)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        method = build(name, make_parts(Named), **options)
        torch.manual_seed(1)
        other = build(name, make_parts(Named))
    history = fit(method, data, HOW, validation=make_data(seed=1))
    held_out = dataclasses.replace(make_data(seed=1), x=NamedItems(make_data(seed=1).x))
    assert fit(other, dataclasses.replace(data, x=x), HOW, validation=held_out) == history
    assert_equal(weights(method), weights(other))
    assert torch.equal(over_examples(other.predictor(), x), over_examples(method.predictor(), data.x))


def test_names_must_have_equal_numbers_of_rows():
    with pytest.raises(ValueError, match=r"equal numbers of rows, but got \{'one': 3, 'two': 2\}"):
        Annotations({"one": torch.zeros(3), "two": torch.zeros(2)}, torch.arange(2), torch.zeros(2, 0), torch.zeros(2))


def test_a_checkpoint_tells_inputs_with_names_apart(tmp_path):
    data, kept = make_data(), Checkpoint(tmp_path / "run.pt")
    for scale in (1, 2):
        named = dataclasses.replace(data, x={"one": data.x, "two": scale * data.x})
        if scale == 2:
            with pytest.raises(ValueError, match="checksum of the data"):
                fit(make_named("tram"), named, HOW, checkpoint=kept)
        else:
            fit(make_named("tram"), named, HOW, checkpoint=kept)

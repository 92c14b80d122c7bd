"""Checkpoints: which files are refused, and that reading one runs no code."""

import dataclasses
import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from lupi.methods import NoPI
from lupi.nn import MLP
from lupi.training import Checkpoint, fit
from tests.training.helpers import HOW, SEED, assert_equal, interrupted, make_data, make_method, weights


@pytest.mark.parametrize("every", [0, -1, 2.5, None, True])
def test_every_must_be_a_positive_integer(every):
    with pytest.raises(ValueError, match=f"`every` .*{every!r}"):
        Checkpoint("here", every=every)


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint at step 6."""
    path = tmp_path / "run.pt"
    interrupted(fit, 7, make_method(), make_data(), HOW, seed=SEED, checkpoint=Checkpoint(path, every=3))
    return path


def resume(path, method=None, data=None, how=HOW, **options):
    method = make_method() if method is None else method
    fit(method, make_data() if data is None else data, how, checkpoint=Checkpoint(path), **{"seed": SEED, **options})


def changed(part, value):
    return dataclasses.replace(make_data(), **{part: value(getattr(make_data(), part))})


OTHER_RUNS = {
    "seed": {"seed": 4},
    "learning_rate": {"how": dataclasses.replace(HOW, learning_rate=0.02)},
    "epochs": {"how": dataclasses.replace(HOW, epochs=3)},
    "method": {"method": make_method("no-pi")},
    "checksum of the network and its options": {"method": make_method(width=9)},
    "annotations": {"data": make_data(annotations=24)},
    "checksum of the validation": {"validation": make_data()},
}


CHANGES = {
    "x": lambda x: x.index_fill(0, torch.tensor([10]), 0.5),
    "row": lambda row: row.flip(0),
    "a": lambda a: a + 1,
    "y": lambda y: (y + (torch.arange(23) == 22)) % 3,
    "annotator": lambda _: torch.arange(23) % 2,
}


@pytest.mark.parametrize(
    ("name", "options", "others"),
    [
        ("generalized-distillation", {"weight": 0.0}, {"weight": 1.0}),
        ("tram", {"beta": 1.0}, {"beta": 2.0}),
        ("full-marginalization", {"samples": 3}, {"samples": 4}),
    ],
)
def test_the_checkpoint_of_other_options_is_refused(tmp_path, name, options, others):
    checkpoint, data = Checkpoint(tmp_path / "run.pt"), make_data()
    fit(make_method(name, **options), data, HOW, seed=SEED, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="`checksum of the network and its options`"):
        fit(make_method(name, **others), data, HOW, seed=SEED, checkpoint=checkpoint)


def test_the_checkpoint_of_another_activation_is_refused(tmp_path):
    checkpoint, data = Checkpoint(tmp_path / "run.pt"), make_data()
    one, other = (NoPI(MLP(4, (8,), activation=kind), nn.Linear(8, 3)) for kind in (nn.ReLU, nn.Tanh))
    fit(one, data, HOW, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="`checksum of the network and its options`"):
        fit(other, data, HOW, checkpoint=checkpoint)


@pytest.mark.parametrize(
    ("named", "run"),
    [*OTHER_RUNS.items(), *[("checksum of the data", {"data": changed(*change)}) for change in CHANGES.items()]],
)
def test_the_checkpoint_of_another_run_is_refused(checkpoint, named, run):
    method = run.get("method") or make_method()
    start, stored = weights(method), checkpoint.read_bytes()
    with pytest.raises(ValueError, match=f"{checkpoint} .*`{named}` is .*, not .*"):
        resume(checkpoint, **{**run, "method": method})
    assert_equal(start, weights(method))
    assert checkpoint.read_bytes() == stored


@pytest.mark.parametrize("seed", range(6))
def test_a_corrupt_file_is_refused(checkpoint, seed):
    stored = checkpoint.read_bytes()
    cut = int(np.random.default_rng(seed).integers(len(stored)))
    noise = np.random.default_rng(seed).bytes(1000)
    for content in (stored[:cut], noise, b"", b"run: 1\n"):
        checkpoint.write_bytes(content)
        with pytest.raises(ValueError, match=f"{checkpoint} .*cannot be read"):
            resume(checkpoint)
        assert checkpoint.read_bytes() == content


@pytest.mark.parametrize("content", [torch.ones(3), {"weight": torch.ones(3)}, [1, 2], {"run": 3}])
def test_another_file_of_torch_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "run.pt")
    with pytest.raises(ValueError, match=r"run\.pt .*cannot be read"):
        resume(tmp_path / "run.pt")


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_a_checkpoint_runs_no_code(checkpoint, tmp_path):
    trap = tmp_path / "trap"
    pickle.loads(pickle.dumps(Malicious(trap)))
    assert trap.exists()  # the trap works
    trap.rmdir()
    state = torch.load(checkpoint, weights_only=True)
    torch.save({**state, "history": Malicious(trap)}, checkpoint)
    with pytest.raises(ValueError, match="cannot be read"):
        resume(checkpoint)
    checkpoint.write_bytes(pickle.dumps(Malicious(trap), protocol=2))
    with pytest.raises(ValueError, match="cannot be read"):
        resume(checkpoint)
    assert not trap.exists()


def test_a_full_disk_keeps_the_last_checkpoint(checkpoint, monkeypatch):
    def full(state, file):  # noqa: ARG001
        file.write(b"the beginning")
        raise OSError("No space left on device")

    stored = checkpoint.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", full)
        with pytest.raises(OSError, match="No space left"):
            fit(make_method(), make_data(), HOW, seed=SEED, checkpoint=Checkpoint(checkpoint, every=3))
    assert checkpoint.read_bytes() == stored
    expected, method = make_method(), make_method(seed=2)
    fit(expected, make_data(), HOW, seed=SEED)
    resume(checkpoint, method)
    assert_equal(weights(expected), weights(method))
    assert [path.name for path in checkpoint.parent.iterdir()] == ["run.pt"]


@pytest.mark.parametrize("step", [1, 10, 15, 20])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("since", [0.0, 59.0, 60.0, 1e9])
def test_a_checkpoint_is_due_after_steps_and_seconds(step, last, since):
    due = Checkpoint("state.pt", every=10, seconds=60).is_due(step, last=last, since=since)
    assert due == ((last or step in (10, 20)) and since >= 60)
    assert Checkpoint("state.pt", every=10).is_due(step, last=last, since=since) == (last or step in (10, 20))


def test_processes_save_together(tmp_path):
    fabric = SimpleNamespace(world_size=2, device=torch.device("cpu"))
    with pytest.raises(ValueError, match="Expected `seconds` of the checkpoint to be 0 with processes, but got 5"):
        fit(make_method(), make_data(), fabric=fabric, checkpoint=Checkpoint(tmp_path / "state.pt", seconds=5))

"""A training that is interrupted resumes from a checkpoint beside its output, and reaches the same model."""

import pandas as pd
import pytest

from lupi.serving import train, training
from lupi.tabular import TableSpec
from lupi.training import Checkpoint

KEPT = ".model.lupi-checkpoint"


@pytest.fixture
def start(table, tmp_path, monkeypatch):
    """Return a function that trains a small model, and is interrupted after some checkpoints."""
    monkeypatch.setattr(training, "INTERVAL", 0.0)

    def run(interrupt=None, method="tram", **options):
        write, written = Checkpoint.write, []

        def save(self, state):
            write(self, state)
            written.append((state["stage"], state["epoch"], state["step"]))
            if len(written) == interrupt:
                raise KeyboardInterrupt

        settings = {"epochs": 2, "hidden": (8,), **options.pop("settings", {})}
        spec = TableSpec(table=table, target=["label"], privileged=["worker"])
        with monkeypatch.context() as patch:
            patch.setattr(Checkpoint, "write", save)
            try:
                return train(spec, method=method, settings=settings, output=tmp_path / "model", **options), written
            except KeyboardInterrupt as stopped:
                return str(stopped), written

    return run


@pytest.mark.parametrize("method", ["tram", "auto"])
def test_an_interrupted_training_resumes_and_reaches_the_same_model(method, start, frame, tmp_path):
    settings = {"epochs": 1} if method == "auto" else {}
    whole, written = start(method=method, settings=settings)
    weights = (tmp_path / "model" / "weights.safetensors").read_bytes()
    assert not (tmp_path / KEPT).exists()
    half = len(written) // 2
    message, before = start(half, method=method, settings=settings, overwrite=True)
    assert message == (
        f"Training was interrupted: run it again, with the same options, to resume from {tmp_path / KEPT}, "
        "which is at most a minute old."
    )
    lines = []
    again, after = start(method=method, settings=settings, overwrite=True, notify=lines.append)
    assert before + after == written
    assert f"Resuming from {tmp_path / KEPT}." in lines
    pd.testing.assert_frame_equal(again.predict(frame), whole.predict(frame))
    assert (tmp_path / "model" / "weights.safetensors").read_bytes() == weights
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    assert again.estimator.training is None


def test_another_training_does_not_resume(start, tmp_path):
    start(1)
    with pytest.raises(ValueError, match=r"its `learning_rate` is 0.001, not 0.1; remove it to start again"):
        start(settings={"learning_rate": 0.1})
    assert sorted(path.name for path in tmp_path.iterdir()) == [KEPT]
    start(settings={"learning_rate": 0.1}, checkpoint=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_short_training_saves_no_state(start, monkeypatch):
    monkeypatch.setattr(training, "INTERVAL", 3600.0)
    assert start()[1] == []


def test_an_interrupt_before_the_first_checkpoint_says_so(start, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit_table", interrupt)
    assert start()[0] == (
        "Training was interrupted: run it again, with the same options, to start again, "
        "since the first checkpoint is due after a minute."
    )
    assert start(checkpoint=False)[0] == ""

"""A checkpointed run can be extended to more epochs."""

import dataclasses

import pytest
import torch

from lupi.training import Checkpoint, Replicas, StackedAnnotations, fit
from tests.training.helpers import HOW, SEED, assert_equal, interrupted, make_data, make_method, weights

OPTIONS = {
    "plain": {},
    "steps": {"schedule": "step", "milestones": (2, 5), "warmup": 1.0, "optimizer": "sgd"},
    "patience": {"patience": 50, "learning_rate": 0.3},
    "ends early": {"patience": 1, "learning_rate": 0.3},
}


def train(epochs, path=None, *, name="tram", method=None, callbacks=(), **options):
    method = make_method(name) if method is None else method
    how = dataclasses.replace(HOW, epochs=epochs, **options)
    history = fit(
        method,
        make_data(),
        how,
        seed=SEED,
        validation=make_data(seed=1) if how.patience else None,
        checkpoint=None if path is None else Checkpoint(path),
        callbacks=callbacks,
    )
    return weights(method), history


@pytest.mark.parametrize("name", ["tram", "heteroscedastic-dropout"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_an_extended_run_equals_a_longer_one(tmp_path, name, options):
    expected, history = train(7, name=name, **options)
    _, shorter = train(4, tmp_path / "run.pt", name=name, **options)
    assert len(shorter) <= 4
    extended, rows = train(7, tmp_path / "run.pt", name=name, method=make_method(name, seed=2), **options)
    assert rows == history
    assert_equal(extended, expected)


def test_an_interrupted_run_is_extended(tmp_path):
    expected, _ = train(7)
    checkpoint = Checkpoint(tmp_path / "run.pt", every=1)
    interrupted(fit, 5, make_method(), make_data(), HOW, seed=SEED, checkpoint=checkpoint)
    assert_equal(train(7, tmp_path / "run.pt")[0], expected)
    assert_equal(train(8, tmp_path / "run.pt")[0], train(8)[0])


def test_replicas_are_extended(tmp_path):
    def run(epochs, path):
        replicas = Replicas([make_method(seed=seed) for seed in range(2)])
        how, checkpoint = dataclasses.replace(HOW, epochs=epochs), Checkpoint(path)
        fit(replicas, StackedAnnotations([make_data()] * 2), how, seed=[0, 1], checkpoint=checkpoint)
        return weights(replicas)

    expected = run(6, tmp_path / "whole.pt")
    run(4, tmp_path / "run.pt")
    assert_equal(run(6, tmp_path / "run.pt"), expected)


def test_a_run_that_a_callback_ended_stays_as_it_is(tmp_path):
    stop = {"callbacks": [lambda row, _: row["epoch"] == 2]}
    expected, history = train(4, tmp_path / "run.pt", **stop)
    extended, rows = train(7, tmp_path / "run.pt", **stop)
    assert rows == history
    assert_equal(extended, expected)


def test_the_first_stage_is_extended(tmp_path):
    expected, history = train(5, name="two-step-tram")
    checkpoint = Checkpoint(tmp_path / "run.pt", every=1)
    interrupted(fit, 12, make_method("two-step-tram"), make_data(), HOW, seed=SEED, checkpoint=checkpoint)
    extended, rows = train(5, tmp_path / "run.pt", name="two-step-tram")
    assert rows == history
    assert_equal(extended, expected)


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("tram", {"schedule": "cosine"}, "the schedule 'cosine' depends on them"),
        ("two-step-tram", {}, "the first stage of the method has ended"),
        ("label-posterior", {}, "the schedule 'cosine' depends on them"),
    ],
)
def test_runs_that_cannot_be_extended(tmp_path, name, options, reason):
    path = tmp_path / "run.pt"
    train(4, path, name=name, **options)
    stored, method = path.read_bytes(), make_method(name, seed=2)
    start = weights(method)
    with pytest.raises(ValueError, match=rf"^Expected `epochs` to be 4, as in \S+run.pt, since {reason}, but got 7\.$"):
        train(7, path, name=name, method=method, **options)
    assert_equal(weights(method), start)
    assert path.read_bytes() == stored
    with pytest.raises(ValueError, match="its `epochs` is 4, not 3"):
        train(3, path, name=name, **options)


def test_the_checkpoint_of_a_finished_run_gives_the_best_weights(tmp_path):
    options = {"patience": 50, "learning_rate": 0.3}
    expected, history = train(6, tmp_path / "run.pt", **options)
    again, rows = train(6, tmp_path / "run.pt", method=make_method(seed=2), **options)
    assert min(row["validation_marginal"] for row in history) < history[-1]["validation_marginal"]
    assert rows == history
    assert_equal(again, expected)
    assert not torch.equal(again["marginal.weight"], torch.load(tmp_path / "run.pt")["method"]["marginal.weight"])

"""A run that is interrupted or killed, and resumed, equals one that is not."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lupi.training import Checkpoint, fit
from tests.training.helpers import HOW, assert_equal, interrupted, make_data, make_method, one_thread, weights


def test_a_finished_run_is_not_run_again(tmp_path):
    data, checkpoint = make_data(), Checkpoint(tmp_path / "new" / "run.pt")
    for name in ("tram", "two-step-tram", "full-marginalization"):
        method, again = make_method(name), make_method(name, seed=2)
        history = fit(method, data, HOW, checkpoint=checkpoint)
        assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.pt"]
        assert interrupted(fit, None, again, data, HOW, checkpoint=checkpoint) == (history, 0)
        assert_equal(weights(method), weights(again))
        (tmp_path / "new" / "run.pt").unlink()


def test_a_stage_ends_with_a_checkpoint(tmp_path):
    data, checkpoint = make_data(), Checkpoint(tmp_path / "run.pt")  # every 1000 steps; a stage has 12
    uninterrupted, method = make_method("two-step-tram"), make_method("two-step-tram")
    history = fit(uninterrupted, data, HOW)
    assert interrupted(fit, 15, method, data, HOW, checkpoint=checkpoint) == (None, 15)
    again = make_method("two-step-tram", seed=2)
    assert interrupted(fit, None, again, data, HOW, checkpoint=checkpoint) == (history, 12)
    assert_equal(weights(uninterrupted), weights(again))


@pytest.mark.parametrize("seed", [4, np.int64(4)])
def test_numpy_numbers_survive_a_checkpoint(tmp_path, seed):
    data, checkpoint = make_data(), Checkpoint(tmp_path / "run.pt", every=np.int64(2))
    how = dataclasses.replace(HOW, learning_rate=np.float64(0.01), schedule="cosine", epochs=np.int64(4))
    method, again = make_method(), make_method(seed=2)
    history = fit(method, data, how, seed=seed)
    assert interrupted(fit, 5, make_method(), data, how, seed=seed, checkpoint=checkpoint) == (None, 5)
    assert interrupted(fit, None, again, data, how, seed=seed, checkpoint=checkpoint) == (history, 8)
    assert_equal(weights(method), weights(again))


EVERY = 3


STEPS = 20
"""In a stage: four epochs of forty annotations, eight at a time."""


def kill_points(number):
    """One kill at a random step; two of which the second hits the run that went on; two while a file is written."""
    rng = np.random.default_rng(number)
    first, second = (int(step) for step in rng.integers(1, STEPS, 2))
    return [
        [("step", first)],
        [("step", 11), ("step", second % 9 + 1)],
        [("step", 17), ("torn", 0)],
        [("unmoved", 2)],
    ]


def left_over(kills, stages):
    """How many steps the last run has to do, from where checkpoints are: each third step of a stage, and its end."""
    saved = 0
    for kind, count in kills:
        in_stage = saved % STEPS
        if kind == "step":
            reached = saved + count
            saved = max([saved, *(reached // STEPS * STEPS + s for s in range(0, reached % STEPS + 1, EVERY))])
        else:
            saved += {0: 0, 2: 2 * EVERY}[count]
            assert in_stage + 2 * EVERY < STEPS or count == 0
    return stages * STEPS - saved


def train_and_kill(folder, cases):
    """Run the program of that name, and return its report."""
    program = Path(__file__).parent / "programs" / "train_and_kill.py"
    command = [sys.executable, "-W", "error", str(program), str(folder), json.dumps(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=one_thread())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_and_resumed_run_gives_the_same_bits(tmp_path):
    stages = {"tram": 1, "tram-plus-plus": 1, "full-marginalization": 1, "het-tram": 1, "distilled-tram": 2}
    plain = {"epochs": 4, "batch_size": 8, "learning_rate": 0.01}
    cases = [
        {"method": name, "every": EVERY, "settings": plain, "kills": kill_points(number)}
        for number, name in enumerate(stages)
    ]
    cases[-1]["kills"].append([("step", 27)])  # in the second stage
    cases[-1]["kills"].append([("step", 13), ("step", 20), ("unmoved", 0)])
    stops = {"epochs": 40, "batch_size": 8, "learning_rate": 0.05, "patience": 3, "schedule": "cosine", "clip": 1.0}
    for name, more in (("heteroscedastic-dropout", {}), ("tram", {"patience": 6})):
        cases.append({"method": name, "every": 7, "settings": stops | more, "kills": kill_points(9)[:3]})
    results = train_and_kill(tmp_path, cases)
    for case, result in zip(cases, results, strict=True):
        name = case["method"]
        for kills, after in zip(case["kills"], result["kills"], strict=True):
            assert after["readable"], (name, kills)
            assert after["partial"] == (kills[-1][0] != "step"), (name, kills)
            assert after["weights"], (name, kills)
            assert after["history"], (name, kills)
            if case["settings"] is plain:
                assert result["steps"] == stages[name] * STEPS
                assert after["steps"] == left_over(kills, stages[name]), (name, kills)
        if case["settings"].get("patience"):
            assert 3 < result["epochs"] < 40, "it stops early"
    assert all(after["steps"] < result["steps"] for after in result["kills"])


NETWORK, STUDENT = 16, 26
"""Steps of a cross-fitted network, and of a student that also learns from combined inputs."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_methods_that_cross_fit_resume_with_the_same_bits(tmp_path):
    """Killed while a network trains, between two, while predictions are stored, and while the student trains."""
    plain = {"epochs": 4, "batch_size": 8, "learning_rate": 0.01}
    some = {"folds": 3, "methods": ["mean-imputation", "pi-transition"]}  # three networks train one after another
    five = {"folds": 5, "methods": ["no-pi", "tram", "mean-imputation", "pi-transition", "pi-dual"]}
    cases = [
        {
            "method": "auto",
            "options": five,
            "steps": 5 * NETWORK + STUDENT,
            "kills": [
                [("step", NETWORK + 9)],
                [("step", 2 * NETWORK)],
                [("remember", 2)],
                [("remember", 4), ("step", 3)],
                [("step", 5 * NETWORK + 11)],
                [("step", 50), ("step", 20), ("unmoved", 1), ("torn", 2)],
            ],
        },
        {
            "method": "auto",
            "options": some,
            "steps": 6 * NETWORK + STUDENT,
            "kills": [[("step", NETWORK + 8)], [("step", 4 * NETWORK + 7)], [("remember", 1)], [("step", 6 * NETWORK)]],
        },
        {
            "method": "stack",
            "options": some,
            "steps": 6 * NETWORK,
            "kills": [[("step", 2 * NETWORK + 5)], [("step", 5 * NETWORK + 5)], [("remember", 1)]],
        },
        {
            "method": "label-posterior",
            "options": {"folds": 5},
            "steps": NETWORK + NETWORK // 2 + STUDENT,
            "kills": [[("step", NETWORK + 5)], [("remember", 1)], [("step", NETWORK + NETWORK // 2 + 10)]],
        },
        {
            "method": "auto",
            "options": five,
            "estimator": True,
            "steps": 5 * NETWORK + STUDENT,
            "kills": [[("step", 3 * NETWORK + 7), ("step", 3 * NETWORK)]],
        },
    ]
    results = train_and_kill(tmp_path, [case | {"every": 5, "settings": plain} for case in cases])
    for case, result in zip(cases, results, strict=True):
        assert result["steps"] == case["steps"], case["method"]
        for kills, after in zip(case["kills"], result["kills"], strict=True):
            assert after["readable"], (case, kills)
            assert after["weights"], (case, kills)
            assert after["history"], (case, kills)
            assert after["steps"] < case["steps"], (case, kills)

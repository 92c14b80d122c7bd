"""Bias by position and length."""

import numpy as np
import pandas as pd
import pytest

from lupi.diagnose import Problem
from lupi.diagnose.checks.bias import Bias


def make_problem(seed, examples=150, known=100, column="position", effect=0.2):
    """Three judges who say "B" more often at position 2, or of long answers; the truth does not depend on it."""
    rng = np.random.default_rng(seed)
    truth, example = rng.integers(2, size=examples), np.arange(examples).repeat(3)
    value = rng.integers(1, 3, len(example)) if column == "position" else rng.normal(size=len(example))
    step = value - 1.5 if column == "position" else np.clip(value, -2, 2)
    p = np.where(truth[example] == 1, 0.65, 0.35) + effect * step * (1 if column == "position" else 0.5)
    label = np.where(rng.random(len(example)) < p, "B", "A")
    who = np.tile(["x", "y", "z"], examples)
    gold = np.where(np.arange(examples) < known, np.array(["A", "B"], dtype=object)[truth], None)[example]
    privileged = pd.DataFrame({"who": who, column: value})
    return Problem(example[:, None], label, privileged, example=example, annotator=who, gold=gold)


@pytest.mark.parametrize("effect", [0.2, 0.0])
def test_intervals_cover_the_effect_of_the_position(effect):
    covered = []
    for seed in range(200):
        row = Bias().run(make_problem(seed, effect=effect)).table.iloc[0]
        covered.append(row["low"] <= effect <= row["high"])
    assert 0.9 <= np.mean(covered) < 1
    assert (row["column"], row["change"], row["class"]) == ("position", "from 1 to 2", "B")


def test_the_length_of_an_answer():
    found = Bias().run(make_problem(0, examples=600, known=600, column="length"))
    row = found.table.iloc[0]
    assert row["low"] < 0.1 < row["high"]  # half of 0.2 for one standard deviation
    assert row["low"] > 0
    assert found.notes[0].startswith("Labels depend on `length` beyond the truth: 'B' is ")
    assert "more frequent" in found.notes[0]
    assert found.section.tables[0].frame["change"].tolist() == [row["change"]]


def test_a_column_that_depends_on_the_truth_alone_is_no_bias():
    problem = make_problem(0, examples=600, known=600, effect=0.0)
    truth = (np.asarray(problem.gold) == "B").astype(float)
    shifted = problem.privileged.assign(position=truth + np.random.default_rng(0).normal(size=len(truth)))
    row = Bias().run(Problem(problem.X, problem.y, shifted, gold=problem.gold)).table.iloc[0]
    assert row["low"] < 0 < row["high"]


def test_what_cannot_be_checked():
    assert Bias().run(make_problem(0, known=10)) is None
    assert Bias().run(make_problem(0, column="colour")) is None
    problem = make_problem(0)
    assert Bias().run(Problem(problem.X, problem.y, problem.privileged)) is None
    assert Bias().run(Problem(problem.X, problem.y, problem.privileged.assign(position=1), gold=problem.gold)) is None

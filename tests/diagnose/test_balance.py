"""How often classes are given, and how often they are true."""

import numpy as np
import pandas as pd

from lupi.diagnose import Problem
from lupi.diagnose.checks.balance import Balance


def make_problem(known):
    """Three judges who say 1 too often; inputs, and so predictions, are useless."""
    rng = np.random.default_rng(0)
    truth = rng.permutation(np.arange(400) % 2).repeat(3)
    label = np.where((truth == 1) | (rng.random(1200) < 0.4), 1, 0)
    gold = np.where(np.arange(1200) < 3 * known, truth.astype(float), np.nan)
    who = np.tile(["a", "b", "c"], 400)
    return Problem(
        np.zeros((1200, 1)),
        label,
        pd.DataFrame({"who": who}),
        example=np.arange(400).repeat(3),
        annotator=who,
        gold=gold if known else None,
        probabilities=np.full((1200, 2), 0.5),
    )


def test_true_labels_give_the_rate_of_each_class():
    found = Balance().run(make_problem(100))
    row = found.table.set_index("class").loc[1]
    assert row["low"] < 0.5 < row["high"] < row["share"]
    assert "(if the 100 true labels were drawn at random)" in found.sentence
    assert found.numbers["1"].keys() == {"rate", "low", "high"}
    assert "true rate" in found.section.tables[0].frame


def test_without_true_labels_there_is_no_rate():
    found = Balance().run(make_problem(0))
    assert found.sentence == ""
    assert list(found.table) == ["class", "labels", "share", "examples", "true_share", "recognized"]


def test_recognized_is_the_share_of_right_labels_of_each_class():
    problem = make_problem(400)
    right = problem.inference.votes.label == problem.inference.votes.gold[problem.inference.votes.example]
    truth = problem.inference.votes.gold[problem.inference.votes.example]
    found = Balance().run(problem).table.set_index("class")["recognized"]
    np.testing.assert_allclose(found, [right[truth == 0].mean(), right[truth == 1].mean()], atol=1e-6)
    assert found[1] == 1 > found[0] + 0.3

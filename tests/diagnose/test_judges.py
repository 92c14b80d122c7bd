"""The accuracy of judges, and how far they err together."""

import numpy as np
import pandas as pd

from lupi.diagnose import Problem
from lupi.diagnose.checks.judges import Judges


def make_problem(known, seed=0, examples=300):
    """Six judges who are right 60 to 90 % of the time; the last copies the first, nine times of ten."""
    rng = np.random.default_rng(seed)
    truth, right = rng.integers(2, size=examples), np.array([0.6, 0.65, 0.7, 0.8, 0.9, 0.6])
    label = np.where(rng.random((examples, 6)) < right, truth[:, None], 1 - truth[:, None])
    label[:, 5] = np.where(rng.random(examples) < 0.9, label[:, 0], label[:, 5])
    who = np.tile(list("abcdef"), examples)
    gold = np.where(np.arange(examples) < known, truth.astype(float), np.nan).repeat(6)
    return Problem(
        np.zeros((6 * examples, 1)),
        label.ravel(),
        pd.DataFrame({"who": who}),
        example=np.arange(examples).repeat(6),
        annotator=who,
        gold=gold if known else None,
        probabilities=np.full((6 * examples, 2), 0.5),
    )


def test_intervals_cover_the_accuracy_of_judges():
    covered = []
    for seed in range(40):
        table = Judges().run(make_problem(60, seed)).table.set_index("annotator")
        assert (table["checked"] == 60).all()
        for name, accuracy in zip("bcde", [0.65, 0.7, 0.8, 0.9], strict=True):
            covered.append(table.loc[name, "low"] <= accuracy <= table.loc[name, "high"])
    assert np.mean(covered) >= 0.9


def test_a_copy_is_found():
    found = Judges().run(make_problem(150))
    table = found.table.set_index("annotator")
    assert (table.loc["a", "alike"], table.loc["f", "alike"]) == ("f", "a")
    assert table.loc["a", "correlation"] > 0.7
    assert found.sentence.startswith("The 6 labels of an example are worth ")
    assert found.numbers["votes"] < 5.5
    assert "err together" in found.notes[0]
    assert "limit" not in table


def test_without_true_labels_nothing_is_said():
    assert Judges().run(make_problem(0)) is None


def test_a_single_label_per_example_has_no_dependence():
    problem = make_problem(150)
    whole = {"annotator": problem.annotator, "probabilities": problem.probabilities, "gold": problem.gold}
    found = Judges().run(Problem(problem.X, problem.y, problem.privileged, **whole))
    assert found.sentence == ""
    assert list(found.table) == ["annotator", "checked", "accuracy", "low", "high"]

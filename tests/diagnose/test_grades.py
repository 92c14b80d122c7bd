import re

import numpy as np
import pandas as pd

from lupi.diagnose.checks.annotators import Grades
from lupi.diagnose.checks.labels import Consensus, Labels
from lupi.diagnose.problem import Problem

NAMES = np.array(["poor", "fair", "good", "great", "superb"])  # not in alphabetical order


def test_a_lenient_annotator_of_named_grades_is_found():
    rng = np.random.default_rng(0)
    true = np.repeat(rng.integers(0, 5, 150), 3)
    who = np.tile(["ann", "bob", "cem"], 150)
    given = np.clip(true + (who == "bob") + (rng.random(450) < 0.1), 0, 4)
    p = np.full((450, 5), 0.05)
    p[np.arange(450), true] = 0.8
    columns = np.searchsorted(np.sort(NAMES), NAMES)  # predictions are of sorted classes
    sorted_p = np.empty_like(p)
    sorted_p[:, columns] = p
    problem = Problem(
        rng.normal(size=(450, 1)),
        NAMES[given],
        pd.DataFrame({"annotator": who}),
        example=np.repeat(np.arange(150), 3),
        annotator=who,
        probabilities=sorted_p,
        grades=NAMES.tolist(),
    )
    finding = Grades().run(problem)
    table = finding.table.set_index("annotator")
    assert finding.table["annotator"][0] == "bob"
    assert 0.5 < table.loc["bob", "bias"] < 1.5
    assert (table.loc[["ann", "cem"], "bias"].abs() < 0.4).all()
    assert re.search(r"higher or lower than others would: bob \(\d\.\d higher\)\.$", finding.sentence)


def test_only_grades_that_are_far_off_are_wrong():
    """Most labels miss the true grade by at most one; every twelfth is four or five grades away."""
    rng = np.random.default_rng(0)
    truth, example = rng.integers(9, size=200), np.arange(200).repeat(4)
    label = np.clip(truth[example] + rng.integers(-1, 2, 800), 0, 8)
    far = rng.random(800) < 1 / 12
    label[far] = np.clip(truth[example] + np.where(truth[example] < 4, 1, -1) * rng.integers(4, 6, 800), 0, 8)[far]
    who = np.tile(["ann", "bob", "cem", "dee"], 200)
    problem = Problem(
        np.zeros((800, 1)),
        label,
        pd.DataFrame({"annotator": who}),
        example=example,
        annotator=who,
        probabilities=np.full((800, 9), 1 / 9),
        grades=list(range(9)),
    )
    assert problem.tolerance == 2
    finding = Labels().run(problem)
    suspicious = finding.table.loc[finding.table["wrong"] > 0.5, "row"].to_numpy()
    assert far[suspicious].mean() > 0.9
    assert len(suspicious) > 0.8 * far.sum()
    assert "are probably off by more than 2 grades. First check rows" in finding.sentence
    assert "a quarter of the scale" in finding.section.text
    consensus = Consensus().run(problem).table
    assert np.abs(consensus["label"] - truth).mean() < 0.4
    assert (consensus["probability"] > 0.8).mean() > 0.9

import numpy as np
import pandas as pd

from lupi.diagnose.checks.grades import Grades
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
    assert finding.sentence.startswith("bob grades")
    assert "higher" in finding.sentence

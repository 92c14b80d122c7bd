"""What `lupi diagnose` makes of a table; the command itself is in test_cli_diagnose.py."""

import numpy as np
import pandas as pd
import pytest

from lupi.diagnose import examination
from lupi.diagnose.diagnosis import Diagnosis
from lupi.diagnose.examination import Request, examine, summary

N = 120
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "song": np.repeat(np.arange(40), 3),
        "note": np.repeat([f"so {word} a tune, part{i}" for i, word in enumerate(RNG.choice(["good", "bad"], 40))], 3),
        "who": RNG.choice(["ann", "bob", "cem"], N),
        "seconds": RNG.exponential(size=N),
        "label": RNG.integers(3, size=N),
        "price": 100 * RNG.random(N),
    }
)
TABLE["gold"] = TABLE["label"].where(RNG.random(N) < 0.8, 1).astype(float).where(RNG.random(N) < 0.5)
TABLE.loc[::7, "who"] = None


class Spy:
    """Keeps the problem instead of training."""

    def __call__(self, problem, **_):
        self.problem = problem
        labels = pd.DataFrame({"row": np.arange(N)[::-1], "example": 0, "given": 0, "likely": 0, "wrong": 0.5})
        return Diagnosis("Yes.", [], pd.DataFrame({"column": []}), 1.0, labels=labels)


@pytest.fixture
def spy(monkeypatch):
    spy = Spy()
    monkeypatch.setattr(examination, "diagnose", spy)
    return spy


@pytest.fixture
def ask(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")

    def ask(privileged, ignore=(), target="label", **more):
        said = []
        request = Request(tmp_path / "table.parquet", [target], privileged, ignore=ignore, **more)
        return *examine(request, say=said.append), said

    return ask


def test_every_column_has_its_role(spy, ask):
    found, facts, said = ask(["seconds"], ["price"], annotator="who", gold="gold", example="song", seed=3, folds=4)
    problem = spy.problem
    assert list(problem.privileged) == ["seconds", "who"]  # who gave the label is privileged
    assert problem.kinds == {"seconds": "number", "who": "category"}
    assert list(problem.X)[:2] == ["note[0]", "note[1]"]  # texts are numbers
    np.testing.assert_array_equal(problem.y, TABLE["label"])
    np.testing.assert_array_equal(problem.annotator, TABLE["who"].fillna("(missing)"))
    np.testing.assert_array_equal(problem.gold, TABLE["gold"])
    assert (problem.seed, problem.folds, problem.real) == (3, 4, False)
    assert facts["roles"]["ignored"] == ("price", "gold")
    assert facts["examples"] == 40
    np.testing.assert_array_equal(found.labels["example"], TABLE["song"][::-1])
    assert not any(line.startswith("Annotators") for line in said)  # nothing was chosen


def test_an_annotator_that_is_ignored_is_no_privileged_information(spy, ask):
    ask(["seconds"], ["price", "gold", "who", "song"], annotator="who")
    assert list(spy.problem.privileged) == ["seconds"]
    assert spy.problem.annotator is not None
    assert spy.problem.gold is None
    assert len(np.unique(spy.problem.example)) == TABLE["note"].nunique()  # equal inputs are one example


def test_a_name_or_none_is_chosen(spy, ask, tmp_path):
    _, facts, said = ask(["seconds", "who"], ["price", "gold"], example="song")
    assert facts["annotator"] is None
    assert said[-2].startswith("Annotators: no privileged column")
    assert spy.problem.annotator is None
    renamed = TABLE.rename(columns={"who": "rater"}).assign(row_id=[f"r{i}" for i in range(N)])
    renamed.to_parquet(tmp_path / "table.parquet")
    _, facts, _ = ask(["row_id", "seconds", "rater"], ["price", "gold"], example="song")
    assert facts["annotator"] == "rater"  # and not an id that never comes twice


def test_real_numbers_are_real(spy, ask):
    ask(["seconds"], ["label", "gold", "who"], target="price", example="song")
    assert spy.problem.real
    np.testing.assert_allclose(spy.problem.y, TABLE["price"])


def test_the_summary_begins_with_the_verdict():
    table = pd.DataFrame(
        {
            "column": ["who"],
            "estimate": [0.2],
            "low": [0.1],
            "high": [0.3],
            "share": [np.nan],
            "alone": [0.5],
            "how": "copy",
        }
    )
    lines = summary(Diagnosis("Yes.", ["Take care."], table, 1.0)).splitlines()
    assert lines[0] == "Yes."
    assert lines[-1] == "Note: Take care."
    assert lines[4].split() == ["who", "0.2000", "0.1000", "0.3000", "–", "50.0", "copy"]

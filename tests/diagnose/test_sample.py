"""A diagnosis of a sample."""

import json

import numpy as np
import pandas as pd
import pytest

from lupi import PrivilegedClassifier
from lupi.diagnose import Problem, diagnose
from lupi.tabular import TableSpec

RNG = np.random.default_rng(0)
ROWS = 1000
TABLE = pd.DataFrame({"id": np.repeat(np.arange(ROWS // 2), 2), "size": np.repeat(RNG.normal(size=ROWS // 2), 2)})
TABLE["who"], TABLE["seconds"] = RNG.choice(list("abc"), ROWS), RNG.exponential(size=ROWS)
TABLE["gold"] = np.where(TABLE["size"] > 0, "yes", "no")
TABLE["label"] = TABLE["gold"].where(RNG.random(ROWS) < 0.8, "no")


@pytest.fixture
def ask(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")

    def ask(*, gold=None, **options):
        lines, ignore = [], [] if gold else ["gold"]
        roles = {"target": ["label"], "privileged": ["who", "seconds"], "example": "id", "ignore": ignore, "gold": gold}
        spec = TableSpec(table=tmp_path / "table.parquet", **roles)
        options = {"folds": 2, "settings": {"epochs": 1}, "notify": lines.append, **options}
        found = diagnose(Problem.from_table(spec, **options))
        files = found.write(tmp_path / "run", overwrite=True)
        return found, json.loads(files[0].read_text()), lines

    return ask


def test_a_sample_is_stated_and_its_rows_are_those_of_the_table(ask, tmp_path):
    p = np.column_stack([np.arange(ROWS), ROWS - np.arange(ROWS)]) / ROWS
    np.save(tmp_path / "p.npy", p)
    found, facts, lines = ask(sample=300, probabilities=tmp_path / "p.npy")
    note = "A random sample of 300 of 1,000 annotations was used, all those of 150 examples."
    assert f"Note: {note}" in lines
    assert facts["notes"][0] == found.notes[0] == note
    assert (facts["sample"], facts["rows"], facts["examples"]) == (300, 300, 150)
    rows = found["labels"].table["row"].to_numpy()
    assert len(set(rows)) == 300
    pd.testing.assert_series_equal(
        found["labels"].table["given"],
        TABLE["label"].iloc[rows],
        check_index=False,
        check_names=False,
        check_dtype=False,
    )
    assert found["labels"].table["size"].astype(float).tolist() == pytest.approx(TABLE["size"].iloc[rows].tolist())
    again, _, _ = ask(sample=300, probabilities=tmp_path / "p.npy")
    pd.testing.assert_frame_equal(again["labels"].table, found["labels"].table, check_exact=True)


def test_probabilities_are_those_of_the_sampled_rows(ask, tmp_path):  # noqa: ARG001
    p = np.column_stack([np.arange(ROWS), ROWS - np.arange(ROWS)]) / ROWS
    np.save(tmp_path / "p.npy", p)
    roles = {"target": ["label"], "privileged": ["who", "seconds"], "example": "id", "ignore": ["gold"]}
    spec = TableSpec(table=tmp_path / "table.parquet", **roles)
    problem = Problem.from_table(spec, sample=300, probabilities=tmp_path / "p.npy")
    np.testing.assert_array_equal(problem.probabilities, p[problem.rows])


@pytest.mark.parametrize("gold", [None, "gold"])
def test_the_number_of_trainings_is_said_before_they_start(gold, ask, monkeypatch, capsys):
    fits, usual = [], PrivilegedClassifier.fit
    monkeypatch.setattr(PrivilegedClassifier, "fit", lambda self, *a, **k: fits.append(self) or usual(self, *a, **k))
    ask(gold=gold, progress=True)
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"{len(fits)} trainings of 1,000 annotations"


def test_a_sample_of_nothing(ask):
    with pytest.raises(ValueError, match=r"`sample`.*0"):
        ask(sample=0)


@pytest.mark.parametrize(
    ("roles", "content", "error"),
    [
        ({}, None, "there is no"),
        ({}, np.array([["a", "b"]] * ROWS), "a .npy file of numbers"),
        ({"target": ["seconds"], "privileged": ["who", "label"]}, np.ones((ROWS, 2)) / 2, "the task is regression"),
    ],
)
def test_probabilities_that_cannot_be_used(tmp_path, roles, content, error):
    TABLE.to_parquet(tmp_path / "table.parquet")
    if content is not None:
        np.save(tmp_path / "p.npy", content)
    given = {"target": ["label"], "privileged": ["who", "seconds"], "example": "id", "ignore": ["gold"]} | roles
    with pytest.raises((ValueError, FileNotFoundError), match=error):
        Problem.from_table(TableSpec(table=tmp_path / "table.parquet", **given), probabilities=tmp_path / "p.npy")

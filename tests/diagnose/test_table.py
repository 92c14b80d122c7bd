"""From a table to a problem; the command itself is tested in tests/cli."""

import numpy as np
import pandas as pd
import pytest

from lupi.diagnose import Problem
from lupi.tabular import TableSpec

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


@pytest.fixture
def ask(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")

    def ask(privileged, ignore=(), target="label", columns=None, **more):
        lines = []
        spec = TableSpec(
            table=tmp_path / "table.parquet",
            target=[target],
            privileged=privileged,
            ignore=ignore,
            **(columns or {}),
        )
        problem = Problem.from_table(spec, notify=lines.append, **more)
        return problem, problem.facts, lines

    return ask


def test_every_column_has_its_role(ask):
    columns = {"annotator": "who", "gold": "gold", "example": "song"}
    problem, facts, _ = ask(["seconds"], ["price"], columns=columns, seed=3, folds=4, settings={"epochs": None})
    assert list(problem.privileged) == ["seconds", "who"]  # the annotator is privileged information
    assert list(problem.X) == ["note"]
    np.testing.assert_array_equal(problem.y, TABLE["label"])
    assert problem.kinds == {"note": "text", "seconds": "number", "who": "category"}
    np.testing.assert_array_equal(problem.annotator, TABLE["who"].fillna("(missing)"))
    np.testing.assert_array_equal(problem.gold, TABLE["gold"])
    assert (problem.seed, problem.folds, problem.real) == (3, 4, False)
    assert problem.parameters == {"device": "auto"}
    assert facts["roles"]["ignored"] == ("price", "gold")
    assert facts["examples"] == 40
    np.testing.assert_array_equal(problem.example, TABLE["song"])


def test_an_ignored_annotator_is_not_privileged(ask):
    problem, _, _ = ask(["seconds"], ["price", "gold", "who", "song"], columns={"annotator": "who"})
    assert list(problem.privileged) == ["seconds"]
    assert problem.annotator is not None
    assert problem.gold is None
    assert len(np.unique(problem.example)) == TABLE["note"].nunique()  # equal inputs are one example


def test_annotators_are_found_by_the_name_of_their_column(ask, tmp_path):
    problem, facts, lines = ask(["seconds", "who"], ["price", "gold"], columns={"example": "song"})
    assert facts["annotator"] is None
    assert any(line.startswith("Annotators: no privileged column") for line in lines)
    assert problem.annotator is None
    renamed = TABLE.rename(columns={"who": "rater"}).assign(row_id=[f"r{i % 100}" for i in range(N)])
    renamed.to_parquet(tmp_path / "table.parquet")
    _, facts, _ = ask(["row_id", "seconds", "rater"], ["price", "gold"], columns={"example": "song"})
    assert facts["annotator"] == "rater"  # and not an id that hardly comes twice


def test_a_target_of_real_numbers_is_real(ask):
    problem, _, _ = ask(["seconds"], ["label", "gold", "who"], target="price", columns={"example": "song"})
    assert problem.real
    np.testing.assert_allclose(problem.y, TABLE["price"])


def test_without_a_listener_nothing_is_printed(ask, tmp_path, capsys):  # noqa: ARG001
    spec = TableSpec(table=tmp_path / "table.parquet", target=["label"], privileged=["who"], ignore=["gold"])
    Problem.from_table(spec)
    assert capsys.readouterr() == ("", "")


def test_no_jobs_are_refused_before_reading(tmp_path):
    spec = TableSpec(table=tmp_path / "missing.csv", target=["label"])
    with pytest.raises(ValueError, match=r"`jobs`.*0"):
        Problem.from_table(spec, jobs=0)


def test_tables_for_people_hold_no_formulas(make, tmp_path):
    names = ["=1+1", "@ann", "-bob", "eve"]
    found = make.diagnosed(names)
    found.write(tmp_path / "run")
    for file, column in (("annotators.csv", "annotator"), ("information.csv", "column"), ("labels.csv", "example")):
        cells = pd.read_csv(tmp_path / "run" / file)[column]
        assert set(cells) == {"'=1+1", "'@ann", "'-bob", "eve"}, file

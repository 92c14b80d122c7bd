import numpy as np
import pandas as pd
import pytest

from lupi.compare.cases import Plan, digest, hashed, make_cases, read, splits
from lupi.tabular import text

RNG = np.random.default_rng(0)
WORDS = [f"word{i}" for i in range(40)]
TABLE = pd.DataFrame(
    {
        "id": np.repeat([f"i{i}" for i in range(60)], RNG.integers(1, 4, size=60)),
    }
)
TABLE["size"] = TABLE["id"].map(dict(zip(TABLE["id"].unique(), RNG.normal(size=60), strict=True)))
TABLE["annotator"] = RNG.choice(list("abcd"), len(TABLE))
TABLE["label"] = np.where(TABLE["size"] > 0, "yes", "no")
TABLE["gold"] = TABLE["label"]


def quiet(_):
    pass


def plan_of(folder, table=TABLE, **options):
    table.to_parquet(folder / "table.parquet")
    named = {"target": ["label"], "privileged": ["annotator"], "ignore": ["gold"], "example": "id", "seeds": 3}
    return Plan(folder / "table.parquet", **{**named, **options})


@pytest.mark.parametrize("options", [{}, {"seeds": 7}, {"folds": 4}])
def test_no_example_is_on_both_sides(options, tmp_path):
    plan = plan_of(tmp_path, **options)
    parts = splits(plan, read(plan, quiet))
    assert len(parts) == (plan.folds or plan.seeds)
    for train, test in parts:
        assert not set(TABLE["id"].iloc[train]) & set(TABLE["id"].iloc[test])
        assert sorted([*train, *test]) == list(range(len(TABLE)))
        held = TABLE["id"].iloc[test].nunique()
        assert held == (15 if plan.folds else 12)
    tested = [set(test) for _, test in parts]
    assert all(tested[i] != tested[j] for i in range(len(parts)) for j in range(i))
    if plan.folds:
        assert sorted(row for part in tested for row in part) == list(range(len(TABLE)))


def test_without_ids_rows_with_equal_inputs_stay_together(tmp_path):
    plan = plan_of(tmp_path, example=None, ignore=["gold", "id"])
    for train, test in splits(plan, read(plan, quiet)):
        assert not set(TABLE["size"].iloc[train]) & set(TABLE["size"].iloc[test])


def test_splits_are_those_of_the_seed(tmp_path):
    """The first splits of many seeds are the splits of few."""
    few, many = (plan_of(tmp_path, seeds=seeds) for seeds in (2, 4))
    data = read(few, quiet)
    for one, other in zip(splits(few, data), splits(many, data)[:2], strict=True):
        np.testing.assert_array_equal(one[1], other[1])


def test_a_test_table_is_scored_whole(tmp_path):
    test = TABLE[["size", "label"]].iloc[::-1][:20]
    test.to_parquet(tmp_path / "test.parquet")
    plan = plan_of(tmp_path, test=tmp_path / "test.parquet")
    data = read(plan, quiet)
    first, *others = make_cases(data, splits(plan, data))
    assert all(other is first for other in others)
    assert len(first.train.y) == len(TABLE)
    np.testing.assert_array_equal(np.array(data.classes)[first.test.y], test["label"])
    np.testing.assert_array_equal(first.test.X["size"], test["size"])
    assert len(np.unique(first.test.example)) == test["size"].nunique()
    assert "20 of 20 rows of the test table have the inputs of training rows." in data.notes


def test_text_is_learned_from_training_rows_alone(tmp_path, monkeypatch):
    table = TABLE.assign(note=[" ".join(RNG.choice(WORDS, 5)) + f" own{i}" for i in TABLE["id"]])
    table["note"] = table["id"].map(table.groupby("id")["note"].first())
    plan = plan_of(tmp_path, table)
    data = read(plan, quiet)
    learned = []
    fit = text.TfidfEncoder.fit
    monkeypatch.setattr(text.TfidfEncoder, "fit", lambda self, texts: learned.append(set(texts)) or fit(self, texts))
    parts = splits(plan, data)
    cases = make_cases(data, parts)
    assert len(learned) == 3
    for (train, test), case, texts in zip(parts, cases, learned, strict=True):
        assert texts == set(table["note"].iloc[train])
        assert not texts & set(table["note"].iloc[test])
        assert list(case.train.X) == list(case.test.X)
        assert len(case.test.X) == len(test)


def test_held_out_labels_that_training_has_none_of_are_not_scored(tmp_path):
    table = TABLE.copy()
    table.loc[table["id"] == "i7", "label"] = "rare"
    plan = plan_of(tmp_path, table, folds=5)
    data = read(plan, quiet)
    rare = data.classes.index("rare")
    parts = splits(plan, data)
    assert sum(len(test) for _, test in parts) == (table["label"] != "rare").sum()
    for train, test in parts:
        assert set(data.train.y[test]) <= set(data.train.y[train])
        assert rare not in data.train.y[test]


def test_too_few_examples(tmp_path):
    plan = plan_of(tmp_path, TABLE[TABLE["id"].isin([f"i{i}" for i in range(9)])])
    with pytest.raises(ValueError, match="at least 10 examples to hold some out, but got 9"):
        splits(plan, read(plan, quiet))
    plan = plan_of(tmp_path, folds=61)
    with pytest.raises(ValueError, match="at least 61 examples to hold some out, but got 60"):
        splits(plan, read(plan, quiet))


def test_fingerprints_change_with_values_names_and_tables():
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    others = [
        [frame.assign(a=[1, 3])],
        [frame.rename(columns={"a": "c"})],
        [frame.iloc[::-1]],
        [frame.assign(b=["x", "y"])],
        [frame, frame],
    ]
    assert digest([frame]) == digest([frame.copy()])
    assert len({digest([frame]), *map(digest, others)}) == 6


def test_whole_numbers_are_the_same_inputs_as_floats():
    whole, real = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pd.DataFrame({"a": [1.0, 2.5], "b": ["x", "y"]})
    assert (hashed(whole) == hashed(real)).tolist() == [True, False]

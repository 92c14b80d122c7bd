import numpy as np
import pandas as pd
import pytest

from lupi.compare.plan import Plan, make_splits
from lupi.estimators.table_estimator import TableEstimator
from lupi.tabular import TableSpec, text_encoders
from lupi.tabular.table_data import read_data, read_test

RNG = np.random.default_rng(0)
WORDS = [f"word{i}" for i in range(40)]
TABLE = pd.DataFrame({"id": np.repeat([f"i{i}" for i in range(60)], RNG.integers(1, 4, size=60))})
TABLE["size"] = TABLE["id"].map(dict(zip(TABLE["id"].unique(), RNG.normal(size=60), strict=True)))
TABLE["annotator"] = RNG.choice(list("abcd"), len(TABLE))
TABLE["label"] = np.where(TABLE["size"] > 0, "yes", "no")
TABLE["gold"] = TABLE["label"]


def read(folder, table=TABLE, *, example="id", ignore=("gold",), test=None, **options):
    """A plan and its data."""
    table.to_parquet(folder / "table.parquet")
    spec = TableSpec(
        table=folder / "table.parquet", target=["label"], privileged=["annotator"], ignore=ignore, example=example
    )
    plan = Plan(spec=spec, test=test, **{"seeds": 3, **options})
    data = read_data(spec).load()
    return plan, data, None if test is None else read_test(test, data)


@pytest.mark.parametrize("options", [{}, {"seeds": 7}, {"folds": 4}])
def test_no_example_is_on_both_sides(options, tmp_path):
    plan, *rest = read(tmp_path, **options)
    splits = make_splits(plan, *rest)
    assert len(splits) == plan.runs
    for train, test in splits:
        assert not set(TABLE["id"].iloc[train]) & set(TABLE["id"].iloc[test])
        assert sorted([*train, *test]) == list(range(len(TABLE)))
        assert TABLE["id"].iloc[test].nunique() == (15 if plan.folds else 12)
    tested = [set(test) for _, test in splits]
    assert all(tested[i] != tested[j] for i in range(len(splits)) for j in range(i))
    if plan.folds:
        assert sorted(row for part in tested for row in part) == list(range(len(TABLE)))


def test_without_ids_rows_with_equal_inputs_stay_together(tmp_path):
    for train, test in make_splits(*read(tmp_path, example=None, ignore=["gold", "id"])):
        assert not set(TABLE["size"].iloc[train]) & set(TABLE["size"].iloc[test])


def test_a_split_depends_on_its_seed_only(tmp_path):
    few, many = (make_splits(*read(tmp_path, seeds=seeds)) for seeds in (2, 4))
    for one, other in zip(few, many[:2], strict=True):
        np.testing.assert_array_equal(one[1], other[1])


def test_a_test_table_is_scored_whole(tmp_path):
    test = TABLE[["size", "label"]].iloc[::-1][:20]
    test.to_parquet(tmp_path / "test.parquet")
    plan, data, read_back = read(tmp_path, test=tmp_path / "test.parquet")
    for train, scored in make_splits(plan, data, read_back):
        assert len(train) == len(TABLE)
        np.testing.assert_array_equal(read_back.labels.iloc[scored], test["label"])
        np.testing.assert_array_equal(read_back.inputs["size"].iloc[scored], test["size"])


def test_a_test_table_of_one_example_is_refused(tmp_path):
    TABLE[["size", "label"]].iloc[:1].to_parquet(tmp_path / "test.parquet")
    with pytest.raises(ValueError, match=r"test.*two examples"):
        make_splits(*read(tmp_path, test=tmp_path / "test.parquet"))


def test_text_encoders_are_fitted_on_training_rows_only(tmp_path, monkeypatch):
    table = TABLE.assign(note=[" ".join(RNG.choice(WORDS, 5)) + f" own{i}" for i in TABLE["id"]])
    table["note"] = table["id"].map(table.groupby("id")["note"].first())
    plan, data, _ = read(tmp_path, table)
    learned = []
    fit = text_encoders.TfidfEncoder.fit
    monkeypatch.setattr(
        text_encoders.TfidfEncoder, "fit", lambda self, texts: learned.append(set(texts)) or fit(self, texts)
    )
    for train, test in make_splits(plan, data, None):
        TableEstimator(data.schema, "no-pi", {"epochs": 1}).fit(data.take(train))
        assert learned.pop() == set(table["note"].iloc[train])
        assert not set(table["note"].iloc[train]) & set(table["note"].iloc[test])


def test_held_out_labels_of_classes_that_training_lacks_are_not_scored(tmp_path):
    table = TABLE.copy()
    table.loc[table["id"] == "i7", "label"] = "rare"
    plan, data, _ = read(tmp_path, table, folds=5)
    rare = data.classes.index("rare")
    splits = make_splits(plan, data, None)
    assert sum(len(test) for _, test in splits) == (table["label"] != "rare").sum()
    for train, test in splits:
        assert set(data.y[test]) <= set(data.y[train])
        assert rare not in data.y[test]


@pytest.mark.parametrize(
    ("examples", "options", "message"), [(9, {}, "10 examples.*9"), (60, {"folds": 61}, "61 examples.*60")]
)
def test_too_few_examples_are_refused(examples, options, message, tmp_path):
    table = TABLE[TABLE["id"].isin([f"i{i}" for i in range(examples)])]
    with pytest.raises(ValueError, match=message):
        make_splits(*read(tmp_path, table, **options))


def test_labels_of_one_class_are_refused(tmp_path):
    table = TABLE.assign(label=np.where(TABLE["id"] == "i7", "rare", "no"))
    with pytest.raises(ValueError, match="two classes"):
        make_splits(*read(tmp_path, table, folds=5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 1}, "seeds.*1"),
        ({"folds": 1}, "folds.*1"),
        ({"folds": 3, "test": "test.csv"}, "folds.*test"),
        ({"methods": ["trams"]}, "trams"),
        ({"device": "gpu"}, "device.*gpu"),
    ],
)
def test_impossible_plans_are_refused(options, message):
    spec = TableSpec(table="table.csv", target=["label"], privileged=["annotator"])
    with pytest.raises(ValueError, match=message):
        Plan(spec=spec, **options)
    with pytest.raises(ValueError, match=r"privileged.*none"):
        Plan(spec=TableSpec(table="table.csv", target=["label"]))


def test_an_annotator_is_privileged_information_enough():
    spec = TableSpec(table="table.csv", target=["label"], annotator="worker")
    assert Plan(spec=spec).spec.annotator == "worker"

import warnings

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.serving import train
from lupi.serving.prediction import UnseenCategories, predict_table
from lupi.tabular import TableSpec

TRAINED = pd.DataFrame({"city": ["Bern", "Rome"] * 10, "zip": [3011, 8001] * 10, "y": ["no", "yes"] * 10})


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    table = tmp_path_factory.mktemp("table") / "table.parquet"
    TRAINED.to_parquet(table)
    spec = TableSpec(table=table, target=["y"], kind={"zip": "category"})
    return train(spec, method="no-pi", settings={"epochs": 1, "hidden": (8,)})


ROW = st.tuples(st.none() | st.sampled_from(["Bern", "Oslo", "Lima"]), st.none() | st.sampled_from([3011, 1, 2]))


@given(st.lists(ROW, min_size=1), st.integers(0, 20))
def test_rows_are_counted_as_in_the_whole_table(model, rows, first):
    """Missing values are not counted, whatever the batches."""
    table = pd.DataFrame(rows, columns=["city", "zip"])
    unseen = UnseenCategories(model)
    for batch in (table[:first], table[first:]):
        unseen.add(batch)
    expected = {name: table[name].notna() & ~table[name].isin(TRAINED[name]) for name in ("city", "zip")}
    counts = {name: count for name, (_, count) in unseen.found.items()}
    assert counts == {name: rows.sum() for name, rows in expected.items() if rows.any()}
    assert len(unseen.describe()) == sum(rows.any() for rows in expected.values())


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_users_are_told_once_for_each_column(suffix, model, tmp_path, monkeypatch):
    monkeypatch.setattr("lupi.tabular.formats.base.ROWS_AT_ONCE", 2)
    table = pd.DataFrame({"city": ["Oslo", "Bern", "Rome", "Oslo", "Lima"], "zip": [3011] * 5})
    path = tmp_path / f"table{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    message = "^Input column 'city' has categories that were not in the training table, such as 'Oslo', in 3 rows"
    with pytest.warns(UserWarning, match=message) as told:
        predict_table(model, path, tmp_path / "p.csv")
    assert len(told) == 1


def test_a_table_without_new_categories_causes_no_warning(model, tmp_path):
    TRAINED.to_parquet(tmp_path / "t.parquet")
    with warnings.catch_warnings(action="error"):
        predict_table(model, tmp_path / "t.parquet", tmp_path / "p.csv")

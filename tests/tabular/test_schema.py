import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lupi.tabular.frames import Columns
from lupi.tabular.schema import InputColumn, Schema
from lupi.tabular.spec import Roles
from lupi.tabular.values import stored_as, stored_in


def schema_of(**inputs):
    """A schema of input columns, given by kind and stored family."""
    columns = {name: InputColumn(*one) for name, one in inputs.items()}
    roles = Roles(target=("y",), inputs=tuple(columns))
    return Schema(roles=roles, task="classification", soft=False, inputs=columns, privileged={}, annotator=None)


def clean(values, kind, stored="string", rows=range(100, 102)):
    frame = pd.DataFrame({"a": values}, index=rows)
    return schema_of(a=(kind, stored)).clean(frame, Path())["a"]


def test_numbers_have_numeric_types_and_others_are_left_alone():
    frame = pd.DataFrame(
        {"zip": [8001.0, 3011.0], "price": ["1.5", "2"], "open": [True, False], "day": ["1970-01-02"] * 2}
    )
    schema = schema_of(
        zip=("category", "number"), price=("number", "string"), open=("boolean", "boolean"), day=("number", "string")
    )
    cleaned = schema.clean(frame, Path())
    assert cleaned["price"].tolist() == [1.5, 2.0]
    assert cleaned["day"].tolist() == [86400.0] * 2
    pd.testing.assert_frame_equal(cleaned[["zip", "open"]], frame[["zip", "open"]])
    pd.testing.assert_frame_equal(schema.clean(cleaned, Path()), cleaned)
    lazy = schema.clean(Columns.of(pa.Table.from_pandas(frame)), Path())
    pd.testing.assert_frame_equal(lazy.to_frame(), cleaned)


@pytest.mark.parametrize(
    ("values", "kind", "stored", "message"),
    [
        ([[0.5], None], "vector", "vector", "^Expected input column 'a' to have a value in every row, but row 101 has"),
        (["x.png", None], "image", "string", "^Expected input column 'a' to have a value in every row, but row 101 "),
        (["1", "x"], "number", "string", "^Expected column 'a' to be finite numbers, but got 'x' in row 101.$"),
        ([1.0, np.inf], "number", "number", "'a'.*'inf' in row 101"),
    ],
)
def test_values_that_are_missing_or_no_numbers(values, kind, stored, message):
    with pytest.raises(ValueError, match=message):
        clean(values, kind, stored)


@pytest.mark.parametrize("values", [["x", None], [8001, None], pd.Categorical(["x", None])], ids=str)
def test_categories_may_be_missing(values):
    assert clean(values, "category").isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("values", "stored"),
    [([1.5, None], "number"), (["1.5", None], "string"), (pd.array([2, None], "Int64"), "number")],
)
def test_numbers_may_be_missing(values, stored):
    column = clean(values, "number", stored)
    assert column.isna().tolist() == [False, True]
    assert column.iloc[0] == float(values[0])


@pytest.mark.parametrize(
    ("kind", "stored", "now", "good"),
    [
        ("number", "number", pa.int32(), True),
        ("number", "number", pa.bool_(), True),
        ("boolean", "boolean", pa.int64(), True),
        ("number", "number", pa.string(), False),
        ("number", "date", pa.int64(), False),
        ("category", "string", pa.dictionary(pa.int32(), pa.string()), True),
        ("category", "number", pa.string(), True),
        ("category", "string", pa.int64(), False),
        ("category", "boolean", pa.int64(), False),
        ("text", "string", pa.large_string(), True),
        ("number", "number", pa.null(), True),  # empty in the beginning of a CSV file
        ("text", "string", pa.int64(), False),
    ],
)
def test_types_as_in_training(kind, stored, now, good):
    types, schema = pa.schema({"a": now}), schema_of(a=(kind, stored))
    if good:
        schema.check_table(types, "t.parquet")
    else:
        with pytest.raises(
            ValueError, match=f"^Expected column 'a' of t.parquet to be a {stored} as in training, but "
        ):
            schema.check_table(types, "t.parquet")
    if stored == "string":  # digits in a CSV file can be strings
        schema.check_table(types, "t.csv")


def test_columns_as_in_training():
    schema = schema_of(**dict.fromkeys(["a", "b", "c"], ("number", "number")))
    with pytest.raises(
        ValueError, match=r"^Expected t to have the model's input columns, but it has no 'b' and 1 more\.$"
    ):
        schema.check_table(pa.schema({"a": pa.int64()}), "t")


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        (pa.decimal128(20, 2), "number"),
        (pa.date32(), "date"),
        (pa.duration("s"), "duration"),
        (pa.list_(pa.float32()), "vector"),
        (pa.list_(pa.int64(), 3), "vector"),
        (pa.large_list(pa.float64()), "vector"),
        (pa.list_(pa.string()), "list<item: string>"),
        (pa.list_(pa.list_(pa.float32())), "list<item: list<item: float>>"),
    ],
    ids=str,
)
def test_families_of_types(kind, stored):
    assert stored_as(kind) == stored


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ([1, 2], "number"),
        (pd.array([1, None], "Int64"), "number"),
        ([True, False], "boolean"),
        (["a", "b"], "string"),
        (pd.Categorical(["a", "b"]), "string"),
        (pd.to_datetime(["2026-01-01"]), "date"),
        (pd.to_timedelta([1], unit="s"), "duration"),
        ([[1.0, 2.0]], "vector"),
    ],
    ids=str,
)
def test_families_of_pandas_columns(values, stored):
    assert stored_in(pd.Series(values)) == stored


def test_a_schema_comes_back_from_json():
    roles = Roles(target=("y",), privileged=("worker",), example="id", ignored=("gold",), inputs=("age", "city"))
    inputs = {"age": InputColumn("number", "number"), "city": InputColumn("category", "string")}
    schema = Schema(
        roles=roles,
        task="classification",
        soft=False,
        inputs=inputs,
        privileged={"worker": "category"},
        annotator="worker",
    )
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert schema.csv_types(["id"]) == {"id": pa.string(), "age": pa.float64(), "city": pa.string()}
    assert schema.kinds == {"age": "number", "city": "category", "worker": "category"}
    for wrong, message in (({"task": "ranking"}, "`task`.*'ranking'"), ({"privileged": {"worker": "?"}}, "`kind`")):
        with pytest.raises(ValueError, match=message):
            Schema.from_json(json.loads(json.dumps(schema.to_json() | wrong)))

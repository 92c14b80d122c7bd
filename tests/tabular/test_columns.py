import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lupi.tabular.schema import InputColumn, Schema, check_matches, clean_inputs
from lupi.tabular.spec import Roles


def test_values_get_the_types_of_their_kinds():
    frame = pd.DataFrame({"zip": [8001.0, 3011.0], "price": ["1.5", "2"], "open": [True, False]})
    inputs = {
        "zip": InputColumn("category", "number"),
        "price": InputColumn("number", "string"),
        "open": InputColumn("boolean", "boolean"),
    }
    prepared = clean_inputs(frame, inputs)
    assert prepared["zip"].tolist() == ["8001", "3011"]
    assert prepared["price"].tolist() == [1.5, 2.0]
    assert prepared["open"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "kind", "stored", "message"),
    [
        ([[0.5], None], "vector", "vector", "^Expected input column 'a' to have a value in every row, but row 101 has"),
        (["x.png", None], "image", "string", "^Expected input column 'a' to have a value in every row, but row 101 "),
        (["1", "x"], "number", "string", "^Expected input column 'a' to be finite numbers, but got 'x' in row 101.$"),
        ([1.0, np.inf], "number", "number", "'a'.*'inf' in row 101"),
    ],
)
def test_values_that_are_missing_or_no_numbers(values, kind, stored, message):
    with pytest.raises(ValueError, match=message):
        clean_inputs(pd.DataFrame({"a": values}), {"a": InputColumn(kind, stored)}, range(100, 102))


@pytest.mark.parametrize(
    ("values", "stored", "expected"),
    [
        (["x", None, "y"], "string", ["x", None, "y"]),
        ([8001, None, 3011], "number", ["8001", None, "3011"]),
        (pd.Categorical(["x", None, "y"]), "string", ["x", None, "y"]),
    ],
)
def test_categories_may_be_missing(values, stored, expected):
    column = clean_inputs(pd.DataFrame({"a": values}), {"a": InputColumn("category", stored)})["a"]
    assert [None if pd.isna(value) else value for value in column] == expected


@pytest.mark.parametrize(
    ("values", "stored"),
    [([1.5, None], "number"), (["1.5", None], "string"), (pd.array([2, None], "Int64"), "number")],
)
def test_numbers_may_be_missing(values, stored):
    column = clean_inputs(pd.DataFrame({"a": values}), {"a": InputColumn("number", stored)})["a"]
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
    schema, inputs = pa.schema({"a": now}), {"a": InputColumn(kind, stored)}
    if good:
        check_matches(schema, inputs, "t.parquet")
    else:
        with pytest.raises(
            ValueError, match=f"^Expected column 'a' of t.parquet to be a {stored} as in training, but "
        ):
            check_matches(schema, inputs, "t.parquet")
    if stored == "string":  # digits in a CSV file can be strings
        check_matches(schema, inputs, "t.csv")


def test_columns_as_in_training():
    inputs = dict.fromkeys(["a", "b", "c"], InputColumn("number", "number"))
    with pytest.raises(
        ValueError, match=r"^Expected t to have the model's input columns, but it has no 'b' and 1 more\.$"
    ):
        check_matches(pa.schema({"a": pa.int64()}), inputs, "t")


def test_a_schema_comes_back_from_json():
    roles = Roles(target=("y",), privileged=("worker",), example="id", ignored=("gold",), inputs=("age", "city"))
    inputs = {"age": InputColumn("number", "number"), "city": InputColumn("category", "string")}
    schema = Schema(roles, "classification", inputs, {"worker": "category"})
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert schema.csv_types(["id"]) == {"id": pa.string(), "age": pa.float64(), "city": pa.string()}

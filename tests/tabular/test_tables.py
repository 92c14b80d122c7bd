import decimal
import gzip
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lupi.tabular import tables
from lupi.tabular.tables import Input, Roles, Schema


def roles_of(inputs, **others):
    parts = {"target": ("y",), "privileged": (), "example": None, "ignored": ()} | others
    return Roles(inputs=tuple(inputs), **parts)


def kinds(frame, given=None, **others):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    found, notes = tables.input_kinds(tables.as_pandas(table), table.schema, roles_of(frame, **others), given or {})
    return {name: column.kind for name, column in found.items()}, notes


# -------------------------------------------------------------------------------- reading


def write_csv(path, text):
    path.write_text(text)
    return path


@pytest.fixture
def csv(tmp_path):
    return write_csv(tmp_path / "t.csv", "id,age,open,note\n007,1.5,true,a\n008,2,false,NA\n")


def test_csv_columns_have_types(csv):
    rows = tables.read_table(csv, ["id", "age", "open", "note"])
    assert [tables.stored_as(field.type) for field in rows.schema] == ["number", "number", "boolean", "string"]
    assert rows.column("note").to_pylist() == ["a", None]
    assert rows.column("id").to_pylist() == [7, 8]
    assert tables.read_table(csv, ["id"], strings=["id"]).column("id").to_pylist() == ["007", "008"]


def test_csv_types_are_those_of_all_rows(tmp_path):
    """A real number far from the beginning: the first megabyte holds whole numbers alone."""
    path = write_csv(tmp_path / "t.csv", "age\n" + "1234567\n" * 300_000 + "0.5\n")
    assert tables.read_table(path, ["age"]).column("age")[-1].as_py() == 0.5


def test_csv_compressed_and_with_lines_in_values(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write('a,b\n1,"two\nlines"\n')
    table = tables.open_table(tmp_path / "t.csv.gz")
    (part,) = tables.batches(table, ["b"], tmp_path / "t.csv.gz")
    assert part.to_pylist() == [{"b": "two\nlines"}]
    assert tables.read_table(tmp_path / "t.csv.gz", ["a", "b"]).num_rows == 1


def test_a_folder_of_parquet_with_partitions(tmp_path):
    for year, values in ((2020, [1, 2]), (2021, [3])):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"a": values}), tmp_path / f"year={year}" / "part.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    whole = tables.read_table(tmp_path, ["year", "a"])
    assert whole.to_pylist() == [{"year": 2020, "a": 1}, {"year": 2020, "a": 2}, {"year": 2021, "a": 3}]
    table = tables.open_table(tmp_path)
    assert pa.concat_tables(tables.batches(table, ["year", "a"], tmp_path)) == whole


def test_batches_are_small_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 10)
    pq.write_table(pa.table({"a": range(95)}), tmp_path / "t.parquet")
    parts = list(tables.batches(tables.open_table(tmp_path / "t.parquet"), ["a"], ""))
    assert max(part.num_rows for part in parts) == 10
    assert pa.concat_tables(parts).column("a").to_pylist() == list(range(95))


def test_files_of_a_folder_may_differ_in_width(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1], pa.int64())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([2], pa.int32())}), tmp_path / "2.parquet")
    parts = list(tables.batches(tables.open_table(tmp_path), ["a"], tmp_path))
    assert pa.concat_tables(parts).column("a").to_pylist() == [1, 2]


def test_decimals_dictionaries_and_dates_become_plain():
    table = pa.table(
        {
            "price": [decimal.Decimal("1.5")],
            "city": pa.array(["Bern"]).dictionary_encode(),
            "day": pa.array([0], pa.date32()),
        }
    )
    frame = tables.as_pandas(table)
    assert frame["price"].dtype == np.float64
    assert frame["city"].tolist() == ["Bern"]
    assert frame["day"].dtype.kind == "M"
    assert [tables.stored_as(field.type) for field in table.schema] == ["number", "string", "date"]


def test_tables_that_cannot_be_read(tmp_path):
    def refused(name, content, message):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
            tables.read_table(path, ["a"])
        assert str(path) in str(caught.value)

    refused("none.csv", None, r"^Expected a table, but there is no \S+\.$")
    refused("t.xlsx", b"x", r"^Expected a table to be \.csv, \.parquet or a folder of \.parquet, but got \S+\.$")
    refused("empty.csv", b"", r"^Expected \S+ to have rows, but it is empty\.$")
    refused("empty.parquet", b"", r"^Expected \S+ to have rows, but it is empty\.$")
    refused("header.csv", b"a\n", r"^Expected \S+ to have rows, but it is empty\.$")
    refused("bad.parquet", b"PAR1 nonsense", r"^Expected \S+ to be a table that can be read, but got: .*\.$")
    refused("bad.csv", b"a,b\n1,2\n3\n", r"^Expected \S+ to be a table that can be read, but got: .*\.$")
    refused(
        "twice.csv", b"a,a\n1,2\n", r"^Expected \S+ to be a table that can be read, but got: CSV file contained mul"
    )
    pq.write_table(pa.Table.from_arrays([[1], [2]], names=["a", "a"]), tmp_path / "twice.parquet")
    refused("twice.parquet", None, r"^Expected \S+ to be a table that can be read, but got: .* duplicate ")
    (tmp_path / "folder").mkdir()
    refused("folder", None, r"^Expected \S+ to be a folder of \.parquet files, but it has none\.$")


# -------------------------------------------------------------------------------- roles


def test_what_is_not_named_is_input():
    names = ["id", "age", "worker", "label", "gold", "city"]
    roles = Roles.of(names, ["label"], ["worker"], "id", ["gold"])
    assert roles.inputs == ("age", "city")
    assert roles.used == ["label", "worker", "id", "age", "city"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": []}, "^Expected `--target` to name a column, but got none.$"),
        ({"target": ["labl"]}, "^Expected `--target` to name a column .*, but got 'labl': did you mean 'label'.$"),
        ({"privileged": ["?"]}, "^Expected `--privileged` to .*, but got '.': the columns are age, worker, label.$"),
        ({"example": "label"}, "^Expected column 'label' in one role, but got --target and --example.$"),
        ({"privileged": ["worker", "worker"]}, "^Expected column 'worker' in one role, but got --privileged and --p"),
        ({"ignore": ["age", "worker"]}, "^Expected some columns to be inputs, but all are target, "),
    ],
)
def test_roles_that_make_no_sense(options, message):
    with pytest.raises(ValueError, match=message):
        Roles.of(["age", "worker", "label"], **{"target": ["label"]} | options)


@pytest.mark.parametrize("option", ["age", "age=", "age=kind"])
def test_kinds_that_make_no_sense(option):
    with pytest.raises(ValueError, match=f"^Expected `--kind` to be COLUMN=KIND .*, but got '{option}'.$"):
        tables.read_kinds([option], ["age"])


# -------------------------------------------------------------------------------- kinds


def test_kinds_are_recognised():
    n = 60
    frame = pd.DataFrame(
        {
            "size": np.linspace(0, 1, n),
            "count": np.arange(n) % 7,
            "open": np.arange(n) % 2 == 0,
            "city": np.array(["Bern", "Rome", "New York"])[np.arange(n) % 3],
            "review": [f"this is the review of number {i}" for i in range(n)],
            "day": pd.date_range("2020-01-01", periods=n),
        }
    )
    expected = {
        "size": "number",
        "count": "number",
        "open": "boolean",
        "city": "category",
        "review": "text",
        "day": "number",
    }
    assert kinds(frame) == (expected, [])
    assert kinds(frame, {"count": "category", "review": "category"})[0] == expected | {
        "count": "category",
        "review": "category",
    }


@pytest.mark.parametrize("values", [[f"q{i}" for i in range(100)], ["q0", "q0", *(f"q{i}" for i in range(98))]])
def test_strings_that_are_identifiers(values):
    frame = pd.DataFrame({"key": values})
    with pytest.raises(ValueError, match=r"^Expected input columns without identifiers, but 'key' has \d+ distinct"):
        kinds(frame)
    assert kinds(frame, {"key": "category"})[0] == {"key": "category"}


def test_identifiers_are_counted_by_example():
    """Ten annotations each: one row in ten is distinct, but every example is."""
    frame = pd.DataFrame({"file": np.repeat([f"f{i}" for i in range(50)], 10), "example": np.repeat(range(50), 10)})
    assert kinds(frame[["file"]])[0] == {"file": "category"}
    table = pa.Table.from_pandas(frame)
    with pytest.raises(ValueError, match=r"'file' has 50 distinct strings in 50 examples: name it in `--ignore`"):
        tables.input_kinds(frame, table.schema, roles_of(["file"], example="example"), {})


def test_many_strings_are_no_category():
    names = [f"w{i % 1500}" for i in range(6000)]
    with pytest.raises(ValueError, match="'name' has 1,500 distinct strings in 6,000 examples"):
        kinds(pd.DataFrame({"name": names}))


def test_numbers_that_are_identifiers():
    frame = pd.DataFrame({"worker_id": [3, 4, 3]})
    with pytest.raises(ValueError, match=r"'worker_id' holds whole numbers .*or say `--kind worker_id=number`\.$"):
        kinds(frame)
    assert kinds(frame, {"worker_id": "number"})[0] == {"worker_id": "number"}


def test_notes_for_a_second_look():
    frame = pd.DataFrame({"sentence": np.repeat(range(30), 3), "x": np.repeat(np.linspace(0, 1, 30), 3), "Gold": 1})
    _, notes = kinds(frame)
    assert [note.split("'")[1] for note in notes] == ["Gold", "sentence"]
    assert kinds(frame[["x"]])[1] == []


def test_lists_are_no_inputs():
    with pytest.raises(
        ValueError, match=r"^Expected input column 'v' to be numbers, .* but it is list<.*`--ignore`\.$"
    ):
        kinds(pd.DataFrame({"v": [[1, 2], [3]]}))
    with pytest.raises(ValueError, match=r"^Expected column 'n' to be strings to be read as text, but it is number.$"):
        kinds(pd.DataFrame({"n": [1, 2]}), {"n": "text"})
    schema = pa.schema({"v": pa.list_(pa.int64())})
    with pytest.raises(ValueError, match=r"^Expected target 'v' to be numbers, booleans or strings, but it is list<"):
        tables.check_types(schema, ["v"], "target")


def test_privileged_kinds():
    frame = pd.DataFrame(
        {
            "annotator": [1, 2, None],
            "seconds": [3, 4, 5],
            "day": pd.date_range("2020", periods=3),
            "sure": [True, False, True],
            "name": list("abc"),
            "rater": [0.5, 1, 2],
        }
    )
    roles = roles_of(["x"], privileged=tuple(frame))
    found, notes = tables.privileged_kinds(frame, roles, {})
    assert found == {
        "annotator": "category",
        "seconds": "number",
        "day": "number",
        "sure": "category",
        "name": "category",
        "rater": "number",
    }
    (note,) = notes
    assert note.startswith("Privileged column 'annotator' holds whole numbers that look like ids")
    changed, notes = tables.privileged_kinds(frame, roles, {"annotator": "number", "seconds": "category"})
    assert (changed["annotator"], changed["seconds"], notes) == ("number", "category", [])
    with pytest.raises(ValueError, match=r"^Expected privileged column 'name' to be a category or a number, but got"):
        tables.privileged_kinds(frame, roles, {"name": "text"})


def test_values_get_the_types_of_their_kinds():
    frame = pd.DataFrame({"zip": [8001.0, 3011.0], "price": ["1.5", "2"], "open": [True, False]})
    inputs = {
        "zip": Input("category", "number"),
        "price": Input("number", "string"),
        "open": Input("boolean", "boolean"),
    }
    prepared = tables.prepare(frame, inputs)
    assert prepared["zip"].tolist() == ["8001", "3011"]
    assert prepared["price"].tolist() == [1.5, 2.0]
    assert prepared["open"].tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "stored", "message"),
    [
        ([1.0, None], "number", "^Expected input column 'a' to have a value in every row, but row 101 has none.$"),
        (["x", None], "string", "^Expected input column 'a' to have a value in every row, but row 101 has none.$"),
        (["1", "x"], "string", "^Expected column 'a' to be numbers, but got 'x' in row 101.$"),
        ([1.0, np.inf], "number", "^Expected input column 'a' to be finite numbers, but row 101 is infinite.$"),
    ],
)
def test_values_that_are_missing_or_no_numbers(values, stored, message):
    with pytest.raises(ValueError, match=message):
        tables.prepare(pd.DataFrame({"a": values}), {"a": Input("number", stored)}, start=100)


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
        ("text", "string", pa.int64(), False),
    ],
)
def test_types_as_in_training(kind, stored, now, good):
    schema, inputs = pa.schema({"a": now}), {"a": Input(kind, stored)}
    if good:
        tables.check_matches(schema, inputs, "t.parquet")
    else:
        with pytest.raises(
            ValueError, match=f"^Expected column 'a' of t.parquet to be a {stored} as in training, but "
        ):
            tables.check_matches(schema, inputs, "t.parquet")
    if stored == "string":  # digits in a CSV file can be strings
        tables.check_matches(schema, inputs, "t.csv")


def test_columns_as_in_training():
    inputs = dict.fromkeys(["a", "b", "c"], Input("number", "number"))
    with pytest.raises(
        ValueError, match=r"^Expected t to have the model's input columns, but it has no 'b' and 1 more\.$"
    ):
        tables.check_matches(pa.schema({"a": pa.int64()}), inputs, "t")


# -------------------------------------------------------------------------------- targets


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        ([0, 1], "classification"),
        ([1.0, 3.0], "classification"),
        ([0.5, 1.0], "regression"),
        (range(101), "regression"),
        (range(100), "classification"),
    ],
    ids=str,
)
def test_the_task_follows_the_target(values, task):
    frame = pd.DataFrame({"y": values})
    assert tables.target_task(frame, ["y"], None)[0] == task
    assert tables.target_task(frame, ["y"], "classification") == ("classification", "as `--task` says")
    if not isinstance(values[0], str):
        assert tables.target_task(frame, ["y"], "regression")[0] == "regression"


@pytest.mark.parametrize(
    ("columns", "task", "message"),
    [
        ({"y": ["a", None]}, None, "^Expected target 'y' to have a value in every row, but row 1 has none.$"),
        ({"y": [3.0, 3.0]}, None, "^Expected target 'y' to have at least two values, but all are '3'.$"),
        ({"y": [0, 1], "z": [0, 2]}, None, "^Expected several targets to be 0 or 1, but 'z' has '2' in row 1.$"),
        ({"y": [0, 1], "z": [1, 0]}, "regression", "^Expected one target for regression, but got 2.$"),
        ({"y": ["a", "b"]}, "regression", "^Expected target 'y' to be numbers for regression, but got 'a'.$"),
        ({"y": [0, 1]}, "ranking", "^Expected `--task` to be one of classification, regression, but got 'ranking'.$"),
    ],
)
def test_targets_that_make_no_sense(columns, task, message):
    with pytest.raises(ValueError, match=message):
        tables.target_task(pd.DataFrame(columns), list(columns), task)


def test_several_targets():
    frame = pd.DataFrame({"y": [0, 1], "z": [True, False]})
    assert tables.target_task(frame, ["y", "z"], None) == ("classification", "2 targets of 0 and 1")


def test_a_schema_comes_back_from_json():
    roles = Roles(("y",), ("worker",), "id", ("gold",), ("age", "city"))
    inputs = {"age": Input("number", "number"), "city": Input("category", "string")}
    schema = Schema(roles, "classification", inputs, {"worker": "category"})
    assert Schema.from_json(json.loads(json.dumps(schema.to_json()))) == schema
    assert schema.csv_types(["id"]) == {"id": pa.string(), "age": pa.float64(), "city": pa.string()}

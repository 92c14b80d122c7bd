import decimal
import gzip
import os
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lupi.tabular.formats import base, open_file, read_batches, read_schema, read_table
from lupi.tabular.frames import to_pandas
from lupi.tabular.values import stored_as


def write_csv(path, text):
    path.write_text(text)
    return path


@pytest.fixture
def csv(tmp_path):
    return write_csv(tmp_path / "t.csv", "id,age,open,note\n007,1.5,true,a\n008,2,false,NA\n")


def test_csv_columns_have_types(csv):
    rows = read_table(csv, ["id", "age", "open", "note"])
    assert [stored_as(field.type) for field in rows.schema] == ["number", "number", "boolean", "string"]
    assert rows.column("note").to_pylist() == ["a", "NA"]
    assert rows.column("id").to_pylist() == [7, 8]
    assert read_table(csv, ["id"], types={"id": pa.string()}).column("id").to_pylist() == ["007", "008"]


def test_csv_types_are_those_of_all_rows(tmp_path):
    """A real number far from the beginning: the first megabyte holds whole numbers alone."""
    path = write_csv(tmp_path / "t.csv", "age\n" + "1234567\n" * 300_000 + "0.5\n")
    assert read_table(path, ["age"]).column("age")[-1].as_py() == 0.5


def test_csv_compressed_and_with_lines_in_values(tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write('a,b\n1,"two\nlines"\n')
    table = open_file(tmp_path / "t.csv.gz")
    (part,) = read_batches(table, ["b"])
    assert part.to_pylist() == [{"b": "two\nlines"}]
    assert read_table(tmp_path / "t.csv.gz", ["a", "b"]).num_rows == 1


def test_a_folder_of_parquet_with_partitions(tmp_path):
    for year, values in ((2020, [1, 2]), (2021, [3])):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"a": values}), tmp_path / f"year={year}" / "part.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    whole = read_table(tmp_path, ["year", "a"])
    assert whole.to_pylist() == [{"year": 2020, "a": 1}, {"year": 2020, "a": 2}, {"year": 2021, "a": 3}]
    table = open_file(tmp_path)
    assert pa.concat_tables(read_batches(table, ["year", "a"])) == whole


def test_an_index_of_pandas_is_no_column(tmp_path):
    """A part of a DataFrame keeps the numbers of its rows, which say nothing about the examples."""
    table = pa.table({"a": [1, 2], "b": ["x", "y"], "__index_level_0__": [3, 5]})
    pq.write_table(table, tmp_path / "t.parquet")
    table = open_file(tmp_path / "t.parquet")
    assert table.schema.names == ["a", "b"]
    assert next(table.batches(["b"])).column_names == ["b"]
    pd.DataFrame({"a": [1, 2, 3]})[lambda t: t["a"] != 2].to_parquet(tmp_path / "p.parquet", index=True)
    assert open_file(tmp_path / "p.parquet").schema.names == ["a"]


def test_names_in_a_parquet_file_must_be_distinct(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pq.write_table(twice, tmp_path / "t.parquet")
    for path in (tmp_path / "t.parquet", tmp_path):
        with pytest.raises(ValueError, match=r"t\.parquet to have distinct column names, but got 'a' twice\.$"):
            read_schema(open_file(path))


def test_batches_are_small_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(base, "ROWS_AT_ONCE", 10)
    pq.write_table(pa.table({"a": range(95)}), tmp_path / "t.parquet")
    parts = list(read_batches(open_file(tmp_path / "t.parquet"), ["a"]))
    assert max(part.num_rows for part in parts) == 10
    assert pa.concat_tables(parts).column("a").to_pylist() == list(range(95))


def test_files_of_a_folder_may_differ_in_width(tmp_path):
    pq.write_table(pa.table({"a": pa.array([1], pa.int64())}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([2], pa.int32())}), tmp_path / "2.parquet")
    parts = list(read_batches(open_file(tmp_path), ["a"]))
    assert pa.concat_tables(parts).column("a").to_pylist() == [1, 2]


def test_decimals_dictionaries_and_dates_become_plain():
    table = pa.table(
        {
            "price": [decimal.Decimal("1.5")],
            "city": pa.array(["Bern"]).dictionary_encode(),
            "day": pa.array([0], pa.date32()),
        }
    )
    frame = to_pandas(table)
    assert frame["price"].dtype == np.float64
    assert frame["city"].tolist() == ["Bern"]
    assert frame["day"].dtype.kind == "M"
    assert [stored_as(field.type) for field in table.schema] == ["number", "string", "date"]


def test_tables_that_cannot_be_read(tmp_path):
    def refused(name, content, message):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
            read_table(path, ["a"])
        assert str(path) in str(caught.value)

    refused("none.csv", None, "there is no")
    refused("t.doc", b"x", r"\.csv, \.jsonl, \.json, \.xlsx, \.parquet or a folder")
    refused("empty.csv", b"", "is empty")
    refused("empty.parquet", b"", "is empty")
    refused("header.csv", b"a\n", "is empty")
    refused("bad.parquet", b"PAR1 nonsense", "readable table")
    refused("bad.csv", b"a,b\n1,2\n3\n", "readable table")
    refused("twice.csv", b"a,a\n1,2\n", "distinct column names")
    pq.write_table(pa.Table.from_arrays([[1], [2]], names=["a", "a"]), tmp_path / "twice.parquet")
    refused("twice.parquet", None, "distinct column names")
    (tmp_path / "folder").mkdir()
    refused("folder", None, "it has none")


@pytest.mark.parametrize("encoded", [False, True], ids=["strings", "dictionary"])
def test_strings_that_are_not_utf8_are_named(encoded):
    offsets = pa.array([0, 2, 4], pa.int32()).buffers()[1]
    names = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"ab\xff\xfe"))
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), names) if encoded else names
    with pytest.raises(ValueError, match=r"^Expected column 'who' to be UTF-8, but got b'.*' in row 1"):
        to_pandas(pa.table({"size": [1, 2], "who": column}))


@pytest.mark.skipif(sys.platform != "linux", reason="paths are bytes on Linux alone")
def test_a_path_that_is_not_utf8_is_refused(tmp_path):
    path = tmp_path / os.fsdecode(b"t\xff.csv")
    path.write_text("a\n1\n")
    with pytest.raises(ValueError, match=r"^Expected the path of a table to be UTF-8, but got "):
        open_file(path)

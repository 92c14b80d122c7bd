import gzip
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.tabular.formats import open_file
from lupi.tabular.formats.json_files import read_records

ROWS = [{"id": 7, "text": "good\nfilm"}, {"id": 8, "text": None}, {"id": 9, "score": 0.5}]
WHOLE = [{"id": 7, "text": "good\nfilm", "score": None}, {"id": 8, "text": None, "score": None}]
WHOLE += [{"id": 9, "text": None, "score": 0.5}]


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.json", json.dumps(ROWS, indent=2)),
        ("t.json", lines(ROWS)),  # as the `to_json` of Hugging Face names it
        ("t.json", "\ufeff" + json.dumps(ROWS)),
        ("t.jsonl", lines(ROWS)),
        ("t.ndjson", lines(ROWS)),
        ("t.json", json.dumps({name: [row[name] for row in WHOLE] for name in WHOLE[0]})),
        ("t.json", json.dumps({name: {str(i): row[name] for i, row in enumerate(WHOLE)} for name in WHOLE[0]})),
    ],
)
def test_objects_are_rows(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    table = open_file(tmp_path / name)
    columns = ["id", "text", "score"]
    assert table.schema.names == columns
    assert table.read(columns).to_pylist() == WHOLE
    assert pa.concat_tables(table.batches(columns)).to_pylist() == WHOLE
    assert table.count_rows() == 3


def test_compressed_lines(tmp_path):
    with gzip.open(tmp_path / "t.jsonl.gz", "wt") as file:
        file.write(lines(ROWS))
    table = open_file(tmp_path / "t.jsonl.gz")
    assert table.read(["id"]).num_rows == table.count_rows() == 3
    assert sum(batch.num_rows for batch in table.batches(["id"])) == 3


def test_lines_have_types_that_fit_all_of_them(tmp_path):
    """Whole numbers for megabytes, then a real one."""
    path = tmp_path / "t.jsonl"
    path.write_text(lines([{"x": 3, "note": "w" * 80}] * 80_000) + lines([{"x": 0.5, "note": "last"}]))
    parts = list(open_file(path).batches(["x", "note"]))
    assert len(parts) > 1
    assert parts[-1].slice(parts[-1].num_rows - 1).to_pylist() == [{"x": 0.5, "note": "last"}]
    assert sum(part.num_rows for part in parts) == 80_001


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(-9, 9), min_size=1), min_size=2))
def test_a_list_and_lines_are_the_same_records(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("json")
    (folder / "list.json").write_text(json.dumps(records))
    (folder / "lines.json").write_text(lines(records))
    assert read_records(folder / "list.json") == read_records(folder / "lines.json") == records


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is empty"),
        ("[1, 2]", "element 0 is a int"),
        ('{"a": 1}\n{"a": \n', "to be JSON, but got, in line 2"),
        ('[{"a": 1}, {"a": "x"}]', "readable table, but got"),
        ("3", "element 0 is a int"),
    ],
)
def test_files_that_are_no_tables(tmp_path, text, message):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        open_file(tmp_path / "t.json")


@pytest.mark.parametrize("suffix", ["json", "jsonl", "lines.json"])
@pytest.mark.parametrize(("start", "end"), [("[", "]"), ('{"a": ', "}")])
def test_deep_nesting_is_an_error(tmp_path, suffix, start, end):
    """Arrow would crash on the lines."""
    row = '{"x": 1, "text": "[[", "deep": ' + start * 100_000 + "1" + end * 100_000 + "}"
    path = tmp_path / f"t.{suffix}"
    path.write_text(f"[{row}]" if suffix == "json" else f'{{"x": 1}}\n{row}\n')
    with pytest.raises(ValueError, match="to be JSON with at most 500 levels, but it has more"):
        open_file(path)


def test_many_lists_beside_each_other_are_not_deep(tmp_path):
    (tmp_path / "t.jsonl").write_text(lines([{"x": [[1]] * 600, "text": "[" * 600}]))
    assert open_file(tmp_path / "t.jsonl").count_rows() == 1


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_whole_numbers_of_more_than_64_bits_are_refused_since_they_would_merge(tmp_path, suffix):
    def write(*ids):
        records = [{"id": one, "text": f"number {2**64}", "mass": 1e25} for one in ids]
        lines = json.dumps(records) if suffix == "json" else "\n".join(map(json.dumps, records))
        (tmp_path / f"t.{suffix}").write_text(lines)
        return tmp_path / f"t.{suffix}"

    assert open_file(write(2**63 - 1, 2**63 - 2)).read(["id"])["id"].to_pylist() == [2**63 - 1, 2**63 - 2]
    with pytest.raises(ValueError, match=rf"t\.{suffix} to fit into 64 bits, but got {2**63}; write ids as strings\.$"):
        open_file(write(1, 2**63))

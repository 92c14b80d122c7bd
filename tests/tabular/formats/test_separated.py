import csv
import gzip
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.tabular.formats import open_file
from lupi.tabular.formats.separated import SEPARATORS, sniff

CELLS = st.text(alphabet='ab 1.,;|\t"\n', max_size=8)


@given(st.data(), st.sampled_from(sorted(SEPARATORS)), st.integers(2, 4), st.integers(1, 5))
def test_what_a_writer_wrote_is_split_as_it_was(data, separator, width, height):
    """Whatever the values hold, a separator that all lines agree on is found, unless the commas agree, too."""
    names = [f"column{i}" for i in range(width)]
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=height, max_size=height))
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([names, *rows])
    assert sniff(file.getvalue()).separator == separator


@pytest.mark.parametrize(
    ("name", "text", "note"),
    [
        ("t.csv", "id,age\n7,1.5\n", None),
        ("t.tsv", "id\tage\n7\t1.5\n", None),
        ("t.csv", "id;age\n7;1.5\n", "Table: values separated by semicolons."),
        ("t.csv", "id;age\n7;1,5\n", "Table: values separated by semicolons with decimal commas."),
        ("t.csv", "id\tage\n7\t1.5\n", "Table: values separated by tabs."),
        ("t.csv", "id|age\n7|1.5\n", "Table: values separated by vertical bars."),
        ("t.tsv", "id,age\n7,1.5\n", "Table: values separated by commas."),
        ("t.csv", "\ufeffid;age\n7;1.5\n", "Table: values separated by semicolons."),
        ("t.csv", "id,age\n7,1.5\n\n", None),
    ],
)
def test_the_separator_is_found_and_told(tmp_path, name, text, note):
    (tmp_path / name).write_text(text)
    table = open_file(tmp_path / name)
    assert table.note == note
    assert table.read(["id", "age"]).to_pylist() == [{"id": 7, "age": 1.5}]
    assert pa.concat_tables(table.batches(["age", "id"])).to_pylist() == [{"age": 1.5, "id": 7}]
    assert table.count_rows() == 1


def test_points_are_decimal_points_even_between_semicolons(tmp_path):
    (tmp_path / "t.csv").write_text("price;list\n1.5;1,2\n")
    assert open_file(tmp_path / "t.csv").read(["price", "list"]).to_pylist() == [{"price": 1.5, "list": "1,2"}]


@pytest.mark.parametrize("opened", [open, gzip.open])
def test_a_column_that_is_empty_for_megabytes_has_the_type_of_its_values(tmp_path, opened):
    """Neither type nor value may depend on how far from the beginning the first value is."""
    path = tmp_path / ("t.csv.gz" if opened is gzip.open else "t.csv")
    with opened(path, "wt") as file:
        file.write("x,gold\n" + "some words to fill a line of the table,\n" * 150_000 + "more,yes\n")
    gold = open_file(path).read(["gold"]).column("gold")
    assert (gold.type, gold[0].as_py(), gold[-1].as_py()) == (pa.string(), None, "yes")
    *_, last = open_file(path).batches(["gold"])
    assert last.column("gold")[-1].as_py() == "yes"


def test_names_must_be_distinct(tmp_path):
    (tmp_path / "t.csv").write_text("a,a\n1,2\n")
    with pytest.raises(ValueError, match="distinct column names, but got 'a' twice"):
        _ = open_file(tmp_path / "t.csv").schema

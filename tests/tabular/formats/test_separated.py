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


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=repr)
def test_the_separator_of_a_large_file_is_found_whatever_ends_its_lines(end):
    assert sniff(f"a;b{end}" + f"1;2{end}" * 200_000).separator == ";"


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


def lines(separator, texts):
    rows = [separator.join((str(number), text, str(number % 2))) for number, text in enumerate(texts)]
    return "\n".join([separator.join(("id", "text", "label")), *rows, ""])


LONE = [f"word {number}" for number in range(100)]
LONE[20], LONE[60] = '"5 inch', '"6 inch'
PAIR = [*LONE]
PAIR[60] = '6 inch"'


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.tsv.gz"])
@pytest.mark.parametrize("texts", [LONE, PAIR, [*LONE[:60], *PAIR[61:]]])
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"], ids=repr)
def test_a_lone_quote_hides_no_rows(tmp_path, name, texts, end):
    text = lines("\t" if "tsv" in name else ",", texts)
    with (gzip.open if name.endswith("gz") else open)(tmp_path / name, "wt", newline=end) as file:
        file.write(text)
    table = open_file(tmp_path / name)
    assert table.read(["text"]).column("text").to_pylist() == texts
    assert pa.concat_tables(table.batches(["text"])).num_rows == table.count_rows() == len(texts)
    assert table.note == "Table: quotes are part of the values, since one in line 22 is not closed there."


def test_quotes_that_are_not_closed_beside_quotes_that_are_needed(tmp_path):
    (tmp_path / "t.csv").write_text(lines(",", ['"one, two"', *LONE]))
    with pytest.raises(ValueError, match=r"value that begins in line 23 does not end in line 63 with its quotes"):
        _ = open_file(tmp_path / "t.csv").schema


def test_values_that_span_lines_are_told(tmp_path):
    texts = ["one", '"two\nthree\n""four"""', '"a, b"', "five", '"\n"']
    (tmp_path / "t.csv").write_text(lines(",", texts))
    table = open_file(tmp_path / "t.csv")
    assert table.read(["text"]).column("text").to_pylist() == ["one", 'two\nthree\n"four"', "a, b", "five", "\n"]
    which = "2 quoted values span several lines, the first lines 3 to 5"
    assert table.note == f"Table: {which}; 3 lines are no rows of their own."


def test_a_carriage_return_within_a_value_is_told(tmp_path):
    (tmp_path / "t.csv").write_bytes(lines(",", ["one", '"two, \rthree"', "four"]).encode())
    table = open_file(tmp_path / "t.csv")
    assert table.read(["text"]).column("text").to_pylist() == ["one", "two, \rthree", "four"]
    assert (table.note or "").endswith("lines 3 to 4; 1 line is no row of its own.")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (['"good"', 'a "b"'], ['"good"', 'a "b"']),
        (['"good" she said'], ['"good" she said']),
        (['"say ""hi"""', "b"], ['say "hi"', "b"]),
        (['"a\tb"', '"c"'], ["a\tb", "c"]),
    ],
)
def test_quotes_between_tabs_are_part_of_values_unless_they_are_needed(tmp_path, texts, expected):
    (tmp_path / "t.tsv").write_text(lines("\t", texts))
    assert open_file(tmp_path / "t.tsv").read(["text"]).column("text").to_pylist() == expected


UNEVEN = st.text('ab,"\t', max_size=5) | st.text('ab"\n', max_size=5)
"""No line of a value that spans lines looks like a row."""


@given(st.lists(st.lists(UNEVEN, min_size=2, max_size=2), min_size=1, max_size=6))
@pytest.mark.parametrize("separator", [",", "\t"])
def test_what_a_writer_wrote_is_read_as_it_was(tmp_path_factory, separator, rows):
    path = tmp_path_factory.mktemp("quotes") / ("t.csv" if separator == "," else "t.tsv")
    with path.open("w", newline="") as file:
        csv.writer(file, delimiter=separator, lineterminator="\n").writerows([["x", "y"], *rows])
    found = open_file(path).read(["x", "y"])
    expected = [[value or None for value in row] for row in rows]
    assert [list(row.values()) for row in found.to_pylist()] == expected


NAMES = "x,label\n1,yes\nNA,no\n,N/A\nnan,\n2,N/A\n"


def test_a_category_may_have_the_name_of_a_missing_value(tmp_path):
    (tmp_path / "t.csv").write_text(NAMES)
    table = open_file(tmp_path / "t.csv")
    expected = {"x": [1, None, None, None, 2], "label": ["yes", "no", "N/A", None, "N/A"]}
    assert table.read(["x", "label"]).to_pydict() == expected
    assert pa.concat_tables(table.batches(["x", "label"])).to_pydict() == expected
    kept = "Not missing but a value: 'N/A' in 2 rows of 'label'; leave cells empty where the value is missing."
    assert table.note == f"Missing: 'NA' in 1 row of 'x', 'nan' in 1 row of 'x'. {kept}"


def test_a_column_of_names_of_missing_values_only(tmp_path):
    (tmp_path / "t.csv").write_text("x,label,empty\n1,NA,\n2,,\n")
    table = open_file(tmp_path / "t.csv").read(["label", "empty"])
    assert table.to_pydict() == {"label": ["NA", None], "empty": [None, None]}
    assert pa.types.is_null(table.schema.field("empty").type)


def test_values_that_are_not_utf8_are_counted_too(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"x,y\n1,\xff\nNA,b\n")
    assert open_file(tmp_path / "t.csv").note == "Missing: 'NA' in 1 row of 'x'."


@pytest.mark.parametrize("late", [False, True], ids=["first", "after a megabyte"])
def test_whole_numbers_of_more_than_64_bits_do_not_merge(tmp_path, late):
    few = [str(number) for number in range(200_000 * late)]
    ids = [str(2**63 + number) for number in range(5)] + ["", str(10**25), "7"]
    lines = [f"{one},{float(place)},1e25" for place, one in enumerate([*few, *ids])]
    (tmp_path / "t.csv").write_text("\n".join(["id,size,mass", *lines, ""]))
    table = open_file(tmp_path / "t.csv").read(["id", "size", "mass"])
    assert table["id"].to_pylist() == [*few, *ids[:5], None, *ids[6:]]
    assert (table.schema.field("size").type, table.schema.field("mass").type) == (pa.float64(), pa.float64())
    if not late:
        assert open_file(tmp_path / "t.csv").schema.field("id").type == pa.string()
        assert next(open_file(tmp_path / "t.csv").batches(["id"]))["id"].to_pylist()[:2] == ids[:2]

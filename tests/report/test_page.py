import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from lupi.report import Figure, Page, Section, Table, write_report
from lupi.report import page as module
from lupi.report.page import render


class Seen(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def page_of(*tables, **options):
    return Page("Title", "Verdict.", [Section("Part", tables=tables, **options)], "lupi compare", {"lupi": "1"})


def test_parts_come_in_order_the_verdict_first():
    page = Page(
        "The title",
        "The verdict.\nMore of it.",
        [
            Section(
                "One", "First text.\nSecond text.", figures=[Figure("<svg></svg>", "The caption")], notes=["A note"]
            ),
            Section("Two"),
        ],
        "lupi compare -o run",
        {"lupi": "0.1", "torch": "2.13"},
    )
    text = Seen(render(page).partition("<body>")[2]).text
    order = ["The title", "The verdict.", "More of it.", "One", "First text.", "Second text.", "The caption", "A note"]
    places = [text.index(part) for part in [*order, "Two", "lupi compare -o run", "lupi 0.1, torch 2.13."]]
    assert places == sorted(places)


def test_nothing_is_fetched_and_the_policy_forbids_it():
    seen = Seen(render(page_of(Table("T", pd.DataFrame({"a": [1]})))))
    assert not {"img", "iframe", "object", "embed", "base"} & set(seen.tags)
    assert [value for name, value in seen.attributes if name in ("src", "href")] == ["data:,"]
    policy = next(value for name, value in seen.attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[\w+/]{43}='(;|$)", policy)
    assert "http" not in policy


def test_style_and_script_refer_to_nothing_outside():
    _, style, script = module._parts()
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in style + script
    assert "</" not in style + script


@pytest.mark.parametrize("place", ["title", "verdict", "heading", "text", "note", "caption", "cell", "column", "hint"])
def test_every_text_is_escaped(place):
    evil = "<script>x</script>\"'&amp;"
    at = {name: evil if name == place else "ok" for name in ("title", "verdict", "heading", "text", "note", "caption")}
    column = evil if place == "column" else "column"
    table = Table(at["caption"], pd.DataFrame({column: [evil]}), hints={column: evil if place == "hint" else ""})
    html = render(
        Page(
            at["title"],
            at["verdict"],
            [Section(at["heading"], at["text"], [table], notes=[at["note"]])],
            evil,
            {evil: evil},
        )
    )
    seen = Seen(html)
    assert seen.tags.count("script") == 1
    assert evil in Seen(html.partition("<body>")[2]).text


def test_cells_are_written_by_kind():
    frame = pd.DataFrame(
        {
            "text": ["a", None],
            "whole": pd.array([1234, None], dtype="Int64"),
            "real": [-0.12345, np.nan],
            "flag": [True, False],
            "when": pd.to_datetime(["2024-01-02", None]),
            "worded": [2.0, np.nan],
        }
    )
    table = Table("T", frame, {"whole": ",d", "real": "+.2f"}, {"worded": ["two", "none"]})
    rows = list(table.rows())
    assert [cell.text for cell in rows[0].cells] == ["a", "1,234", "−0.12", "yes", "2024-01-02 00:00:00", "two"]
    assert [cell.text for cell in rows[1].cells] == ["–", "–", "–", "no", "–", "none"]
    assert [cell.value for cell in rows[0].cells] == [None, "1234", "-0.12345", None, None, "2.0"]
    assert [cell.value for cell in rows[1].cells] == [None, "NaN", "NaN", None, None, "NaN"]
    assert [heading.number for heading in table.headings()] == [False, True, True, False, False, True]


def test_the_order_that_rows_come_in_is_told():
    frame = pd.DataFrame({"a": [2, 1], "b": [1, 2]})
    assert [each.order for each in Table("T", frame, sorted_by="-a").headings()] == ["descending", "none"]
    assert [each.order for each in Table("T", frame, sorted_by="b").headings()] == ["none", "ascending"]


def test_a_long_table_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(module, "ROWS", 30)
    table = Table("T", pd.DataFrame({"a": range(31)}), marked=[False] * 29 + [True, True])
    html = render(page_of(table))
    assert html.count("<tr") == 31  # with the headings
    assert html.count('<tr class="marked"') == 1
    assert "The first 30 of 31 rows." in html
    assert Table("T", pd.DataFrame({"a": range(30)})).note == "30 rows."


def test_an_empty_table_and_an_empty_page_are_whole():
    assert "<tbody>" in render(page_of(Table("T", pd.DataFrame({"a": []}))))
    assert "How this was made" not in render(Page("T", "V"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formats": {"b": "d"}}, r"Expected a column among \['a'\], but got 'b'"),
        ({"sorted_by": "-b"}, r"Expected a column among \['a'\], but got 'b'"),
        ({"marked": [True]}, "Expected texts and marks of 2 rows, but got 1"),
        ({"texts": {"a": ["1"]}}, "Expected texts and marks of 2 rows, but got 1"),
    ],
)
def test_a_table_that_cannot_be_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Table("T", pd.DataFrame({"a": [1, 2]}), **options)


def test_columns_of_one_name_are_refused():
    with pytest.raises(ValueError, match="Expected columns of a table to be unique"):
        Table("T", pd.DataFrame([[1, 2]], columns=["a", "a"]))


def test_the_same_page_is_the_same_file_and_moves_into_place(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    page = page_of(Table("T", pd.DataFrame({"a": ["é \ud800"]}, dtype=object)))
    assert write_report(page, path) == path
    first = path.read_bytes()
    write_report(page, str(path))
    assert path.read_bytes() == first
    assert "é" in first.decode("utf-8")
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_report_that_fails_leaves_the_old_one(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="Unknown format code"):
        write_report(page_of(Table("T", pd.DataFrame({"a": [1.5]}), {"a": "d"})), path)
    assert path.read_text() == "old"

import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from lupi.report import Section
from lupi.report.page import MAX_ROWS, Figure, Page, Table, read_assets, render, write_report


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
    return Page(
        title="Title",
        verdict="Verdict.",
        sections=[Section(heading="Part", tables=tables, **options)],
    )


def test_parts_come_in_order_the_verdict_first():
    page = Page(
        title="The title",
        verdict="The verdict.\nMore of it.",
        sections=[
            Section(
                heading="One",
                text="First text.\nSecond text.",
                figures=[Figure("<svg></svg>", "The caption")],
                notes=["A note"],
            ),
            Section(heading="Two"),
        ],
    )
    html = render(page, command="lupi compare -o run", versions={"lupi": "0.1", "torch": "2.13"})
    text = Seen(html.partition("<body>")[2]).text
    order = ["The title", "The verdict.", "More of it.", "One", "First text.", "Second text.", "The caption", "A note"]
    places = [text.index(part) for part in [*order, "Two", "lupi compare -o run", "lupi 0.1, torch 2.13."]]
    assert places == sorted(places)


def test_nothing_is_fetched_and_the_policy_forbids_it():
    seen = Seen(render(page_of(Table(caption="T", frame=pd.DataFrame({"a": [1]})))))
    assert not {"img", "iframe", "object", "embed", "base"} & set(seen.tags)
    assert [value for name, value in seen.attributes if name in ("src", "href")] == ["data:,"]
    policy = next(value for name, value in seen.attributes if name == "content" and "default-src" in value)
    assert "default-src 'none'" in policy
    assert re.search(r"script-src 'sha256-[\w+/]{43}='(;|$)", policy)
    assert "http" not in policy


def test_style_and_script_refer_to_nothing_outside():
    _, style, script = read_assets()
    assert "url(" not in style
    assert "@import" not in style
    assert "http" not in style + script
    assert "</" not in style + script


@pytest.mark.parametrize("place", ["title", "verdict", "heading", "text", "note", "caption", "cell", "column", "hint"])
def test_every_text_is_escaped(place):
    evil = "<script>x</script>\"'&amp;"
    at = {name: evil if name == place else "ok" for name in ("title", "verdict", "heading", "text", "note", "caption")}
    column = evil if place == "column" else "column"
    hints = {column: evil if place == "hint" else ""}
    table = Table(caption=at["caption"], frame=pd.DataFrame({column: [evil]}), hints=hints)
    section = Section(heading=at["heading"], text=at["text"], tables=[table], notes=[at["note"]])
    page = Page(title=at["title"], verdict=at["verdict"], sections=[section])
    html = render(page, command=evil, versions={evil: evil})
    seen = Seen(html)
    assert seen.tags.count("script") == 1
    assert evil in Seen(html.partition("<body>")[2]).text


def test_cells_are_formatted_by_their_type():
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
    table = Table(caption="T", frame=frame, formats={"whole": ",d", "real": "+.2f"}, texts={"worded": ["two", "none"]})
    columns = list(table.columns())
    assert [column.texts[0] for column in columns] == ["a", "1,234", "−0.12", "yes", "2024-01-02 00:00:00", "two"]
    assert [column.texts[1] for column in columns] == ["–", "–", "–", "no", "–", "none"]

    assert [column.keys for column in columns if column.number] == [
        ["1234", "<NA>"],
        ["-0.12345", "nan"],
        ["2.0", "nan"],
    ]
    assert [column.number for column in columns] == [False, True, True, False, False, True]


def test_columns_with_intervals():
    """The ends have the name of the column, or are the only ones."""
    frame = pd.DataFrame({"a": [0.5, np.nan], "low": [0.25, np.nan], "high": [1.0, np.nan], "b": 2.0, "b_low": -3.0})
    table = Table(caption="T", frame=frame.assign(b_high=4.0), intervals={"a": ".2f", "b": ".0f"}, hints={"b": "nats"})
    one, other = table.columns()
    assert (one.texts, one.hint, one.number) == (["0.50 [0.25, 1.00]", "– [–, –]"], "[interval]", True)
    assert (other.texts, other.hint) == (["2 [−3, 4]"] * 2, "nats")


def test_the_heading_tells_the_order_of_the_rows():
    frame = pd.DataFrame({"a": [2, 1], "b": [1, 2]})
    for sorted_by, orders in (("-a", ["descending", "none"]), ("b", ["none", "ascending"])):
        table = Table(caption="T", frame=frame, sorted_by=sorted_by)
        assert [column.order for column in table.columns()] == orders


def test_a_long_table_is_cut_and_says_so():
    marked = [False] * (MAX_ROWS - 1) + [True, True]
    html = render(page_of(Table(caption="T", frame=pd.DataFrame({"a": range(MAX_ROWS + 1)}), marked=marked)))
    assert html.count("<tr") == 1 + MAX_ROWS  # with the headings
    assert html.count('<tr class="marked"') == 1
    assert "The first 5,000 of 5,001 rows." in html
    assert Table(caption="T", frame=pd.DataFrame({"a": range(30)})).note == "30 rows."


def test_an_empty_table_and_an_empty_page_are_valid():
    assert "<tbody>" in render(page_of(Table(caption="T", frame=pd.DataFrame({"a": []}))))
    assert "How this was made" not in render(Page(title="T", verdict="V"))


@pytest.mark.parametrize("options", [{"formats": {"b": "d"}}, {"sorted_by": "-b"}])
def test_a_column_that_the_table_lacks_is_refused(options):
    with pytest.raises(ValueError, match=r"Expected a column among \['a'\], but got 'b'"):
        Table(caption="T", frame=pd.DataFrame({"a": [1, 2]}), **options)


def test_the_same_page_gives_the_same_file(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    page = page_of(Table(caption="T", frame=pd.DataFrame({"a": ["é \ud800"]}, dtype=object)))
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
        write_report(page_of(Table(caption="T", frame=pd.DataFrame({"a": [1.5]}), formats={"a": "d"})), path)
    assert path.read_text() == "old"

"""Build a self-contained HTML page: the verdict, sections with figures and tables, and the command that made them."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup, escape
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from lupi._internal.files import explain_os_errors, replace_folder, to_csv, write_text
from lupi._internal.sanitizing import sanitize

MAX_ROWS = 5000
"""Maximum number of rows of a table, which a browser can sort without delay."""
MAX_CELL = 200
"""Maximum number of characters of a cell."""


@dataclass(frozen=True)
class Figure:
    """A figure with its caption."""

    svg: str
    caption: str
    small: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """A table that readers can sort.

    Numbers are right-aligned and sort as numbers. A missing value is shown as a dash and sorts last.

    Parameters
    ----------
    caption : str
        What the table shows.
    frame : DataFrame
        The values, with column names as headings. The index is not shown.
    formats : mapping, optional
        Format of the numbers of a column, such as ".3f", "+.1f" or ",d". The default is three decimals.
    texts : mapping, optional
        Texts to show instead of the values of a column, which is still sorted by its values.
    intervals : mapping, optional
        Format of columns that are shown with their intervals. The ends of an interval are the columns `NAME_low` and
        `NAME_high`, or `low` and `high`, which are not shown themselves.
    hints : mapping, optional
        A few words below the heading of a column, such as a unit or "lower is better".
    marked : sequence of bool, optional
        Rows to highlight.
    sorted_by : str, optional
        Column by which the rows are already sorted: "name" if ascending, "-name" if descending.
    images : mapping, optional
        Small images for the first cells of a column, as data URLs, or None for a cell without an image. The cell
        keeps its text, which is also the alternative text of the image.
    minor : sequence of str
        Columns that a phone leaves out.
    below : sequence of str
        Columns that a phone shows below the others, over its whole width, such as texts.

    Examples
    --------
    >>> frame = pd.DataFrame({"annotator": ["Ann"], "agreement": [0.98765]})
    >>> table = Table(caption="Annotators.", frame=frame, formats={"agreement": ".2f"})
    >>> [column.texts for column in table.columns()]
    [['Ann'], ['0.99']]
    """

    caption: str
    frame: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    intervals: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)
    marked: Sequence[bool] | None = None
    sorted_by: str | None = None
    images: Mapping[str, Sequence[str | None]] = field(default_factory=dict)
    minor: Sequence[str] = ()
    below: Sequence[str] = ()

    def __post_init__(self) -> None:
        named = [*self.formats, *self.texts, *self.intervals, *self.hints, *self.images, *self.minor, *self.below]
        named.append((self.sorted_by or "").removeprefix("-"))
        for name in named:
            if name and name not in self.frame.columns:
                raise ValueError(f"Expected a column among {list(self.frame.columns)}, but got {name!r}.")

    def columns(self) -> Iterator[Column]:
        """Yield the columns in the form that the page shows, with the first `MAX_ROWS` rows."""
        ends = {name: self._find_ends(name) for name in self.intervals}
        hidden = {end for pair in ends.values() for end in pair}
        for name in self.frame.columns:
            if name in hidden:
                continue
            number = is_numeric_dtype(self.frame[name]) and not is_bool_dtype(self.frame[name])
            values = self.frame[name].head(MAX_ROWS).tolist()
            orders = {f"-{name}": "descending", name: "ascending"}
            texts: Sequence[str]
            if name in ends:
                low, high = (self.frame[end] for end in ends[name])
                texts = format_intervals(self.frame[name], low, high, self.intervals[name])
            else:
                texts = self.texts.get(name) or [_format(value, number, self.formats.get(name)) for value in values]
            yield Column(
                name=name,
                hint=self.hints.get(name, "[interval]" if name in ends else ""),
                order=orders.get(self.sorted_by or "", "none"),
                number=number,
                texts=[text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…" for text in texts[:MAX_ROWS]],
                keys=[repr(value).replace("inf", "Infinity") for value in values if number],  # as JavaScript reads
                images=self.images.get(name, ()),
                place=" minor" * (name in self.minor) + " below" * (name in self.below),
            )

    def _find_ends(self, name: str) -> tuple[str, str]:
        """Return the columns of the ends of a column's interval."""
        return (f"{name}_low", f"{name}_high") if f"{name}_low" in self.frame else ("low", "high")

    @property
    def note(self) -> str:
        """A note on the number of rows, if the table is too long to be shown in full."""
        count = len(self.frame)
        if count > MAX_ROWS:
            return f"The first {MAX_ROWS:,} of {count:,} rows."
        return f"{count:,} rows." if count > 20 else ""


class Column(NamedTuple):
    """A column of a page.

    It has a heading, a hint below it, the sort order, texts, sort keys and images of cells, and its place on a phone.
    """

    name: str
    hint: str
    order: str
    number: bool
    texts: list[str]
    keys: list[str]
    images: Sequence[str | None]
    place: str


@dataclass(frozen=True)
class Detail:
    """A table that is hidden until readers open it."""

    summary: str
    table: Table


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a page: text, figures, tables, details and notes, in this order.

    Parameters
    ----------
    heading : str
        Heading of the section.
    text : str
        Paragraphs, one per line.
    figures : sequence of Figure
        Figures, side by side where the page is wide enough.
    tables : sequence of Table
        Tables.
    details : sequence of Detail
        Tables that readers open one by one.
    notes : sequence of str
        Items of a list.
    """

    heading: str
    text: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    details: Sequence[Detail] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """A report."""

    title: str
    verdict: str
    sections: Sequence[Section] = ()


def format_number(value: float, style: str) -> str:
    """Format a number with a true minus sign, or a missing value as a dash."""
    return "–" if math.isnan(value) else format(value, style).replace("-", "−")


def format_intervals(middle: Iterable[float], low: Iterable[float], high: Iterable[float], style: str) -> list[str]:
    """Format estimates with their intervals."""
    return [
        f"{format_number(m, style)} [{format_number(lo, style)}, {format_number(hi, style)}]"
        for m, lo, hi in zip(middle, low, high, strict=True)
    ]


def mark_code(text: str) -> Markup:
    """Return a text as HTML, with text between backticks as code."""
    parts = re.split(r"`([^`]+)`", sanitize(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def render(page: Page, *, command: str = "", versions: Mapping[str, str] | None = None) -> str:
    """Return a page as HTML, with every text escaped; the parameters are those of `write_report`."""
    template, style, script = read_assets()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    facts = {"command": command, "versions": versions or {}}
    return template.render(page=page, style=Markup(style), script=Markup(script), digest=digest, **facts)


def write_report(page: Page, path: str | Path, *, command: str = "", versions: Mapping[str, str] | None = None) -> Path:
    """Write a page to an HTML file, atomically."""
    path = Path(path)
    write_text(path, render(page, command=command, versions=versions))
    return path


def write_results(
    folder: Path,
    page: Page,
    tables: Mapping[str, pd.DataFrame],
    results: Mapping[str, Any],
    facts: Mapping[str, Any],
    drop: Collection[str] = (),
) -> list[Path]:
    """Write results.json, tables in CSV by the names of their files, and report.html in one step; return their paths.

    `facts` come first in results.json, and the page shows `command` and `versions` among them. Other files in the
    folder are kept, except for those to `drop`.
    """
    names = ["results.json", *tables, "report.html"]
    shown = {name: facts[name] for name in ("command", "versions") if name in facts}
    with explain_os_errors(folder), replace_folder(folder, drop={*names, *drop}) as partial:
        write_text(partial / "results.json", json.dumps({**facts, **results}, indent=2) + "\n")
        for name, table in tables.items():
            write_text(partial / name, to_csv(table))
        write_report(page, partial / "report.html", **shown)
    return [folder / name for name in names]


@cache
def read_assets() -> tuple[Template, str, str]:
    """Read the template, the style sheet and the script."""
    here = files("lupi.report")
    template, style, script = (
        here.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "tables.js")
    )
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: sanitize(value) if type(value) is str else value,
    )
    environment.filters["code"] = mark_code
    environment.filters["paragraphs"] = lambda text: [line for line in text.splitlines() if line.strip()]
    return environment.from_string(template), style, script


def _format(value: Any, number: bool, style: str | None) -> str:
    """Format the value of a cell."""
    if pd.isna(value):
        return "–"
    if number:
        return format_number(value, style or ("z.3f" if isinstance(value, float) else "d"))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def format_fragment(verdict: str, tables: Mapping[str, pd.DataFrame], notes: Sequence[str] = ()) -> str:
    """Return a result for a notebook: HTML without styles, as it becomes part of another page. Text is escaped."""
    parts = [f"<p>{escape(line)}</p>" for line in verdict.splitlines() if line.strip()]
    for caption, table in tables.items():
        text = table.to_html(border=0, index=False, na_rep="–", float_format="{:.4g}".format)
        parts.append(f"<p><b>{escape(caption)}</b></p>\n{text}")
    if notes:
        listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
        parts.append(f"<details><summary>Notes</summary><ul>{listed}</ul></details>")
    return "\n".join(parts)

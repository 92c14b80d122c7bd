"""Build one self-contained HTML page: the verdict, sections with figures and tables, and how they were made."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from lupi._internal.files import write_text
from lupi.report.sanitizing import sanitize

ROWS = 5000
"""Maximum number of rows of a table, which a browser still sorts without delay."""
CELL = 200
"""Maximum number of characters of a cell."""


@dataclass(frozen=True)
class Figure:
    """A figure with its caption.

    Parameters
    ----------
    svg : str
        An SVG element. It is inserted into the page without escaping, so it must never be a user's text.
    caption : str
        What the figure shows.
    small : bool
        Whether the figure is one of several small ones side by side.
    """

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
        Texts to show instead of the values of a column, which still sorts by its values.
    hints : mapping, optional
        A few words below the heading of a column, such as a unit or "lower is better".
    marked : sequence of bool, optional
        Rows to highlight.
    sorted_by : str, optional
        Column by which the rows are already sorted: "name" if ascending, "-name" if descending.

    Examples
    --------
    >>> frame = pd.DataFrame({"annotator": ["Ann"], "agreement": [0.98765]})
    >>> table = Table(caption="Annotators.", frame=frame, formats={"agreement": ".2f"})
    >>> [[cell.text for cell in row.cells] for row in table.rows()]
    [['Ann', '0.99']]
    """

    caption: str
    frame: pd.DataFrame
    formats: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)
    marked: Sequence[bool] | None = None
    sorted_by: str | None = None

    def __post_init__(self) -> None:
        if not self.frame.columns.is_unique:
            raise ValueError(
                f"Expected `frame` to have columns of different names, but got {list(self.frame.columns)}."
            )
        named = [*self.formats, *self.texts, *self.hints]
        if self.sorted_by:
            named.append(self.sorted_by.removeprefix("-"))
        for name in named:
            if name not in self.frame.columns:
                raise ValueError(f"Expected a column among {list(self.frame.columns)}, but got {name!r}.")
        rows = [*self.texts.values(), *([] if self.marked is None else [self.marked])]
        for length in map(len, rows):
            if length != len(self.frame):
                raise ValueError(f"Expected `texts` and `marked` for {len(self.frame)} rows, but got {length}.")

    def headings(self) -> list[Heading]:
        """Return the headings of the columns."""
        column = (self.sorted_by or "").removeprefix("-")
        order = "ascending" if column == self.sorted_by else "descending"
        return [
            Heading(
                str(name),
                self.hints.get(name, ""),
                _is_number(self.frame[name]),
                order if str(name) == column else "none",
            )
            for name in self.frame.columns
        ]

    def rows(self) -> Iterator[Row]:
        """Yield the first `ROWS` rows."""
        frame = self.frame.head(ROWS)
        columns = [_cells(frame[column], self.formats.get(column), self.texts.get(column)) for column in frame.columns]
        marked = [False] * len(frame) if self.marked is None else self.marked
        for mark, *cells in zip(marked, *columns, strict=False):
            yield Row(bool(mark), cells)

    @property
    def note(self) -> str:
        """The number of rows of a long table."""
        count = len(self.frame)
        if count > ROWS:
            return f"The first {ROWS:,} of {count:,} rows."
        return f"{count:,} rows." if count > 20 else ""


class Heading(NamedTuple):
    """The heading of a column: its text, the hint below it, whether the column holds numbers, and how it is sorted."""

    text: str
    hint: str
    number: bool
    order: str


class Cell(NamedTuple):
    """The text of a cell and the number by which it sorts."""

    text: str
    value: str | None
    number: bool


class Row(NamedTuple):
    """The cells of a row and whether the row is highlighted."""

    marked: bool
    cells: list[Cell]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a page: text, figures, tables and notes, in this order.

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
    notes : sequence of str
        Items of a list.
    """

    heading: str
    text: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """A report.

    Parameters
    ----------
    title : str
        The question that the report answers.
    verdict : str
        The answer in a sentence or two; lines after the first are smaller.
    sections : sequence of Section
        The evidence.
    command : str
        The command line that made the report.
    versions : mapping
        Versions of the packages, by name.
    """

    title: str
    verdict: str
    sections: Sequence[Section] = ()
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def format_number(value: float, style: str) -> str:
    """Format a number with a true minus sign, or a missing one as a dash.

    Examples
    --------
    >>> format_number(-0.25, "+.1f"), format_number(float("nan"), ".1f")
    ('−0.2', '–')
    """
    return "–" if _is_missing(value) else format(value, style).replace("-", "−")


def format_intervals(middle: Iterable[float], low: Iterable[float], high: Iterable[float], style: str) -> list[str]:
    """Format estimates with their intervals.

    Examples
    --------
    >>> format_intervals([0.2], [-0.1], [0.5], "+.1f")
    ['+0.2 [−0.1, +0.5]']
    """
    return [
        f"{format_number(m, style)} [{format_number(lo, style)}, {format_number(hi, style)}]"
        for m, lo, hi in zip(middle, low, high, strict=True)
    ]


def render(page: Page) -> str:
    """Return a page as HTML, with every text escaped.

    Examples
    --------
    >>> "&lt;b&gt;" in render(Page(title="Report of <b>", verdict="It helps."))
    True
    """
    template, style, script = read_assets()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(page=page, style=Markup(style), script=Markup(script), digest=digest)


def write_report(page: Page, path: str | Path) -> Path:
    """Write a page to an HTML file, atomically.

    Parameters
    ----------
    page : Page
        The report.
    path : str or Path
        The file, such as run/report.html, in an existing folder.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> page = Page(title="Report", verdict="It helps.")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(page, Path(folder) / "report.html").name
    'report.html'
    """
    path = Path(path)
    write_text(path, render(page))
    return path


@cache
def read_assets() -> tuple[Template, str, str]:
    """Read the template, the style sheet and the script."""
    here = files("lupi.report")
    template, style, script = (here.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "sort.js"))
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: sanitize(value) if type(value) is str else value,
    )
    environment.filters["paragraphs"] = lambda text: [line for line in text.splitlines() if line.strip()]
    return environment.from_string(template), style, script


def _is_number(column: pd.Series[Any]) -> bool:
    return is_numeric_dtype(column) and not is_bool_dtype(column)


def _is_missing(value: object) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and math.isnan(value))


def _cells(column: pd.Series[Any], style: str | None, texts: Sequence[str] | None) -> list[Cell]:
    number = _is_number(column)
    cells = []
    for place, value in enumerate(column.tolist()):
        missing = _is_missing(value)
        if texts is not None:
            text = str(texts[place])
        elif missing:
            text = "–"
        elif number:
            default = "z.3f" if isinstance(value, float) else "d"
            text = format_number(value, style or default)
        elif isinstance(value, bool):
            text = "yes" if value else "no"
        else:
            text = str(value)
        if len(text) > CELL:
            text = text[: CELL - 1] + "…"
        # The value is left out where it equals the text, which keeps long tables small.
        key = "NaN" if missing else repr(value).replace("inf", "Infinity")
        cells.append(Cell(text, key if number and key != text else None, number))
    return cells

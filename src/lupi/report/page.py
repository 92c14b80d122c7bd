"""One self-contained HTML page: the verdict, sections with tables and figures, and how they were made."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
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
from lupi.report.characters import fit

ROWS = 5000
"""A table shows at most this many rows: a browser sorts them at once."""
LENGTH = 200
"""A cell shows at most this many characters."""


@dataclass(frozen=True)
class Figure:
    """A picture.

    Parameters
    ----------
    svg : str
        An SVG element, from `lupi.report.figures`. It goes into the page as it is: never a user's text.
    caption : str
        What it shows.
    small : bool
        One of several that stand side by side.
    """

    svg: str
    caption: str
    small: bool = False


@dataclass(frozen=True, eq=False)
class Table:
    """A table. Columns of numbers are aligned and sort as numbers; a missing value is a dash and sorts last.

    Parameters
    ----------
    caption : str
        What it shows.
    frame : DataFrame
        The values; the names of its columns are the headings. Its index is not shown.
    formats : mapping, optional
        For a column of numbers, how to write them: ".3f", "+.1f", ",d". By default 3 decimals.
    texts : mapping, optional
        For a column, the texts to show in place of its values, which it still sorts by.
    hints : mapping, optional
        For a column, a word under its heading: a unit, or "lower is better".
    marked : sequence of bool, optional
        Rows to point out.
    sorted_by : str, optional
        The column that the rows come sorted by, smallest first, or, with "-" before its name, largest first.

    Examples
    --------
    >>> table = Table("Annotators", pd.DataFrame({"annotator": ["Ann"], "agreement": [0.98765]}), {"agreement": ".2f"})
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
            raise ValueError(f"Expected columns of a table to be unique, but got {list(self.frame.columns)}.")
        named = [
            *self.formats,
            *self.texts,
            *self.hints,
            *([self.sorted_by.removeprefix("-")] if self.sorted_by else []),
        ]
        for name in named:
            if name not in self.frame.columns:
                raise ValueError(f"Expected a column among {list(self.frame.columns)}, but got {name!r}.")
        for length in map(len, [*self.texts.values(), *([] if self.marked is None else [self.marked])]):
            if length != len(self.frame):
                raise ValueError(f"Expected texts and marks of {len(self.frame)} rows, but got {length}.")

    def headings(self) -> list[Heading]:
        """List what stands above the columns."""
        name, down = (self.sorted_by or "").removeprefix("-"), (self.sorted_by or "").startswith("-")
        return [
            Heading(
                str(column),
                self.hints.get(column, ""),
                _is_number(self.frame[column]),
                ("descending" if down else "ascending") if str(column) == name else "none",
            )
            for column in self.frame.columns
        ]

    def rows(self) -> Iterator[Row]:
        """Write the cells, the first `ROWS` of them."""
        frame = self.frame.head(ROWS)
        columns = [_cells(frame[column], self.formats.get(column), self.texts.get(column)) for column in frame.columns]
        marked = [False] * len(frame) if self.marked is None else self.marked
        for mark, *cells in zip(marked, *columns, strict=False):
            yield Row(bool(mark), cells)

    @property
    def note(self) -> str:
        """Say how many rows there are, where that is not plain to see."""
        count = len(self.frame)
        if count > ROWS:
            return f"The first {ROWS:,} of {count:,} rows."
        return f"{count:,} rows." if count > 20 else ""


class Heading(NamedTuple):
    """What stands above a column."""

    text: str
    hint: str
    number: bool
    order: str


class Cell(NamedTuple):
    """What a cell shows, and the number that it sorts by."""

    text: str
    value: str | None
    number: bool


class Row(NamedTuple):
    """A row of cells."""

    marked: bool
    cells: list[Cell]


@dataclass(frozen=True)
class Section:
    """A part of a page.

    Parameters
    ----------
    heading : str
        Its name.
    text : str
        Paragraphs, one per line.
    tables : sequence of Table
        Below the figures.
    figures : sequence of Figure
        Below the text.
    notes : sequence of str
        A list, at the end.
    """

    heading: str
    text: str = ""
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """A report.

    Parameters
    ----------
    title : str
        What the report is of.
    verdict : str
        The answer in a sentence or two; lines after the first are smaller.
    sections : sequence of Section
        What it rests on.
    command : str
        The command line that made it.
    versions : mapping
        Versions by name.
    """

    title: str
    verdict: str
    sections: Sequence[Section] = ()
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def written(value: float, style: str) -> str:
    """Write a number with a true minus sign; a missing one is a dash.

    Examples
    --------
    >>> written(-0.25, "+.1f"), written(float("nan"), ".1f")
    ('−0.2', '–')
    """
    return "–" if _is_missing(value) else format(value, style).replace("-", "−")


def render(page: Page) -> str:
    """Write a page as HTML; all of its texts are escaped.

    Examples
    --------
    >>> "&lt;b&gt;" in render(Page("Report of <b>", "It helps."))
    True
    """
    template, style, script = _parts()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(page=page, style=Markup(style), script=Markup(script), digest=digest)


def write_report(page: Page, path: str | Path) -> Path:
    """Write a page under another name and move it into place.

    Parameters
    ----------
    page : Page
        The report.
    path : path
        Such as run/report.html; its folder is there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Page("Report", "It helps."), Path(folder) / "report.html").name
    'report.html'
    """
    path = Path(path)
    write_text(path, render(page))
    return path


@cache
def _parts() -> tuple[Template, str, str]:
    """The template, the style sheet and the script, which are files beside this one."""
    here = files("lupi.report")
    template, style, script = (here.joinpath(name).read_text("utf-8") for name in ("page.html", "page.css", "sort.js"))
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: fit(value) if type(value) is str else value,
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
            text = written(value, style or default)
        elif isinstance(value, bool):
            text = "yes" if value else "no"
        else:
            text = str(value)
        if len(text) > LENGTH:
            text = text[: LENGTH - 1] + "…"
        # The value is written only where the text is not it, which keeps long tables small.
        key = "NaN" if missing else repr(value).replace("inf", "Infinity")
        cells.append(Cell(text, key if number and key != text else None, number))
    return cells

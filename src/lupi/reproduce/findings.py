"""The results of an experiment, and how they are written."""

from __future__ import annotations

import ast
import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from lupi._internal.files import to_records, write_atomic, write_text
from lupi.report.style import COLOURS, STYLE

__all__ = [
    "COLOURS",
    "Findings",
    "change_settings",
    "draw_strips",
    "make_figure",
    "markdown_table",
    "render_report",
    "write_findings",
]


@dataclass(frozen=True)
class Findings:
    """Results of an experiment.

    Parameters
    ----------
    table : DataFrame
        Tidy, one row per measurement: `results.csv`.
    text : str
        The report in Markdown. Figures are included as `![description](name.svg)`.
    figures : mapping
        Figures by name.
    """

    table: pd.DataFrame
    text: str
    figures: Mapping[str, Figure]


def make_figure(draw: Callable[[Sequence[Any]], None], columns: int = 1, **options: Any) -> Figure:
    """Make a figure in the style of the reports; `draw` takes the axes, `columns` of them side by side.

    Examples
    --------
    >>> figure = make_figure(lambda axes: axes[0].plot([0, 1], [1, 0]))
    >>> len(figure.axes)
    1
    """
    with mpl.rc_context(STYLE):
        figure = Figure(**options)
        draw(figure.subplots(1, columns, squeeze=False)[0])
        figure.draw_without_rendering()
    return figure


def draw_strips(axis: Any, rows: Sequence[tuple[str, Any, str]], label: str) -> None:
    """Draw one row of points per name: the values of its seeds in a colour, and a line at their mean."""
    for place, (_, values, colour) in enumerate(rows):
        spread = place + np.linspace(-0.15, 0.15, len(values))
        axis.plot(values, spread, "o", ms=4, color=colour, alpha=0.5)
        axis.plot(np.mean(values), place, "|", ms=14, mew=2.5, color=colour)
    axis.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axis.invert_yaxis()
    axis.set_xlabel(f"{label} (seeds and their mean)")


def save_figure(figure: Figure, file: IO[bytes]) -> None:
    """Write a figure as SVG without its date, so that the same figure gives the same file."""
    with mpl.rc_context(STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None})


def markdown_table(table: pd.DataFrame) -> str:
    """Format a table as Markdown.

    Examples
    --------
    >>> print(markdown_table(pd.DataFrame({"ε": ["0.1"], "MSE": [".001"]})))
    | ε | MSE |
    |---|---|
    | 0.1 | .001 |
    """
    rows = [list(table.columns), *table.to_numpy().tolist()]
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * table.shape[1], *lines[1:]])


def render_report(name: str, **values: Any) -> str:
    """Fill in the template ``reports/NAME.md``, in which `f` formats a number and `table` a list of rows."""
    templates = Environment(
        loader=PackageLoader("lupi.reproduce", "reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown, not HTML
    )
    templates.filters |= {"f": format, "table": lambda rows: markdown_table(pd.DataFrame(rows))}
    return templates.get_template(f"{name}.md").render(values).strip()


def change_settings(settings: Any, changes: Sequence[str]) -> Any:
    """Change fields of a dataclass, given as texts "name=value".

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     seeds: int = 20
    ...     noise: tuple[float, ...] = (0.1, 0.5)
    >>> change_settings(Settings(), ["seeds=2", "noise=0.1,"])
    Settings(seeds=2, noise=(0.1,))
    >>> change_settings(Settings(), ["seed=2"])
    Traceback (most recent call last):
    ...
    ValueError: Expected a setting among seeds, noise, but got 'seed'.
    """
    known = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    for text in changes:
        name, _, value = text.partition("=")
        if name not in known:
            raise ValueError(f"Expected a setting among {', '.join(known)}, but got {name!r}.")
        known[name] = parse_value(name, value, known[name])
    return dataclasses.replace(settings, **known)


def parse_value(name: str, text: str, old: Any) -> Any:
    """Parse a value of the type that a setting has."""
    if isinstance(old, str):
        return text
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if isinstance(old, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(old):
        raise ValueError(f"Expected `{name}` to be a value such as {old!r}, but got {text!r}.")
    return value


def write_findings(findings: Findings, settings: Any, facts: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write results.json, results.csv, report.md and the figures, and return the paths.

    Parameters
    ----------
    findings : Findings
        What `run` of an experiment returned.
    settings : dataclass
        The settings of the experiment, for results.json.
    facts : mapping
        More for results.json and report.md: command and versions.
    folder : Path
        An existing folder.
    """
    numbers = {**facts, "settings": dataclasses.asdict(settings), "results": to_records(findings.table)}
    command = f"Made by `{facts['command']}` (lupi {facts['versions']['lupi']})."
    texts = {
        "results.json": json.dumps(numbers, indent=2) + "\n",
        "results.csv": findings.table.to_csv(index=False),
        "report.md": f"{findings.text}\n\n{command}\n",
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    for name, figure in findings.figures.items():
        write_atomic(folder / f"{name}.svg", partial(save_figure, figure))
    return [folder / name for name in (*texts, *(f"{name}.svg" for name in findings.figures))]

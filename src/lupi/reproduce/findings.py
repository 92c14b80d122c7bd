"""What an experiment leaves behind."""

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
import pandas as pd
from matplotlib.figure import Figure

from lupi._internal.files import write_atomic, write_text
from lupi.report.style import COLOURS, STYLE

__all__ = ["COLOURS", "Findings", "change", "figure", "markdown_table", "save_figure", "write_findings"]


@dataclass(frozen=True)
class Findings:
    """Results of an experiment.

    Parameters
    ----------
    table : DataFrame
        Tidy, one row per measurement: `results.csv`.
    text : str
        The report in Markdown: what was done, the tables beside the published numbers, what it shows. A figure stands
        in it as `![what it shows](name.svg)`.
    figures : mapping
        Figures by name.
    """

    table: pd.DataFrame
    text: str
    figures: Mapping[str, Figure]


def figure(draw: Callable[[Sequence[Any]], None], columns: int = 1, **options: Any) -> Figure:
    """Make a figure in the house style: `draw` gets its axes, `columns` of them beside each other.

    Examples
    --------
    >>> made = figure(lambda axes: axes[0].plot([0, 1], [1, 0]))
    >>> len(made.axes)
    1
    """
    with mpl.rc_context(STYLE):
        made = Figure(**options)
        draw(made.subplots(1, columns, squeeze=False)[0])
        made.draw_without_rendering()
    return made


def markdown_table(table: pd.DataFrame) -> str:
    """Write a table, whose cells are text, as Markdown.

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


def change(settings: Any, changes: Sequence[str]) -> Any:
    """Change settings, a dataclass, by texts of the form "name=value".

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     seeds: int = 20
    ...     noise: tuple[float, ...] = (0.1, 0.5)
    >>> change(Settings(), ["seeds=2", "noise=0.1,"])
    Settings(seeds=2, noise=(0.1,))
    >>> change(Settings(), ["seed=2"])
    Traceback (most recent call last):
    ...
    ValueError: Expected a setting among seeds, noise, but got 'seed'.
    """
    known = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    for text in changes:
        name, _, value = text.partition("=")
        if name not in known:
            raise ValueError(f"Expected a setting among {', '.join(known)}, but got {name!r}.")
        known[name] = parsed(name, value, known[name])
    return dataclasses.replace(settings, **known)


def parsed(name: str, text: str, old: Any) -> Any:
    """Read a value of the kind that a setting has."""
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
    """Write results.json, results.csv, report.md and the figures, each moved into place when it is whole."""
    rows = json.loads(findings.table.to_json(orient="records"))
    numbers = {**facts, "settings": dataclasses.asdict(settings), "results": rows}
    command = f"Made by `{facts['command']}` (lupi {facts['versions']['lupi']})."
    texts = {
        "results.json": json.dumps(numbers, indent=2) + "\n",
        "results.csv": findings.table.to_csv(index=False),
        "report.md": f"{findings.text}\n\n{command}\n",
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    for name, made in findings.figures.items():
        write_atomic(folder / f"{name}.svg", partial(save_figure, made))
    return [folder / name for name in (*texts, *(f"{name}.svg" for name in findings.figures))]


def save_figure(made: Figure, file: IO[bytes]) -> None:
    """Write a figure as SVG without its date, so that the same figure is the same file."""
    with mpl.rc_context(STYLE):
        made.savefig(file, format="svg", metadata={"Date": None})

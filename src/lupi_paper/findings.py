"""The results of an experiment, and functions that write them."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

from lupi.report import COLOURS as COLOURS
from lupi.report import STYLE


@dataclass(frozen=True)
class Findings:
    """Results of an experiment."""

    table: pd.DataFrame
    text: str
    figures: Mapping[str, Figure]


def make_figure(draw: Callable[[Sequence[Any]], None], columns: int = 1, **options: Any) -> Figure:
    """Make a figure in the style of the reports; `draw` takes the axes, `columns` of them side by side."""
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


def to_svg(figure: Figure) -> bytes:
    """Return a figure as SVG without its date, so that the same figure gives the same file."""
    file = BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def format_mean(values: Any, digits: int = 4) -> str:
    """Format mean ± standard deviation over seeds, or the value of a single one."""
    array = np.asarray(values, dtype=np.float64)
    spread = f" ± {array.std(ddof=1):.{digits}f}" if len(array) > 1 else ""
    return f"{array.mean():.{digits}f}{spread}"


def markdown_table(rows: Any) -> str:
    """Format rows, or a data frame, as a table in Markdown; nothing if there are none."""
    table = pd.DataFrame(rows)
    if table.empty:
        return ""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (table.columns, *table.to_numpy())]
    return "\n".join([lines[0], "|" + "---|" * table.shape[1], *lines[1:]])


def render_report(name: str, **values: Any) -> str:
    """Fill in the template ``reports/NAME.md``; its filters are `f` (`format`), `mean` and `table`."""
    templates = Environment(
        loader=PackageLoader("lupi_paper", "reports"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,  # Markdown, not HTML
    )
    templates.filters |= {"f": format, "mean": format_mean, "table": markdown_table}
    return templates.get_template(f"{name}.md").render(values).strip()


def make_files(findings: Findings, settings: Any, facts: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the contents of results.json, results.csv, report.md and the figures, by name."""
    figures = {f"{name}.svg": to_svg(figure) for name, figure in findings.figures.items()}
    numbers = {
        **facts,
        "settings": dataclasses.asdict(settings),
        "figures": list(figures),
        "results": json.loads(findings.table.to_json(orient="records", double_precision=15)),
    }
    command = f"Made by `{facts['command']}` (lupi {facts['versions']['lupi']})."
    texts = {
        "results.json": json.dumps(numbers, indent=2) + "\n",
        "results.csv": findings.table.to_csv(index=False),
        "report.md": f"{findings.text}\n\n{command}\n",
    }
    return {name: text.encode("utf-8", "replace") for name, text in texts.items()} | figures

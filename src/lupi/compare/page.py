"""The report of a comparison."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lupi.compare.results import Comparison
from lupi.compare.statistics import BASELINE
from lupi.metrics import METRICS
from lupi.report.figures import draw_calibration, draw_differences
from lupi.report.page import Figure, Page, Section, Table, format_intervals, format_number


def comparison_page(found: Comparison, *, command: str = "", versions: Mapping[str, str] | None = None) -> Page:
    """Make the page of a comparison.

    Parameters
    ----------
    found : Comparison
        The results. In figures a control "METHOD [CONTROL]" is shown in the row of its method.
    command, versions
        How it was made.

    Examples
    --------
    >>> from lupi.compare import summarize
    >>> runs = pd.DataFrame({"method": ["no-pi", "tram"] * 2, "control": False, "seed": [0, 0, 1, 1],
    ...                      "nll": [1.0, 0.5, 1.2, 0.7], "seconds": 1.0})
    >>> found = Comparison(runs=runs, summary=summarize(runs, ["nll"]), verdict="TRAM helps.", metrics=("nll",))
    >>> [section.heading for section in comparison_page(found).sections]
    ['Difference to No PI', 'Every run']
    """
    control = pd.Series(found.summary.index.isin(_controls(found)), found.summary.index)
    seeds = found.runs["seed"].nunique()
    text = (
        f"Every method was trained with {seeds} seed{'s' if seeds != 1 else ''}, each time on the same data as No PI. "
        "The difference to No PI is paired by seed and has a 95% interval."
    )
    if control.any():
        text += (
            "\nA control cannot gain from the content of the privileged information: it is a method with shuffled or "
            "replaced values, or No PI with early stopping. What a method gains beyond its controls comes from the "
            "information."
        )
    scores = _scores_table(found, control)
    figures = [] if len(found.summary) < 2 else [_difference_figure(found, metric, control) for metric in found.metrics]
    sections = [
        Section(heading="Difference to No PI", text=text, tables=[scores], figures=figures, notes=tuple(found.notes))
    ]
    bins = found.reliability[~found.reliability["method"].isin(control.index[control])]
    if len(bins):
        sections.append(
            Section(
                heading="Calibration",
                text="A calibrated model is right 80% of the time when it is 80% confident: its points lie on the "
                "dashed line. Below the line, the model is overconfident. Larger points hold more predictions. The "
                "grey line is No PI. ECE, the expected calibration error, is the mean distance to the dashed line.",
                figures=draw_calibration(bins),
            )
        )
    sections.append(Section(heading="Every run", tables=[_runs_table(found.runs)]))
    return Page(
        title="Does privileged information help?",
        verdict=found.verdict,
        sections=sections,
        command=command,
        versions=versions or {},
    )


def _controls(found: Comparison) -> set[str]:
    """Return the names of the controls."""
    return set(found.runs.loc[found.runs["control"].astype(bool), "method"])


def _difference_figure(found: Comparison, name: str, control: pd.Series[bool]) -> Figure:
    """Draw the differences of all methods to No PI in one metric; controls belong to the row of their method."""
    others = found.summary.index != BASELINE
    methods = set(control.index[~control]) - {BASELINE}
    owners = [str(method).partition(" [")[0] if control[method] else "" for method in found.summary.index[others]]
    columns = {
        part: found.summary.loc[others, f"{name}_{part}"].to_numpy(float) for part in ("difference", "low", "high")
    }
    table = pd.DataFrame(
        {
            "method": found.summary.index[others],
            **columns,
            "control": control[others].to_numpy(bool),
            "of": [owner if owner in methods else "" for owner in owners],
        }
    )
    return draw_differences(table, METRICS[name])


def _scores_table(found: Comparison, control: pd.Series[bool]) -> Table:
    """Make the table of means and differences."""
    summary = found.summary
    values: dict[str, object] = {"method": summary.index.astype(str)}
    texts, hints = {}, {"time": "s per seed"}
    for name in found.metrics:
        metric = METRICS[name]
        mean, spread, gap, low, high = (
            metric.scale * summary[f"{name}{part}"].to_numpy(float)
            for part in ("", "_sd", "_difference", "_low", "_high")
        )
        style, sign = f"z.{metric.digits}f", f"+z.{metric.digits}f"
        values[metric.heading] = mean
        texts[metric.heading] = [
            f"{format_number(m, style)} ± {format_number(s, style)}" for m, s in zip(mean, spread, strict=True)
        ]
        hints[metric.heading] = f"{'higher' if metric.higher_is_better else 'lower'} is better"
        change = f"{metric.label} difference"
        values[change] = pd.Series(gap).where(summary.index != BASELINE)
        intervals = format_intervals(gap, low, high, sign)
        texts[change] = ["–" if one == BASELINE else text for one, text in zip(summary.index, intervals, strict=True)]
    values["time"] = summary["seconds"].to_numpy(float)
    if control.any():
        values["kind"] = ["control" if one else "" for one in control]
    caption = "Mean ± standard deviation over seeds, and difference to No PI [interval]."
    return Table(caption=caption, frame=pd.DataFrame(values), formats={"time": ".1f"}, texts=texts, hints=hints)


def _runs_table(runs: pd.DataFrame) -> Table:
    """Make the table of all runs."""
    scaled = runs.copy()
    names, formats = {}, {"seed": "d", "seconds": ".1f"}
    for column in runs.columns.intersection(list(METRICS)):
        metric = METRICS[column]
        scaled[column] *= metric.scale
        names[column], formats[metric.heading] = metric.heading, f".{metric.digits + 1}f"
    caption = "Scores of every method with every seed."
    return Table(caption=caption, frame=scaled.rename(columns=names), formats=formats)

"""The report of a comparison, and the files of its results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lupi._internal.files import to_records
from lupi.compare.cache import RESULTS
from lupi.compare.results import Comparison
from lupi.metrics import METRICS
from lupi.report.figures import CALIBRATION, draw_calibration, draw_differences
from lupi.report.page import Figure, Page, Section, Table, format_intervals, format_number, write_results


def write_comparison(comparison: Comparison, folder: Path, facts: Mapping[str, Any]) -> list[Path]:
    """Write results.json, results.csv (one row per run), summary.csv and report.html, and return their paths."""
    summary = comparison.summary.reset_index()
    results = {
        "about": comparison.about,
        "seeds": sorted({int(seed) for seed in comparison.runs["seed"]}),
        "metrics": list(comparison.metrics),
        "verdict": comparison.verdict.split("\n"),
        "notes": comparison.notes,
        "summary": to_records(summary),
        "reliability": to_records(comparison.reliability),
        "runs": to_records(comparison.runs),
    }
    tables = {"results.csv": comparison.runs, "summary.csv": summary}
    return write_results(folder, comparison_page(comparison), tables, results, facts, RESULTS)


def comparison_page(comparison: Comparison) -> Page:
    """Make the page of a comparison."""
    control = comparison.runs.groupby("method", sort=False)["control"].any()
    text = (
        f"Every method was trained with {comparison.runs['seed'].nunique()} seeds, each time on the same data as "
        "the baselines. The difference from the baseline with the best mean is paired by seed and has a 95% interval."
    )
    if control.any():
        text += (
            "\nA control is a method with shuffled or replaced privileged information, so it cannot gain from its "
            "content. What a method gains beyond its controls comes from the content."
        )
    metrics = comparison.metrics if len(control) > 1 else ()
    differences = Section(
        heading="Difference from the best baseline",
        text=text,
        tables=[_scores_table(comparison, control)],
        figures=[_difference_figure(comparison, metric, control) for metric in metrics],
        notes=comparison.notes,
    )
    sections = [differences]
    bins = comparison.reliability[~comparison.reliability["method"].isin(control.index[control])]
    if len(bins):
        text = (
            f"{CALIBRATION} The grey line is No PI. ECE is here over the predictions of all runs together, and in the "
            "table above the mean over runs."
        )
        sections.append(Section(heading="Calibration", text=text, figures=draw_calibration(bins)))
    sections.append(Section(heading="Every run", tables=[_runs_table(comparison.runs)]))
    return Page(title="Does privileged information help?", verdict=comparison.verdict, sections=sections)


def _difference_figure(comparison: Comparison, name: str, control: pd.Series[bool]) -> Figure:
    """Draw the differences from the best baseline in one metric, with controls in the row of their method."""
    best = comparison.best(name)
    parts = {f"{name}_{part}": part for part in ("difference", "low", "high")}
    table = comparison.summary[list(parts)].rename(columns=parts).assign(control=control).drop(index=best)
    owner = table.index.str.partition(" [").get_level_values(0)
    table["of"] = np.where(owner.isin(table.index[~table["control"]]) & table["control"], owner, "")
    return draw_differences(table.reset_index(names="method"), METRICS[name], f"the best baseline, {best}")


def _scores_table(comparison: Comparison, control: pd.Series[bool]) -> Table:
    """Make the table of means and differences."""
    summary = comparison.summary
    values: dict[str, object] = {"method": summary.index}
    texts, hints = {}, {"time": "s per seed"}
    for name in comparison.metrics:
        metric, is_best = METRICS[name], summary.index == comparison.best(name)
        mean, spread, gap, low, high = (
            metric.scale * summary[f"{name}{part}"].to_numpy() for part in ("", "_sd", "_difference", "_low", "_high")
        )
        style, change = f"z.{metric.digits}f", f"{metric.label} difference"
        values |= {metric.heading: mean, change: np.where(is_best, np.nan, gap)}
        texts[metric.heading] = [
            f"{format_number(m, style)} ± {format_number(s, style)}" for m, s in zip(mean, spread, strict=True)
        ]
        texts[change] = np.where(is_best, "best baseline", format_intervals(gap, low, high, f"+{style}")).tolist()
        hints[metric.heading] = f"{'higher' if metric.higher_is_better else 'lower'} is better"
    values["time"] = summary["seconds"].to_numpy()
    if control.any():
        values["kind"] = np.where(control, "control", "")
    caption = "Mean ± standard deviation over seeds, and difference from the best baseline [interval]."
    return Table(caption=caption, frame=pd.DataFrame(values), formats={"time": ".1f"}, texts=texts, hints=hints)


def _runs_table(runs: pd.DataFrame) -> Table:
    """Make the table of all runs."""
    formats = {"seconds": ".1f"}
    for name in runs.columns.intersection(list(METRICS)):
        metric = METRICS[name]
        runs = runs.assign(**{name: metric.scale * runs[name]}).rename(columns={name: metric.heading})
        formats[metric.heading] = f".{metric.digits + 1}f"
    return Table(caption="Scores of every method with every seed.", frame=runs, formats=formats)

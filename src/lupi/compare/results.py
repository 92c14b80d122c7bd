"""The results of a comparison, as text and in files."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from lupi.compare.engine import Run, to_frame
from lupi.compare.statistics import BASELINE, RUNS_ONLY, Uncertainty, find_best, summarize
from lupi.compare.verdict import write_verdict
from lupi.metrics import BIN_COLUMNS, METRICS
from lupi.report.page import format_fragment


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The results of a comparison.

    Parameters
    ----------
    runs : DataFrame
        One row per method and seed, with the columns method, control (whether the row is a control), seed, the metrics
        and seconds.
    summary : DataFrame
        One row per method: control and baseline (whether it is one) and, for each metric, mean, standard deviation and
        the difference from the baseline with the best mean, with its 95 % interval.
    verdict : str
        The conclusions, one sentence per line.
    notes : list of str
        Notes on the data and the intervals.
    metrics : tuple of str
        The metrics in runs and summary. The verdict is based on the first one and on accuracy.
    reliability : DataFrame
        Reliability diagrams, with the columns method, low, high, confidence, accuracy and count; empty for regression.
    about : dict
        Options of the comparison and facts about the data.
    """

    runs: pd.DataFrame
    summary: pd.DataFrame
    verdict: str
    metrics: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    reliability: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=BIN_COLUMNS))
    about: dict[str, Any] = field(default_factory=dict)

    def best(self, metric: str) -> str:
        """Return the baseline with the best mean in a metric, from which differences are."""
        table = self.summary.reset_index()
        return find_best(table, table.loc[table["baseline"], "method"].tolist(), metric)

    def _repr_html_(self) -> str:
        """Return the verdict, the scores and the notes, for notebooks."""
        table = format_scores(self, len(self.metrics)).rename_axis("method").reset_index()
        return format_fragment(self.verdict, {"Mean ± standard deviation over seeds": table}, self.notes)


def format_scores(comparison: Comparison, metrics: int) -> pd.DataFrame:
    """Format the first metrics of a summary and the differences from the best baseline, one row per method."""
    columns: dict[str, list[str]] = {}
    for name in comparison.metrics[:metrics]:
        metric, best = METRICS[name], comparison.best(name)
        scores, changes = [], []
        for method, row in comparison.summary.iterrows():
            scores.append(f"{metric.format(row[name])}±{metric.format(row[f'{name}_sd'])}")
            gain, low, high = (metric.format(row[f"{name}_{part}"], "+") for part in ("difference", "low", "high"))
            interval = "too few runs" if math.isnan(row[f"{name}_error"]) else f"{low}, {high}"
            changes.append("best baseline" if method == best else f"{gain} [{interval}]")
        columns |= {metric.heading: scores, f"{metric.label} difference [95 % interval]": changes}
    return pd.DataFrame(columns, index=comparison.summary.index)


def conclude(
    runs: Sequence[Run],
    methods: Sequence[str],
    *,
    baselines: Sequence[str] = (BASELINE,),
    controls: Sequence[str] = (),
    first: str = "nll",
    uncertainty: Uncertainty = RUNS_ONLY,
    **more: Any,
) -> Comparison:
    """Summarize runs, such as those of your own arms from `run_arms`, and draw conclusions."""
    table = to_frame(runs)
    metrics = [name for name in METRICS if name in table]
    table.insert(1, "control", table["method"].isin(controls))
    table = table[["method", "control", "seed", *metrics, "seconds"]]
    scored = table.loc[table["method"] == BASELINE, metrics].notna().all()
    compared = sorted((name for name in metrics if scored[name]), key=lambda name: name != first)
    summary = summarize(table, compared, uncertainty, baselines)
    summary.insert(0, "control", summary.index.isin(controls))
    decisive = [name for name in compared if name in (compared[0], "nll", "accuracy")]
    verdict = write_verdict(table, methods, decisive, baselines=baselines, controls=controls, uncertainty=uncertainty)
    return Comparison(runs=table, summary=summary, verdict=verdict, metrics=tuple(compared), **more)


def format_table(comparison: Comparison, metrics: int = 2) -> str:
    """Format the first metrics of a summary and the differences from the best baseline, as text."""
    width = max(map(len, comparison.summary.index)) + 2
    headings = [METRICS[name].heading for name in comparison.metrics[:metrics]]
    head = [cell for heading in headings for cell in (heading, "difference [95 % interval]")]
    rows = [("", *head), *format_scores(comparison, metrics).itertuples(name=None)]
    widths = [f"<{width}", *([">14", ">32"] * len(headings))]
    return "\n".join("".join(map(format, row, widths)) for row in rows)

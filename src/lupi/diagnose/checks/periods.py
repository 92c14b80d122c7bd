"""The reliability of labels over time, if labels have a time."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_datetime64_any_dtype

from lupi.diagnose.base import Check, Finding
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table

PERIODS = 10
"""Number of periods, with about equally many labels each."""
FEWEST = 20
"""Minimum number of labels per period."""


class Periods(Check):
    """The mean probability that labels are correct in up to ten periods, by the first privileged column of times.

    Its table has one row per period: start, end, labels, and the mean probability right that a label is correct, with
    its interval from low to high.
    """

    name = "periods"

    def run(self, problem: Problem) -> Finding | None:
        """Measure how reliable labels are over time."""
        times = [column for _, column in problem.privileged.items() if is_datetime64_any_dtype(column)]
        if not times or not problem.has_classes:
            return None
        table = measure_periods(times[0], 1 - problem.inference.wrong)
        return None if table is None else Finding(table=table, section=show_periods(table))


def measure_periods(time: "pd.Series[pd.Timestamp]", right: NDArray[np.float64]) -> pd.DataFrame | None:
    """Return the mean probability that labels are correct in each period; None if there are too few labels for two."""
    known = time.notna().to_numpy()
    order = np.argsort(time[known].to_numpy(), kind="stable")
    when, values = time[known].iloc[order], right[known][order]
    count = min(PERIODS, len(values) // FEWEST)
    if count < 2 or when.iloc[0] == when.iloc[-1]:
        return None
    rows = []
    for part in np.array_split(np.arange(len(values)), count):
        mean, error = values[part].mean(), 1.96 * values[part].std(ddof=1) / np.sqrt(len(part))
        rows.append((when.iloc[part[0]], when.iloc[part[-1]], len(part), mean, mean - error, mean + error))
    return pd.DataFrame(rows, columns=["start", "end", "labels", "right", "low", "high"])


def show_periods(table: pd.DataFrame) -> Section:
    """Show how reliable labels are over time."""
    text = (
        "Right is the mean probability that a label of the period is correct, with its 95% interval. If it falls, look "
        "for what changed: new annotators, other instructions, harder examples."
    )
    days = {name: table[name].dt.strftime("%Y-%m-%d %H:%M") for name in ("start", "end")}
    shown_table = Table(
        caption="Periods with about equally many labels each.",
        frame=table.assign(**days),
        formats={"labels": ",d"},
        intervals={"right": "z.2f"},
    )
    return Section(heading="Over time", text=text, tables=[shown_table])

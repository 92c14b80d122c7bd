"""The reliability of labels over time, if labels have a time."""

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype

from lupi._internal.arrays import Floats

PERIODS = 10
"""Number of periods, with about equally many labels each."""
FEWEST = 20
"""Minimum number of labels per period."""


def find_time(privileged: pd.DataFrame) -> str | None:
    """Return the first column of times, if any."""
    return next((str(name) for name in privileged if is_datetime64_any_dtype(privileged[name])), None)


def measure_periods(time: pd.Series, right: Floats) -> pd.DataFrame | None:
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

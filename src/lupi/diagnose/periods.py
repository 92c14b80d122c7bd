"""The reliability of labels over time, if labels have a time."""

import numpy as np
import pandas as pd
from pandas.api.types import is_datetime64_any_dtype

from lupi.diagnose.information import Floats

PERIODS = 10
"""Number of periods, with about equally many labels each."""
FEWEST = 20
"""Minimum number of labels per period."""


def find_time(privileged: pd.DataFrame) -> str | None:
    """Return the first column of times, if any.

    Examples
    --------
    >>> find_time(pd.DataFrame({"seconds": [1.0], "at": pd.to_datetime(["2024-01-31"])}))
    'at'
    """
    return next((str(name) for name in privileged if is_datetime64_any_dtype(privileged[name])), None)


def measure_periods(time: pd.Series, right: Floats) -> pd.DataFrame | None:
    """Return the mean probability that labels are correct in each period; None if there are too few labels for two.

    Parameters
    ----------
    time : Series
        The time at which each label was given; labels without a time are left out.
    right : array
        The probability that each label is correct.

    Returns
    -------
    DataFrame
        start, end: the period; labels: the number of labels; right: the mean probability that they are correct, with
        its 95 % interval from low to high, which treats labels as independent.

    Examples
    --------
    >>> time = pd.Series(pd.date_range("2024-01-01", periods=40, freq="D"))
    >>> measure_periods(time, np.repeat([0.9, 0.6], 20))[["labels", "right"]].round(2)
       labels  right
    0      20    0.9
    1      20    0.6
    """
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

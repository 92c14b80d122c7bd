"""Paired differences between methods, and how sure they are.

Two things vary: the runs (seeds of training or splits of the data), over which differences are paired, and the test
examples, of which there might have been others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from lupi.metrics import clustered_error

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """A mean difference with its standard error, which has so many degrees of freedom."""

    mean: float
    error: float
    degrees: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Confidence interval by Student's t.

        Examples
        --------
        >>> low, high = Difference(1.0, 0.5, 9).interval()
        >>> round(low, 3), round(high, 3)
        (-0.131, 2.131)
        """
        half = self.error * float(stats.t.ppf(0.5 + level / 2, self.degrees))
        return self.mean - half, self.mean + half

    @property
    def p(self) -> float:
        """Probability of a difference as large as this, either way, if there were none."""
        if math.isnan(self.error):
            return math.nan
        if self.error == 0:
            return float(self.mean == 0)
        return float(2 * stats.t.sf(abs(self.mean) / self.error, self.degrees))


@dataclass(frozen=True)
class Uncertainty:
    """What is known of the error of differences, beside how they vary from run to run.

    Parameters
    ----------
    overlap : float
        Test rows per training row, where every run has another split of the same data: the runs' training sets
        overlap, so that their differences vary less than those of new data would. The variance of their mean is
        taken as (1/n + overlap)·s² (Nadeau & Bengio 2003).
    rows : mapping
        By method and metric, the score of each row of a test set that all runs share, averaged over the runs.
    example : ndarray, optional
        The example that each of these rows belongs to.
    """

    overlap: float = 0.0
    rows: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    example: NDArray[np.int64] | None = None

    def of_test(self, method: str, other: str, metric: str) -> tuple[float, int]:
        """Standard error that the choice of test examples gives a difference, 0 if unknown, and their number."""
        if (method, metric) not in self.rows or (other, metric) not in self.rows:
            return 0.0, 0
        return clustered_error(self.rows[method, metric] - self.rows[other, metric], self.example)


ONLY_RUNS = Uncertainty()
"""Nothing adds to how differences vary from run to run."""


def paired(values: Floats, *, overlap: float = 0.0, of_test: tuple[float, int] = (0.0, 0)) -> Difference:
    """Describe differences of runs, with the error that the test examples add.

    The degrees of freedom are Welch's and Satterthwaite's, of the two errors; n − 1 where the second is zero.

    Parameters
    ----------
    values : ndarray
        One difference per run.
    overlap : float
        As in `Uncertainty`.
    of_test : tuple
        Standard error that the test examples give, and their number.

    Examples
    --------
    >>> paired(np.array([1.0, 2.0, 3.0]))
    Difference(mean=2.0, error=0.5773502691896257, degrees=2.0)
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"Expected at least two runs to tell how a difference varies, but got {n}.")
    runs, (error, examples) = float(np.var(values, ddof=1)) * (1 / n + overlap), of_test
    total = runs + error**2
    degrees = n - 1.0
    if error > 0:
        degrees = total**2 / (runs**2 / (n - 1) + error**4 / (examples - 1))
    return Difference(float(np.mean(values)), math.sqrt(total), degrees)


def difference(
    runs: pd.DataFrame, method: str, other: str, metric: str, uncertainty: Uncertainty = ONLY_RUNS
) -> Difference:
    """Difference of two methods, paired by seed.

    Parameters
    ----------
    runs : DataFrame
        One row per method and seed.
    method, other : str
        The difference is that of `method` minus that of `other`.
    metric : str
        A column of runs.
    uncertainty : Uncertainty
        What else adds to the error.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": ["a", "a", "b", "b"], "seed": [0, 1, 0, 1], "nll": [1.0, 2.0, 3.0, 5.0]})
    >>> difference(runs, "b", "a", "nll").mean
    2.5
    """
    own = runs[runs["method"].isin((method, other))]  # others may have more seeds
    table: Any = own.pivot(index="seed", columns="method", values=metric)
    values = (table[method] - table[other]).to_numpy()
    return paired(values, overlap=uncertainty.overlap, of_test=uncertainty.of_test(method, other, metric))

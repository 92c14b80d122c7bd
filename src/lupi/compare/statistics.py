"""Estimate paired differences between methods and their uncertainty.

There are two sources of uncertainty: the runs (training seeds or splits of the data), by which differences are paired,
and the choice of test examples.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from lupi._internal.arrays import Floats
from lupi.metrics import METRICS, clustered_error

ROUNDING = 1e-12
"""Relative differences that come from rounding."""
BASELINE = "no-pi"
"""The method that every comparison has."""


@dataclass(frozen=True)
class Difference:
    """A mean difference with its standard error and degrees of freedom.

    An error of NaN means that there are too few runs to estimate it: all of them have the same difference.
    """

    mean: float
    error: float
    degrees: float

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of Student's t.

        Examples
        --------
        >>> low, high = Difference(1.0, 0.5, 9).interval()
        >>> round(low, 3), round(high, 3)
        (-0.131, 2.131)
        """
        half = self.error * float(stats.t.ppf(0.5 + level / 2, self.degrees))
        return self.mean - half, self.mean + half

    @property
    def p_value(self) -> float:
        """The two-sided p-value for no difference."""
        if self.error == 0:
            return 1.0  # the two are equal in every run
        return float(2 * stats.t.sf(abs(self.mean) / self.error, self.degrees))


@dataclass(frozen=True)
class Uncertainty:
    """Sources of uncertainty besides the variation from run to run."""

    overlap: float = 0.0
    rows: Mapping[tuple[str, str], Floats] = field(default_factory=dict)
    example: NDArray[np.int64] | None = None


RUNS_ONLY = Uncertainty()
"""No source of uncertainty besides the variation from run to run."""


def mean_difference(values: Floats, *, overlap: float = 0.0, test_error: tuple[float, int] = (0.0, 0)) -> Difference:
    """Return the mean of the differences over runs with its standard error.

    The degrees of freedom for the two errors follow Welch and Satterthwaite; without a test error they are n − 1. Runs
    that all have the same difference, other than zero, are too few to estimate an error, which is then NaN.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"Expected at least two runs to estimate the error of a difference, but got {n}.")
    variance, (error, examples) = float(np.var(values, ddof=1)) * (1 / n + overlap), test_error
    if error == 0 and np.any(values) and np.ptp(values) <= ROUNDING * np.abs(values).max():
        return Difference(float(np.mean(values)), math.nan, n - 1.0)
    total, degrees = variance + error**2, n - 1.0
    if error > 0:
        degrees = total**2 / (variance**2 / (n - 1) + error**4 / (examples - 1))
    return Difference(float(np.mean(values)), math.sqrt(total), degrees)


def difference(
    runs: pd.DataFrame, method: str, other: str, metric: str, uncertainty: Uncertainty = RUNS_ONLY
) -> Difference:
    """Return the difference between two methods, paired by seed.

    Parameters
    ----------
    runs : DataFrame
        One row per method and seed.
    method, other : str
        The difference is `method` minus `other`.
    metric : str
        A column of runs.
    uncertainty : Uncertainty
        Sources of uncertainty besides the variation over seeds.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": ["a", "a", "b", "b"], "seed": [0, 1, 0, 1], "nll": [1.0, 2.0, 3.0, 5.0]})
    >>> difference(runs, "b", "a", "nll").mean
    2.5
    """
    own = runs[runs["method"].isin((method, other))]  # other methods may have more seeds
    table: Any = own.pivot(index="seed", columns="method", values=metric)
    values = (table[method] - table[other]).to_numpy()
    rows, test_error = uncertainty.rows, (0.0, 0)
    if (method, metric) in rows and (other, metric) in rows:
        test_error = clustered_error(rows[method, metric] - rows[other, metric], uncertainty.example)
    return mean_difference(values, overlap=uncertainty.overlap, test_error=test_error)


def find_best(scores: pd.DataFrame, baselines: Sequence[str], metric: str) -> str:
    """Return the baseline with the best mean in a metric; `scores` has one row per method, or one per run."""
    means = scores.groupby("method", sort=False)[metric].mean()[list(baselines)]
    return str(means.idxmax() if METRICS[metric].higher_is_better else means.idxmin())


def summarize(
    runs: pd.DataFrame,
    metrics: Sequence[str] = ("nll", "accuracy"),
    uncertainty: Uncertainty = RUNS_ONLY,
    baselines: Sequence[str] = (BASELINE,),
) -> pd.DataFrame:
    """Return mean and standard deviation over seeds, and the paired difference from the best baseline.

    The best baseline of each metric is the one with the best mean. Differences have their 95 % interval.
    """
    best, rows = {metric: find_best(runs, baselines, metric) for metric in metrics}, {}
    for name, own in runs.groupby("method", sort=False):
        row: dict[str, Any] = {"baseline": name in baselines}
        for metric in metrics:
            gain = difference(runs, str(name), best[metric], metric, uncertainty)
            low, high = gain.interval()
            row |= {
                metric: own[metric].mean(),
                f"{metric}_sd": own[metric].std(),
                f"{metric}_difference": gain.mean,
                f"{metric}_error": gain.error,
                f"{metric}_low": low,
                f"{metric}_high": high,
                f"{metric}_p": gain.p_value,
            }
        rows[name] = row | {"seconds": own["seconds"].mean()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")

"""The true share of each class, or the mean of numbers, from many labels and a few true ones.

Prediction-powered inference corrects the mean of many predictions, here the mean label of each example, by their mean
error on the examples whose truth is known. With n known examples, N others, truth y and prediction f,

    rate = mean_n(y) + λ (mean_N(f) − mean_n(f)),      λ = cov(y, f) / var(f) · N / (n + N),

where λ minimizes the variance. The rate is unbiased however bad the labels are, if the n examples were drawn at random.

References
----------
Angelopoulos, Duchi and Zrnic, "PPI++: efficient prediction-powered inference" (2023). Rogan and Gladen, "Estimating
prevalence from the results of a screening test" (American Journal of Epidemiology 1978).
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from lupi._internal.arrays import Floats
from lupi.crowd.agreement import wilson_interval
from lupi.crowd.tables import match_gold, number_gold, number_values, read_labels, split_gold
from lupi.tabular.values import is_number

FEWEST = 5
"""Minimum number of true labels."""


class Rate(NamedTuple):
    """An estimate with its 95 % interval."""

    rate: float
    low: float
    high: float


def estimate_rate(
    table: Any,
    *,
    gold: str | Mapping[Any, Any],
    example: str | None = None,
    label: str | None = None,
    mean: bool = False,
) -> pd.DataFrame:
    """Estimate the true share of each class from many labels, such as those of LLM judges, and a few true ones.

    The examples with a true label must have been drawn at random. The labels may be as wrong and as dependent on each
    other as they like: that makes the interval wider, not wrong.

    Parameters
    ----------
    table
        A table of labels, as for `aggregate`. Annotators are not needed.
    gold : str or mapping
        True labels of some examples: the name of a partly empty column, or a dict or Series from examples to labels.
    example, label : str, optional
        Column names of a long table; by default "example" and "label".
    mean : bool
        Whether to estimate the mean of numbers, such as grades, instead of the share of each class. The labels may then
        be any numbers that go with the true ones, such as a judge's scores of 0 to 9 where the truth is 0 or 1.

    Returns
    -------
    DataFrame
        One row per class, or a single row for the mean. class: the class, or "mean"; rate, low, high: the share with
        its 95 % interval; human, human_low, human_high: the same from the true labels alone; naive: the share among the
        labels; rogan_gladen: the share among the labels, corrected by their errors on known examples.

    Examples
    --------
    A judge says "yes" too often. The true rate is 30 %.

    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(2000) < 0.3
    >>> judged = np.where(truth | (rng.random(2000) < 0.2), "yes", "no")
    >>> known = np.where(truth, "yes", "no").astype(object)
    >>> known[200:] = None  # people have checked 200 of 2000
    >>> table = pd.DataFrame({"example": range(2000), "label": judged, "gold": known})
    >>> found = estimate_rate(table, gold="gold")
    >>> found[found["class"] == "yes"][["rate", "low", "high", "human_low", "human_high", "naive"]].round(2)
       rate   low  high  human_low  human_high  naive
    1  0.26  0.21  0.31       0.21        0.33   0.44
    """
    truth: Any = gold
    if isinstance(gold, str):
        table, truth = split_gold(table, gold, example)
    frame, _ = read_labels(table, {"example": example, "label": label})
    of_example, examples = number_values(frame["example"])
    if mean:
        if not is_number(frame["label"]):
            raise ValueError(f"Expected `label` to be numbers for `mean`, but got {frame['label'].iloc[0]!r}.")
        known = match_gold(truth, examples, read_number, "numbers for `mean`")[:, None]
        given, classes = frame["label"].to_numpy(np.float64)[:, None], np.array(["mean"])
    else:
        codes, classes = number_values(frame["label"], sort=True)
        true = number_gold(truth, examples, classes)
        given, known = np.eye(len(classes))[codes], np.where(true[:, None] < 0, np.nan, np.eye(len(classes))[true])
    if (count := int((~np.isnan(known[:, 0])).sum())) < FEWEST:
        raise ValueError(f"Expected `gold` to have the true labels of {FEWEST} examples or more, but got {count}.")
    return tabulate_rates(classes, pd.DataFrame(given).groupby(of_example).mean().to_numpy(), known, shares=not mean)


def tabulate_rates(classes: NDArray[Any], predictions: Floats, truth: Floats, *, shares: bool = True) -> pd.DataFrame:
    """Return the table of `estimate_rate` from predictions and true values, [examples, classes], NaN if unknown."""
    corrected = correct_shares(predictions, truth) if shares else np.full(len(classes), np.nan)
    rows = []
    for k, name in enumerate(classes):
        best, people = (
            estimate_mean(values, truth[:, k], share=shares)
            for values in (predictions[:, k], np.zeros(len(predictions)))
        )
        of_people = {"human": people.rate, "human_low": people.low, "human_high": people.high}
        naive = {"naive": predictions[:, k].mean(), "rogan_gladen": corrected[k]}
        rows.append({"class": name, **best._asdict(), **of_people, **naive})
    return pd.DataFrame(rows)


def estimate_mean(prediction: Floats, truth: Floats, *, share: bool = False) -> Rate:
    """Estimate the mean truth of all examples from predictions of all and the truth of some, NaN elsewhere.

    The interval uses Student's t. That of a share is Wilson's, for the number of true labels that would give the same
    variance, and counts one more true label, by which the prediction is off by a half: it covers even if few or none of
    the known examples are of the class.
    """
    known = ~np.isnan(truth)
    y, f, rest = truth[known], prediction[known], prediction[~known]
    n, N, slope = len(y), len(rest), 0.0
    if N > 1 and np.ptp(f) > 0:
        slope = np.cov(y, f)[0, 1] / f.var(ddof=1) * N / (n + N)
    rate = float(y.mean() + slope * (rest.mean() - f.mean())) if slope else float(y.mean())
    free = n - 1 - bool(slope)
    q = float(student.ppf(0.975, free))
    off = y - slope * f
    variance = (((off - off.mean()) ** 2).sum() + (0.25 if share and slope else 0.0)) / free / n
    variance += slope**2 * rest.var(ddof=1) / N if slope else 0.0
    if not share:
        reach = q * float(np.sqrt(variance))
        return Rate(rate, rate - reach, rate + reach)
    rate = min(max(rate, 0.0), 1.0)
    size = n if np.ptp(y) == 0 else y.var(ddof=1) / variance
    return Rate(rate, *wilson_interval(rate, size, q))


def correct_shares(predictions: Floats, truth: Floats) -> Floats:
    """Return the shares of classes that explain those of the predictions, given their errors on known examples.

    This is the estimate of Rogan and Gladen (1978), for any number of classes; NaN if a class has no known example.
    """
    known = ~np.isnan(truth[:, 0])
    count = truth[known].sum(0)
    if not count.all():
        return np.full(len(count), np.nan)
    errors = truth[known].T @ predictions[known] / count[:, None]  # [true, given]
    shares = np.linalg.lstsq(errors.T, predictions.mean(0), rcond=None)[0].clip(0, 1)
    return np.asarray(shares / shares.sum())


def read_number(value: Any) -> float | None:
    """Return a value as a number, or None."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None

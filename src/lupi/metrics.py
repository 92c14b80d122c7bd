"""How good predictions are.

NLL, accuracy and Brier score are given for each row, so that methods can be compared row by row; their means are
scikit-learn's scores. Labels y are codes 0 … K−1 beside probabilities of K classes, or, multi-label, 0 and 1 in the
shape of the probabilities.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
NAMES = {"nll": "NLL", "accuracy": "accuracy", "brier": "Brier score", "ece": "ECE", "rmse": "RMSE"}
"""Metrics, and what they are called in words."""
HIGHER_IS_BETTER = ("accuracy",)
SHOWN = {"accuracy": (100, 1, " in %")}
"""How a metric is shown: factor, decimals and unit; 1, 3 and none where nothing is said."""
BINS = 15
"""Bins of confidence, of equal width, for ECE and reliability diagrams."""


def nll(y: ArrayLike, p: ArrayLike) -> Floats:
    """Negative log-probability of the label of each row; multi-label, averaged over the labels.

    Probabilities are at least the smallest step of a float, as in scikit-learn's `log_loss`, which is its mean.

    Examples
    --------
    >>> nll([1, 0], [[0.5, 0.5], [0.9, 0.1]]).round(3).tolist()
    [0.693, 0.105]
    """
    p = np.asarray(p, float)
    least = np.finfo(p.dtype).eps
    return np.asarray(-np.log(np.clip(probability_of(y, p), least, 1)).mean(1))


def accuracy(y: ArrayLike, p: ArrayLike) -> Floats:
    """1 where the most probable class is the label, else 0; multi-label, the share of labels that are right.

    Examples
    --------
    >>> accuracy([1, 0], [[0.4, 0.6], [0.2, 0.8]]).tolist()
    [1.0, 0.0]
    """
    return np.asarray(decisions(y, p)[1].mean(1))


def brier(y: ArrayLike, p: ArrayLike) -> Floats:
    """Squared distance of the probabilities to the label, summed over classes; multi-label, averaged over labels.

    Examples
    --------
    >>> brier([1, 0], [[0.5, 0.5], [1.0, 0.0]]).tolist()
    [0.5, 0.0]
    """
    y, p = np.asarray(y), np.asarray(p, float)
    if y.ndim == 2:
        return np.asarray(np.square(p - y).mean(1))
    return np.asarray(np.square(p - np.eye(p.shape[1])[y]).sum(1))


def gaussian_nll(y: ArrayLike, mean: ArrayLike, variance: ArrayLike) -> Floats:
    """Negative log-density of each y under a Gaussian.

    Examples
    --------
    >>> gaussian_nll([1.0], [1.0], [1.0]).round(3).tolist()
    [0.919]
    """
    y, mean, variance = (np.asarray(value, float) for value in (y, mean, variance))
    return np.asarray(0.5 * (np.square(y - mean) / variance + np.log(2 * math.pi * variance)))


def decisions(y: ArrayLike, p: ArrayLike) -> tuple[Floats, Floats]:
    """How sure each decision is, and whether it is right: [rows, 1], or multi-label [rows, labels].

    Examples
    --------
    >>> sure, right = decisions([0], [[0.3, 0.7]])
    >>> sure.tolist(), right.tolist()
    ([[0.7]], [[0.0]])
    """
    y, p = np.asarray(y), np.asarray(p, float)
    if y.ndim == 2:
        return np.maximum(p, 1 - p), ((p > 0.5) == y).astype(float)
    return p.max(1, keepdims=True), (p.argmax(1) == y).astype(float)[:, None]


def reliability(y: ArrayLike, p: ArrayLike, bins: int = BINS) -> pd.DataFrame:
    """Table of a reliability diagram: in each bin of confidence, how sure the decisions are and how often right.

    Returns
    -------
    DataFrame
        One row per bin (a, b]: low, high, count, and the sums `confidence` and `correct` over its decisions.

    Examples
    --------
    >>> reliability([0, 0], [[0.7, 0.3], [0.4, 0.6]], bins=2)
       low  high  count  confidence  correct
    0  0.0   0.5      0         0.0      0.0
    1  0.5   1.0      2         1.3      1.0
    """
    sure, right = (part.ravel() for part in decisions(y, p))
    place = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
    edges = np.linspace(0, 1, bins + 1)

    def total(weights: Floats | None = None) -> NDArray[Any]:
        return np.bincount(place, weights, minlength=bins)

    table = {"low": edges[:-1], "high": edges[1:], "count": total(), "confidence": total(sure), "correct": total(right)}
    return pd.DataFrame(table)


def ece(y: ArrayLike, p: ArrayLike, bins: int = BINS) -> float:
    """Expected calibration error: mean distance between confidence and accuracy over bins of confidence.

    Examples
    --------
    >>> round(ece([0, 0], [[0.7, 0.3], [0.4, 0.6]], bins=2), 3)  # 0.65 sure on average, and half of them right
    0.15
    """
    table = reliability(y, p, bins)
    return float((table["confidence"] - table["correct"]).abs().sum() / table["count"].sum())


def agreement(y: ArrayLike, example: ArrayLike) -> float:
    """Share of equal labels among all pairs of labels of one example; NaN where no example has two.

    Examples
    --------
    >>> agreement(["a", "a", "b", "b"], [0, 0, 0, 1])  # one of three pairs
    0.3333333333333333
    """
    table = pd.DataFrame({"y": np.asarray(y), "example": np.asarray(example)})

    def pairs(columns: list[str]) -> float:
        size = table.groupby(columns, sort=False).size()
        return float((size * (size - 1)).sum())

    total = pairs(["example"])
    return pairs(["example", "y"]) / total if total else math.nan


def shown(metric: str) -> tuple[int, int, str]:
    """Give the factor, decimals and full name that a metric is shown with.

    Examples
    --------
    >>> shown("accuracy"), shown("nll")
    ((100, 1, 'accuracy in %'), (1, 3, 'NLL'))
    """
    scale, digits, unit = SHOWN.get(metric, (1, 3, ""))
    return scale, digits, NAMES[metric] + unit


def probability_of(y: ArrayLike, p: Floats) -> Floats:
    """Probability of what happened: [rows, 1], or multi-label [rows, labels]."""
    y = np.asarray(y)
    if y.ndim == 2:
        return np.where(y == 1, p, 1 - p)
    return np.take_along_axis(p, y[:, None], 1)

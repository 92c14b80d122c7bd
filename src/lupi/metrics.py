"""Metrics: a single registry, used by comparisons and reports.

A metric is a function of labels and predictions. For probabilities of K classes, labels are codes 0 … K−1 or a
`Posterior`; for multi-label probabilities, they are 0 and 1 in the same shape; for a `Normal`, they are real numbers.
For `Grades`, they are as for classes, and distances are differences of codes.
To add a metric, add it to `METRICS`.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from lupi._internal.arrays import Floats

__all__ = [
    "METRICS",
    "Metric",
    "Posterior",
    "accuracy",
    "evaluate",
    "nll",
]

BINS = 15
"""Number of equally wide confidence bins for ECE and reliability diagrams."""
SUMS = ["count", "confidence", "correct"]
"""Columns of a reliability table that can be summed over runs."""
BIN_COLUMNS = ["method", "low", "high", "confidence", "accuracy", "count"]
"""Columns of a reliability diagram."""


class Normal(NamedTuple):
    """A predicted normal distribution for each row; `variance` is None if only the mean is predicted."""

    mean: Floats
    variance: Floats | None = None


class Grades(NamedTuple):
    """Predicted probabilities of the grades of a rating scale, in order, [rows, grades]."""

    p: Floats


class Posterior(NamedTuple):
    """What is known about the true label of each row. Scores are expectations under `p`.

    With `evidence`, NLL is that of the labels behind it, −log Σ_z p(z | x) P(labels | z), relative to the z that
    explains them best. If a true label is certain, this is the usual NLL.
    """

    p: Floats
    """[rows, classes] its posterior."""
    evidence: Floats | None = None
    """[rows, classes] log P(labels | z)."""


class Score(NamedTuple):
    """The value of a metric and, if its error can be estimated from them, the contributions of the test rows."""

    value: float
    rows: Floats | None = None


def nll(y: ArrayLike | Posterior, p: ArrayLike) -> Floats:
    """Return the negative log-probability of the label of each row; if multi-label, averaged over the labels.

    Probabilities are clipped to at least the machine epsilon. The mean equals scikit-learn's `log_loss`.

    Examples
    --------
    >>> nll([1, 0], [[0.5, 0.5], [0.9, 0.1]]).round(3).tolist()
    [0.693, 0.105]
    """
    if isinstance(y, Posterior):
        log_p = np.log(np.clip(p, np.finfo(float).eps, 1))
        if y.evidence is not None:
            return np.asarray(y.evidence.max(1) - logsumexp(log_p + y.evidence, axis=1))
        return np.asarray(-(y.p * log_p).sum(1))
    y, p = np.asarray(y), np.asarray(p, float)
    observed = np.where(y == 1, p, 1 - p) if y.ndim == 2 else np.take_along_axis(p, y[:, None], 1)
    return np.asarray(-np.log(np.clip(observed, np.finfo(p.dtype).eps, 1)).mean(1))


def accuracy(y: ArrayLike | Posterior, p: ArrayLike) -> Floats:
    """Return 1 where the most probable class is the label, else 0; if multi-label, the fraction of correct labels.

    Examples
    --------
    >>> accuracy([1, 0], [[0.4, 0.6], [0.2, 0.8]]).tolist()
    [1.0, 0.0]
    """
    return np.asarray(_decisions(y, p)[1].mean(1))


def brier(y: ArrayLike | Posterior, p: ArrayLike) -> Floats:
    """Return the squared error of the probabilities, summed over classes; if multi-label, averaged over labels."""
    p = np.asarray(p, float)
    if isinstance(y, Posterior):
        return np.asarray((np.square(p) + y.p * (1 - 2 * p)).sum(1))
    y = np.asarray(y)
    if y.ndim == 2:
        return np.asarray(np.square(p - y).mean(1))
    return np.asarray(np.square(p - np.eye(p.shape[1])[y]).sum(1))


def _decisions(y: ArrayLike | Posterior, p: ArrayLike) -> tuple[Floats, Floats]:
    """Return the confidence of decisions and whether they are correct, [rows, 1] or, if multi-label, [rows, labels]."""
    p = np.asarray(p, float)
    if isinstance(y, Posterior):
        return p.max(1, keepdims=True), np.take_along_axis(y.p, p.argmax(1)[:, None], 1)
    y = np.asarray(y)
    if y.ndim == 2:
        return np.maximum(p, 1 - p), ((p > 0.5) == y).astype(float)
    return p.max(1, keepdims=True), (p.argmax(1) == y).astype(float)[:, None]


def reliability(y: ArrayLike | Posterior, p: ArrayLike, bins: int = BINS) -> pd.DataFrame:
    """Return the table of a reliability diagram: confidences and correct decisions in each bin."""
    confidence, correct = (part.ravel() for part in _decisions(y, p))
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    edges = np.linspace(0, 1, bins + 1)
    weights = {"count": None, "confidence": confidence, "correct": correct}
    sums = {name: np.bincount(place, weight, minlength=bins) for name, weight in weights.items()}
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], **sums})


def average_bins(sums: Mapping[str, Floats]) -> pd.DataFrame:
    """Turn the sums in the bins of each method into means, and leave out empty bins."""
    if not sums:
        return pd.DataFrame(columns=BIN_COLUMNS)
    edges = np.linspace(0, 1, BINS + 1)
    bounds = {"low": edges[:-1], "high": edges[1:]}
    parts = [pd.DataFrame(own, columns=SUMS).assign(method=name, **bounds) for name, own in sums.items()]
    table = pd.concat(parts, ignore_index=True)
    table = table[table["count"] > 0].astype({"count": int}).reset_index(drop=True)
    means = {"confidence": table["confidence"] / table["count"], "accuracy": table["correct"] / table["count"]}
    return table.assign(**means)[BIN_COLUMNS]


def ece(y: ArrayLike | Posterior, p: ArrayLike, bins: int = BINS) -> float:
    """Return the expected calibration error: the mean gap between confidence and accuracy over bins of confidence."""
    table = reliability(y, p, bins)
    return float((table["confidence"] - table["correct"]).abs().sum() / table["count"].sum())


def find_medians(p: ArrayLike) -> NDArray[np.int64]:
    """Return the median grade of each row of probabilities, the grade with the lowest expected absolute error."""
    return np.asarray((np.cumsum(p, 1) >= 0.5 - np.finfo(np.float32).eps).argmax(1))


def ranked_probability_score(y: ArrayLike | Posterior, p: ArrayLike) -> Floats:
    """Return the squared error of the cumulative probabilities, summed over grades (Epstein 1969)."""
    at_most, true = np.cumsum(p, 1), np.cumsum(_distribute(y, p), 1)
    return np.asarray((np.square(at_most) + true * (1 - 2 * at_most)).sum(1))


def absolute_error(y: ArrayLike | Posterior, p: ArrayLike) -> Floats:
    """Return the absolute error of the median grade."""
    true, median = _distribute(y, p), find_medians(p)[:, None]
    return np.asarray((true * np.abs(median - np.arange(true.shape[1]))).sum(1))


def quadratic_kappa(y: ArrayLike | Posterior, p: ArrayLike) -> Score:
    """Return Cohen's κ of the median grades, weighted by squared differences (Cohen 1968).

    κ = 1 − D_o / D_e. D_o is the mean squared difference between decisions and labels, and D_e its expectation if they
    were independent. The contributions of rows are linearized.
    """
    true, median = _distribute(y, p), find_medians(p)[:, None]
    grade = np.arange(true.shape[1])
    squares = np.square(median - grade)
    own, by_chance = (true * squares).sum(1), squares @ true.mean(0)
    expected = float(by_chance.mean())
    if not expected:
        return Score(1.0)
    kappa = 1 - float(own.mean()) / expected
    of_labels = true @ np.square(grade[:, None] - median.T).mean(1)  # against the decisions for all rows
    return Score(kappa, ((1 - kappa) * (by_chance + of_labels) - own) / expected)


def _distribute(y: ArrayLike | Posterior, p: ArrayLike) -> Floats:
    """Return labels as distributions over the columns of p."""
    return y.p if isinstance(y, Posterior) else np.eye(np.shape(p)[1])[np.asarray(y)]


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric and its display format.

    The functions take labels and predictions. They return the contributions of the rows, whose mean is the value of the
    metric, or a `Score`, or None if the metric does not apply to the prediction.

    Parameters
    ----------
    label : str
        Name for readers.
    of_classes : callable, optional
        Scores class probabilities.
    of_grades : callable, optional
        Scores probabilities of grades, in place of `of_classes`.
    of_numbers : callable, optional
        Scores a `Normal`.
    higher_is_better : bool
        Whether higher values are better.
    scale : int
        Factor for display, such as 100 for per cent.
    digits : int
        Decimals for display.
    unit : str
        Unit for display.
    """

    label: str
    of_classes: Callable[[Any, Any], Floats | Score | None] | None = None
    of_grades: Callable[[Any, Any], Floats | Score | None] | None = None
    of_numbers: Callable[[Any, Any], Floats | Score | None] | None = None
    higher_is_better: bool = False
    scale: int = 1
    digits: int = 3
    unit: str = ""

    @property
    def heading(self) -> str:
        """The label and unit, for the heading of a table."""
        return f"{self.label}, {self.unit}" if self.unit else self.label

    def format(self, value: float, sign: str = "") -> str:
        """Format a value for display; with `sign="+"`, positive values have a sign too.

        Examples
        --------
        >>> METRICS["accuracy"].format(0.5), METRICS["nll"].format(0.5, "+")
        ('50.0', '+0.500')
        """
        return f"{self.scale * value:{sign}.{self.digits}f}"


def _normal_nll(y: Any, prediction: Normal) -> Floats | None:
    if prediction.variance is None:
        return None
    y, mean, variance = (np.asarray(value, float) for value in (y, *prediction))
    return np.asarray(0.5 * (np.square(y - mean) / variance + np.log(2 * math.pi * variance)))


def _rmse(y: Any, prediction: Normal) -> Score:
    squares = np.square(np.asarray(y) - prediction.mean)
    rmse = math.sqrt(squares.mean())
    return Score(rmse, squares / (2 * max(rmse, 1e-12)))  # linearized with the derivative of the square root


METRICS = {
    "nll": Metric(label="NLL", of_classes=nll, of_numbers=_normal_nll),
    "accuracy": Metric(label="accuracy", of_classes=accuracy, higher_is_better=True, scale=100, digits=1, unit="%"),
    "brier": Metric(label="Brier score", of_classes=brier),
    "ece": Metric(label="ECE", of_classes=lambda y, p: Score(ece(y, p))),
    "rps": Metric(label="RPS", of_grades=ranked_probability_score),
    "kappa": Metric(label="quadratic kappa", of_grades=quadratic_kappa, higher_is_better=True),
    "rmse": Metric(label="RMSE", of_numbers=_rmse),
    "mae": Metric(
        label="MAE", of_grades=absolute_error, of_numbers=lambda y, prediction: np.abs(np.asarray(y) - prediction.mean)
    ),
}
"""All metrics by the name of their column in results, in display order."""


def evaluate(y: ArrayLike | Posterior, prediction: ArrayLike | Normal | Grades) -> dict[str, Score]:
    """Score predictions with every metric that applies to them.

    Parameters
    ----------
    y : array or Posterior
        Labels: codes of classes, their posterior, 0 and 1 (multi-label), or real numbers.
    prediction : array, Normal or Grades
        Probabilities, a `Normal` for real numbers, or `Grades` for a rating scale.

    Examples
    --------
    >>> {name: round(score.value, 3) for name, score in evaluate([1, 0], [[0.5, 0.5], [0.9, 0.1]]).items()}
    {'nll': 0.399, 'accuracy': 0.5, 'brier': 0.26, 'ece': 0.3}
    """
    scores = {}
    for name, metric in METRICS.items():
        function, given = metric.of_classes, prediction
        if isinstance(prediction, Normal):
            function = metric.of_numbers
        elif isinstance(prediction, Grades):
            function, given = metric.of_grades or metric.of_classes, prediction.p
        found = None if function is None else function(y, given)
        if found is not None:
            scores[name] = found if isinstance(found, Score) else Score(float(found.mean()), found)
    return scores


def clustered_error(values: Floats, cluster: NDArray[Any] | None = None) -> tuple[float, int]:
    """Return the standard error of a mean of values in independent clusters, and the number of clusters."""
    codes = np.arange(len(values)) if cluster is None else np.unique(cluster, return_inverse=True)[1]
    sums = np.bincount(codes, values - values.mean())
    count = len(sums)
    if count < 2:
        raise ValueError(f"Expected at least two test examples, but got {count}.")
    return math.sqrt(count / (count - 1) * float(np.square(sums).sum())) / len(values), count

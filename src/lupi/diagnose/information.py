"""Estimate how informative a is about y beyond x, I(y; a | x) in nats.

The estimate is the gap between the held-out losses of q(y | x) and q(y | x, a).

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), sections 1 and 2; `lupi_paper.theory` has the exact value for
their synthetic process.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student
from sklearn.utils.multiclass import type_of_target

from lupi._internal.arrays import Floats
from lupi._internal.checks import check_integer
from lupi.diagnose.density import density_losses, make_mixture
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
from lupi.metrics import clustered_error
from lupi.tabular.encoding import MissingValuesWarning
from lupi.tabular.grouping import grouped_folds, number_examples, take_rows

SMALLEST = 1e-7
"""Smallest probability of a label, so that a class missing from a fold costs both models the same."""
DEFAULTS: Mapping[str, Any] = {"epochs": 20, "learning_rate": 3e-3, "training": {"schedule": "cosine"}}
"""Default parameters of the estimators."""
STEPS = 50
"""Number of steps per epoch, which determines the batch size; a batch has at least 32 annotations."""


@dataclass(frozen=True)
class Gain:
    """An estimate of I(y; a | x), in nats, with its confidence interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"


def cross_entropy_gap(marginal: ArrayLike, conditional: ArrayLike, *, example: Any = None) -> Gain:
    r"""Estimate I(y; a | x) by the mean of log q(y | x, a) − log q(y | x) over held-out annotations.

    The expectation of the estimate is I(y; a | x) + KL(p(y | x) ‖ q(y | x)) − KL(p(y | x, a) ‖ q(y | x, a)), so it is
    exact up to the misfit of the two models. A misfit of q(y | x, a) lowers it, and a misfit of q(y | x) raises it, so
    it is a lower bound only if q(y | x) is exact. The 95 % interval accounts for the choice of held-out examples, but
    not for the misfit or for the seeds and folds of training.
    """
    gain = np.asarray(marginal, dtype=np.float64) - np.asarray(conditional, dtype=np.float64)
    error, examples = clustered_error(gain, number_examples(example, len(gain)))
    estimate = float(gain.mean())
    reach = float(student.ppf(0.975, examples - 1)) * error
    return Gain(estimate, estimate - reach, estimate + reach)


def estimate_information(
    X: Any,
    y: Any,
    A: Any,
    *,
    example: Any = None,
    folds: int = 3,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Gain:
    """Estimate I(y; a | x) by the `cross_entropy_gap` between the out-of-fold losses of two models.

    Parameters
    ----------
    X, y, A : array or DataFrame
        Inputs, labels and privileged information, one row per annotation.
    example, folds, parameters, seed
        As for `held_out_losses`.

    Returns
    -------
    Gain
        The `estimate`, and its 95 % confidence interval from `low` to `high`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, careless = rng.integers(2, size=600), rng.integers(2, size=600)
    >>> y = np.where(careless, rng.integers(2, size=600), truth)  # I(y; a | x) = 0.216
    >>> found = estimate_information(truth[:, None], y, careless[:, None], folds=2, parameters={"epochs": 10})
    >>> found.low < 0.216 < found.high
    True
    """
    options: Any = {"example": example, "folds": folds, "parameters": parameters, "seed": seed}
    marginal = held_out_losses(X, y, None, **options)
    conditional = held_out_losses(X, y, A, **options)
    return cross_entropy_gap(marginal, conditional, example=example)


def held_out_losses(
    X: Any,
    y: Any,
    A: Any,
    *,
    example: Any = None,
    weight: NDArray[np.float64] | None = None,
    folds: int = 3,
    parameters: Mapping[str, Any] | None = None,
    seed: int = 0,
    real: bool | None = None,
) -> Floats:
    """Compute −log q(y | x, a) of each annotation with models that were trained on the other folds.

    For classes, q is a plain network with x and a as inputs ("zero-imputation"). For a real y, its output is a mixture
    of Gaussians, since a single Gaussian, which is too wide in both models, would hide the gap.
    """
    folds = check_integer("folds", folds, 2)
    y = np.asarray(y)
    if y.ndim != 1 and type_of_target(y) != "multilabel-indicator":
        raise ValueError(f"Expected `y` to be one label per annotation or columns of 0 and 1, but got shape {y.shape}.")
    if A is None:
        A = np.zeros((len(y), 1))
    group = number_examples(example, len(y))
    real = type_of_target(y) == "continuous" if real is None else real
    size = max(32, len(y) * (folds - 1) // folds // STEPS)
    chosen = {**DEFAULTS, "batch_size": size, "random_state": seed, **(parameters or {})}
    losses = np.empty(len(y))
    for train, test in grouped_folds(group, folds, seed):
        data = {"privileged": take_rows(A, train), "example": group[train]}
        data["sample_weight"] = None if weight is None else weight[train]
        X_train, held_out = take_rows(X, train), (take_rows(X, test), y[test], take_rows(A, test))
        with warnings.catch_warnings(action="ignore", category=MissingValuesWarning):
            if real:
                regressor = PrivilegedRegressor(make_mixture, **chosen).fit(X_train, y[train], **data)
                losses[test] = density_losses(regressor, *held_out)
            else:
                classifier = PrivilegedClassifier("zero-imputation", **chosen).fit(X_train, y[train], **data)
                losses[test] = class_losses(classifier, *held_out)
    return losses


def class_losses(model: PrivilegedClassifier, X: Any, y: NDArray[Any], A: Any) -> Floats:
    """Return −log q(y | x, a) of classes."""
    p = model.predict_proba_given(X, A)
    if y.ndim == 2:
        return np.asarray(-np.log(np.maximum(np.where(y == 1, p, 1 - p), SMALLEST)).sum(1))
    place = pd.Index(model.classes_).get_indexer(pd.Index(y))
    own = np.where(place < 0, 0.0, p[np.arange(len(y)), place])
    return np.asarray(-np.log(np.maximum(own, SMALLEST)))

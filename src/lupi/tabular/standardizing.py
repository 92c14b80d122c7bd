"""Standardize numbers in double precision, (x − mean) / sd, with bounded results for any input."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler

LARGEST = 1e36
"""Largest magnitude of a training value; exported models take float32, whose maximum is 3e38."""
FARTHEST = 1e6
"""Standardized values are clipped to ± this number, since larger values make networks overflow."""
FAR = 1e-6
"""A column whose range is below this fraction of its magnitude is shifted before its statistics are computed."""


def find_offset(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the offset to subtract from each column before computing its statistics: 0 unless it is far from zero.

    For numbers far from zero, the rounding error of the mean can exceed the differences between the numbers.
    """
    low, high = np.nanmin(values, 0).astype(np.float64), np.nanmax(values, 0).astype(np.float64)
    return np.where(high - low < FAR * np.maximum(np.abs(low), np.abs(high)), low, 0.0)


def find_too_large(values: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the index of the first number that is too large to standardize, or None."""
    places = np.argwhere(np.abs(values.astype(np.float64, copy=False)) > LARGEST)
    return tuple(map(int, places[0])) if len(places) else None


def standardize(
    values: NDArray[Any],
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    dtype: str = "float64",
) -> NDArray[Any]:
    """Return (x − mean) / scale, computed in double precision and clipped to ± `FARTHEST`."""
    features = np.empty(values.shape, dtype=dtype)
    with np.errstate(over="ignore"):
        np.divide(values - mean, scale, out=features, casting="same_kind")
    return np.clip(features, -FARTHEST, FARTHEST, out=features)


def measure(values: NDArray[Any], names: Sequence[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the standard deviation of each column, which is infinite for a constant column."""
    place = find_too_large(values)
    if place is not None:
        raise ValueError(
            f"Expected column {names[place[1]]!r} to be numbers of at most {LARGEST:g} in size, "
            f"but got {values[place]:g} in row {place[0]}."
        )
    offset = find_offset(values)
    scaler = StandardScaler().fit(values - offset)
    constant = np.nanmax(values, 0) == np.nanmin(values, 0)
    return scaler.mean_ + offset, np.where(constant, np.inf, scaler.scale_)


class Standardizer(TransformerMixin, BaseEstimator):
    """Standardize columns of numbers; missing values stay missing."""

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002  scikit-learn's signature
        """Compute the means and standard deviations."""
        values = np.asarray(X)
        self.mean_, self.scale_ = measure(values, list(getattr(X, "columns", range(values.shape[1]))))
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the standardized values."""
        return standardize(np.asarray(X), self.mean_, self.scale_)

"""Check weights and soft labels, given as arrays or columns. Messages count rows from 0."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.tabular.values import Column

ROUNDING = 0.01
"""Largest allowed difference between a sum of probabilities and 1, since files may hold only a few digits."""


def check_weights(weights: Column, what: str) -> NDArray[np.float64]:
    """Return weights as an array; raise a `ValueError` unless they are finite, non-negative and not all zero."""
    try:
        values = weights.to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected {what} to be numbers, but got {weights.dtype}.") from error
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        got = f"row {weights.index[place]} has {values[place]}"
        raise ValueError(f"Expected {what} to be finite and not negative, but {got}.")
    if not values.any():
        raise ValueError(f"Expected some {what} to be greater than zero, but all are zero.")
    return values


def check_probabilities(labels: pd.DataFrame, what: str) -> NDArray[np.float64]:
    """Return soft labels, [rows, classes], normalized; raise a `ValueError` unless rows sum to one up to rounding."""
    if labels.shape[1] < 2:
        raise ValueError(f"Expected {what} to have a column for each class with `soft`, but got 1 column.")
    try:
        p = labels.to_numpy(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected {what} to be probabilities with `soft`, but some are no numbers.") from error
    if (p < 0).any():
        row, column = np.argwhere(p < 0)[0]
        got = f"{p[row, column]:g} in row {labels.index[row]}, column {labels.columns[column]!r}"
        raise ValueError(f"Expected {what} to be probabilities with `soft`, but got {got}.")
    total = p.sum(1, keepdims=True)
    wrong = ~(np.abs(total[:, 0] - 1) <= ROUNDING)
    if wrong.any():
        place = int(wrong.argmax())
        got = f"row {labels.index[place]} sums to {total[place, 0]:.4g}"
        raise ValueError(f"Expected rows of {what} to be probabilities that sum to one with `soft`, but {got}.")
    return np.asarray(p / total)

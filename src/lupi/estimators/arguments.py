"""What users may pass to an estimator: everything else gets one sentence with the row, column or option."""

from __future__ import annotations

import numbers as number_types
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array
from torch import Tensor

Inputs = NDArray[Any] | pd.DataFrame | Tensor


def check_length(name: str, length: int, expected: int) -> None:
    """Compare numbers of rows."""
    if length != expected:
        raise ValueError(f"Expected `{name}` to have {expected} rows as X has, but got {length}.")


def check_widths(name: str, widths: Any, count: int | None = None) -> None:
    """Look for a sequence of layers' widths."""
    good = isinstance(widths, Sequence | np.ndarray) and not isinstance(widths, str)
    if not (
        good
        and all(isinstance(width, number_types.Integral) and int(width) > 0 for width in widths)
        and count in (None, len(widths))
    ):
        what = f"{count} whole numbers" if count else "a sequence of whole numbers"
        raise ValueError(f"Expected `{name}` to be {what} of at least 1, but got {widths!r}.")


def check_index(X: Any, privileged: Any) -> None:
    """Compare the indices of two pandas tables."""
    tables = (pd.DataFrame, pd.Series)
    if not (isinstance(X, tables) and isinstance(privileged, tables) and len(X) == len(privileged)):
        return
    if not X.index.equals(privileged.index):
        pairs = enumerate(zip(X.index, privileged.index, strict=True))
        i, (left, right) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
        raise ValueError(
            f"Expected X and `privileged` to have the same index, but row {i} is {python(left)!r} in X "
            f"and {python(right)!r} in `privileged`."
        )


def complete_targets(y: Any) -> NDArray[Any]:
    """Return y as an array, and refuse missing and infinite values."""
    if isinstance(y, pd.Series | pd.DataFrame):
        y = y.to_numpy()  # scikit-learn would turn integers and booleans that may miss values into floats
    y = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
    missing = np.asarray(pd.isna(y))
    infinite = np.isinf(y) if y.dtype.kind == "f" else np.zeros_like(missing)
    if (missing | infinite).any():
        place = tuple(np.argwhere(missing | infinite)[0])
        what = "NaN" if missing[place] else "infinity"  # scikit-learn's own words
        raise ValueError(f"Input y contains {what} in row {place[0]}.")
    return np.asarray(y)


def python(value: Any) -> Any:
    """Turn a number of numpy into Python's own, which a message shows without its type."""
    return value.item() if isinstance(value, np.generic) else value


def examples_of(example: Any, inputs: Inputs) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Find the row of X where each example stands first, and the example of each row."""
    ids = np.asarray(example)
    ids = ids[:, 0] if ids.ndim == 2 and ids.shape[1] == 1 else ids
    if ids.ndim != 1:
        raise ValueError(f"Expected `example` to be one column of ids, but got shape {list(ids.shape)}.")
    check_length("example", len(ids), inputs.shape[0])
    codes, _ = pd.factorize(ids)
    if (codes < 0).any():
        raise ValueError(f"Expected `example` to have an id in every row, but row {int(codes.argmin())} has none.")
    _, first = np.unique(codes, return_index=True)
    differ = np.flatnonzero(~same_rows(inputs, first[codes]))
    if len(differ):
        i = int(differ[0])
        raise ValueError(
            f"Expected rows with equal `example` ids to have equal X, but rows {int(first[codes[i]])} and {i}, "
            f"both of example {python(ids[i])!r}, differ."
        )
    return first, codes


def same_rows(inputs: Inputs, other: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell for each row whether it equals the row of the same table, which misses no values, at another position."""
    if isinstance(inputs, pd.DataFrame):
        columns = [inputs[name].to_numpy() for name in inputs.columns]
        return np.asarray(np.all([column == column[other] for column in columns], axis=0))
    values = np.asarray(inputs)
    return np.asarray(np.all((values == values[other]).reshape(len(values), -1), axis=1))


def tensor_of(X: Any) -> Tensor:
    """Inputs for a trunk of the user's own: any tensor whose first dimension counts the rows."""
    if isinstance(X, Tensor):
        x = X.detach().cpu()
    else:
        X = np.require(X, requirements="W")  # torch warns of memory that it must not write
        if X.dtype.kind not in "biuf":
            raise ValueError(f"Expected X to be numbers for a trunk of your own, but got {X.dtype}.")
        x = torch.as_tensor(X)
    x = x.float() if x.is_floating_point() else x
    if x.ndim < 2:
        raise ValueError(f"Expected X to have at least two dimensions, but got {x.ndim}. Reshape your data.")
    if x.shape[0] == 0:
        raise ValueError("Expected X to have rows, but it is empty.")
    if x.is_floating_point() and not bool(torch.isfinite(x).all()):
        row = int((~torch.isfinite(x).flatten(1).all(1)).nonzero()[0])
        raise ValueError(f"Input X contains NaN or infinity in row {row}.")
    return x

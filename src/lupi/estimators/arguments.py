"""Check what users pass to an estimator; a message names the row, column or parameter that is wrong."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from lupi.tabular.columns import check_name, find_annotator
from lupi.tabular.encoding import as_frame, code_categories


def check_length(name: str, length: int, expected: int) -> None:
    """Check that an argument has as many rows as X."""
    if length != expected:
        raise ValueError(f"Expected `{name}` to have {expected} rows as X has, but got {length}.")


def check_widths(name: str, widths: Any, count: int | None = None) -> None:
    """Check a sequence of layer widths."""
    listed = isinstance(widths, Sequence | np.ndarray) and count in (None, len(widths))
    if not (listed and all(isinstance(width, Integral) and int(width) > 0 for width in widths)):
        what = f"{count} positive integers" if count else "a sequence of positive integers"
        raise ValueError(f"Expected `{name}` to be {what}, but got {widths!r}.")


def check_index(X: Any, privileged: Any) -> None:
    """Check that two pandas tables of the same length have the same index."""
    tables = (pd.DataFrame, pd.Series)
    if not (isinstance(X, tables) and isinstance(privileged, tables) and len(X) == len(privileged)):
        return
    if not X.index.equals(privileged.index):
        i = int(np.argmax(X.index != privileged.index))
        left, right = to_python(X.index[i]), to_python(privileged.index[i])
        raise ValueError(
            f"Expected X and `privileged` to have the same index, but row {i} is {left!r} in X "
            f"and {right!r} in `privileged`."
        )


def check_targets(y: Any) -> NDArray[Any]:
    """Return y as an array without missing or infinite values."""
    if isinstance(y, pd.Series | pd.DataFrame):
        y = y.to_numpy()  # scikit-learn would turn nullable integers and booleans into floats
    y = check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y")
    missing = np.asarray(pd.isna(y))
    infinite = np.isinf(y) if y.dtype.kind == "f" else np.zeros_like(missing)
    if (missing | infinite).any():
        place = tuple(np.argwhere(missing | infinite)[0])
        what = "NaN" if missing[place] else "infinity"  # the wording that `check_estimator` looks for
        raise ValueError(f"Input y contains {what} in row {place[0]}.")
    return np.asarray(y)


def to_python(value: Any) -> Any:
    """Convert a numpy scalar to a Python object, which a message shows without its type."""
    return value.item() if isinstance(value, np.generic) else value


def find_examples(example: Any, inputs: NDArray[Any] | pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of X of each example, and the example of each row."""
    ids = np.asarray(example)
    ids = ids[:, 0] if ids.ndim == 2 and ids.shape[1] == 1 else ids
    if ids.ndim != 1:
        raise ValueError(f"Expected `example` to be one column of ids, but got shape {list(ids.shape)}.")
    check_length("example", len(ids), inputs.shape[0])
    codes, _ = pd.factorize(ids)
    if (codes < 0).any():
        raise ValueError(f"Expected `example` to have an id in every row, but row {int(codes.argmin())} has none.")
    _, first = np.unique(codes, return_index=True)
    values = np.asarray(inputs)
    equal = (values == values[first[codes]]).reshape(len(values), -1).all(axis=1)
    if not equal.all():
        i = int(equal.argmin())
        raise ValueError(
            f"Expected rows with equal `example` ids to have equal X, but rows {int(first[codes[i]])} and {i}, "
            f"both of example {to_python(ids[i])!r}, differ."
        )
    return first, codes


def find_annotators(
    privileged: Any, annotator: str | int | None, numbers: str | Mapping[str, str]
) -> NDArray[np.int64] | None:
    """Return the number of who gave each label, from the column that users name, or that is named like one.

    A missing id is an annotator of its own. The result is None if no column is named, and none is found.

    Examples
    --------
    >>> find_annotators(pd.DataFrame({"worker": ["bob", "ann", "bob", None]}), None, "quantile")
    array([1, 0, 1, 2])
    >>> find_annotators([[0.5, 12], [0.7, 10], [0.2, 12]], 1, "quantile")
    array([1, 0, 1])
    """
    if isinstance(annotator, bool) or not isinstance(annotator, str | Integral | None):
        raise ValueError(f"Expected `annotator` to be the name or number of a column, but got {annotator!r}.")
    if privileged is None:
        if annotator is not None:
            raise ValueError(f"Expected `privileged` to have the `annotator` column {annotator!r}, but got None.")
        return None
    frame = as_frame(privileged)
    name: str | None
    if annotator is None:
        kinds = numbers if isinstance(numbers, Mapping) else {}
        name = find_annotator(frame, {str(column): kind for column, kind in kinds.items()})
        return None if name is None else code_categories(frame[name])
    name = str(annotator)
    if name not in frame.columns and not isinstance(annotator, str):
        if not 0 <= annotator < frame.shape[1]:
            last = frame.shape[1] - 1
            raise ValueError(f"Expected `annotator` to be a column from 0 to {last}, but got {annotator}.")
        name = frame.columns[int(annotator)]
    check_name(name, list(frame.columns), "annotator", "`privileged`")
    return code_categories(frame[name])

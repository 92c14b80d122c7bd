"""Check that all labels of an example have the same inputs."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.tabular.kinds.base import RowNumbers
from lupi.tabular.lazy import Frame
from lupi.tabular.values import Column, is_coded


def check_examples(
    ids: NDArray[np.object_] | Column, inputs: NDArray[np.generic] | Frame, rows: RowNumbers | None = None
) -> None:
    """Check that every row has an id, and that rows with equal ids have equal inputs.

    Parameters
    ----------
    ids : ndarray or Series
        The example of each row.
    inputs : ndarray, DataFrame or Columns
        The inputs of each row.
    rows : array of int, optional
        Row numbers for messages; by default they are counted from 0.

    Examples
    --------
    >>> inputs = pd.DataFrame({"size": [1, 2, 1], "seconds": [5, 9, 7]})
    >>> check_examples(np.array(["cat", "dog", "cat"]), inputs)  # doctest: +NORMALIZE_WHITESPACE
    Traceback (most recent call last):
        ...
    ValueError: Expected rows with equal `example` ids to have equal inputs, but rows 0 and 2 of example 'cat' differ in
    'seconds'; a column that describes the label is `privileged`.
    """
    numbers = range(len(ids)) if rows is None else rows
    codes, _ = pd.factorize(ids)
    if (codes < 0).any():
        raise ValueError(
            f"Expected `example` to have an id in every row, but row {numbers[int(codes.argmin())]} has none."
        )
    first = np.flatnonzero(~pd.Series(codes).duplicated())[codes]
    named = [(None, inputs)] if isinstance(inputs, np.ndarray) else inputs.items()
    for name, column in named:
        if isinstance(column, pd.Series) and is_coded(column):
            column = column.cat.codes
        row = find_difference(np.asarray(column), first)
        if row is None:
            continue
        where = "" if name is None else f" in {name!r}; a column that describes the label is `privileged`"
        example = np.asarray(ids[row : row + 1]).item()
        raise ValueError(
            "Expected rows with equal `example` ids to have equal inputs, but "
            f"rows {numbers[first[row]]} and {numbers[row]} of example {example!r} differ{where}."
        )


def find_difference(values: NDArray[np.generic], first: NDArray[np.int64]) -> int | None:
    """Return the first row i of `values` that differs from row `first[i]`; missing values are equal."""
    missing = np.asarray(pd.isna(values))
    if values.dtype == object:
        values = np.where(missing, np.nan, values)  # pd.NA == "a" is neither true nor false
    equal = (values == values[first]) | (missing & missing[first])
    differs = ~equal.reshape(len(equal), -1).all(axis=1)
    return int(differs.argmax()) if differs.any() else None

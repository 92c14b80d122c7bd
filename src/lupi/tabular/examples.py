"""Find the rows that are labels of the same example, and check that they have the same inputs."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.tabular.kinds.base import RowNumbers
from lupi.tabular.kinds.vector import as_bytes
from lupi.tabular.lazy import Frame
from lupi.tabular.values import Column, is_coded

MOST_LABELS, FEW_VALUES = 20, 20
"""Every row is an example if there are on average more than `MOST_LABELS` rows per distinct input and no input has more
than `FEW_VALUES` distinct values."""


def group_equal_inputs(inputs: Frame) -> tuple[NDArray[np.int64] | None, list[str]]:
    """Number the examples of rows without ids: rows with equal inputs are labels of one example.

    This is the rule of all commands, with one exception. If there are more than `MOST_LABELS` rows per distinct input,
    and no input has more than `FEW_VALUES` distinct values, different examples probably have equal inputs, and every
    row is an example. The columns are read one by one, and take memory for a hash of each row.
    """
    hashes = hash_rows(inputs)
    ordered = np.sort(hashes)  # needs less memory than `factorize`
    rows, different = len(ordered), 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if rows <= different:
        return None, []
    if rows > MOST_LABELS * different and all(count_values(inputs[name]) <= FEW_VALUES for name in inputs.columns):
        return None, [
            f"The {rows:,} rows have only {different:,} different inputs, so every row counts as an example; if rows "
            "with equal inputs are labels of one example, name a column of ids in `example`."
        ]
    return pd.factorize(hashes)[0].astype(np.int64), [
        f"The {rows:,} rows have {different:,} different inputs, and without `example` rows with equal inputs count as "
        "labels of one example; if they are different examples, name a column of ids in `example`."
    ]


def count_values(column: Column) -> int:
    """Count the distinct values of a column, of which some may be vectors."""
    return int(as_bytes(column).nunique())


def hash_rows(inputs: Frame, names: Collection[str] | None = None) -> NDArray[np.uint64]:
    """Hash each row. 1 and 1.0 are equal, since tables may store the same number as either."""
    total = np.zeros(len(inputs), np.uint64)
    for name in inputs.columns if names is None else names:
        column = as_bytes(inputs[name])
        if column.dtype.kind in "biuf":
            column = column.astype(float) + 0.0  # -0.0 becomes 0.0
        total *= np.uint64(0x9E3779B97F4A7C15)
        total += pd.util.hash_pandas_object(column, index=False).to_numpy()
    return total


def check_examples(
    ids: NDArray[np.object_] | Column, inputs: NDArray[np.generic] | Frame, rows: RowNumbers | None = None
) -> None:
    """Check that every row has an id, and that rows with equal ids have equal inputs."""
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

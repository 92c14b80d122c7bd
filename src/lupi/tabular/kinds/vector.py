"""Vectors, such as embeddings: several numbers per row, the same number in all rows. Messages count rows from 0."""

import re
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.tabular.kinds.base import Kind, RowNumbers
from lupi.tabular.values import Column


class Vector(Kind):
    """Several numbers per row; each becomes a separate column."""

    name = "vector"
    privileged = "vector"
    wants = "lists of numbers"

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "vector"

    def reads(self, stored: str) -> bool:
        return stored in ("vector", "string")

    def accepts(self, trained: str, stored: str) -> bool:  # noqa: ARG002
        return self.reads(stored)

    def clean(self, values: Column, stored: str, rows: RowNumbers) -> pd.DataFrame:  # noqa: ARG002
        return expand(values, stack_vectors(values, rows))


def holds_vectors(column: Column) -> bool:
    """Return whether the first known value of a column is a list or an array of numbers."""
    if column.dtype != object:
        return False
    first = next((value for value in column if not is_missing(value)), None)
    return isinstance(first, list | tuple | np.ndarray) and to_vector(first) is not None


def expand_vectors(frame: pd.DataFrame, also: Collection[str] = ()) -> pd.DataFrame:
    """Replace each column of vectors with one column per number: ``name[0]``, ``name[1]``, and so on."""
    found = [name for name in frame.columns if name in also or holds_vectors(frame[name])]
    if not found:
        return frame
    parts = [
        expand(frame[name], stack_vectors(frame[name])) if name in found else frame[[name]] for name in frame.columns
    ]
    return pd.concat(parts, axis="columns")


def expand(column: Column, vectors: NDArray[Any]) -> pd.DataFrame:
    """Return the vectors of a column as a table with one column per number."""
    names = [f"{column.name}[{i}]" for i in range(vectors.shape[1])]
    return pd.DataFrame(vectors, columns=names, index=column.index)


def stack_vectors(
    column: Column, rows: RowNumbers | None = None, *, width: int | None = None, may_be_missing: bool = False
) -> NDArray[Any]:
    """Return the vectors of a column as an array, [rows, width], or raise a `ValueError` that names a row."""
    rows = range(len(column)) if rows is None else rows
    missing = np.array([is_missing(value) for value in column])
    vectors = [None if absent else to_vector(value) for value, absent in zip(column, missing, strict=True)]
    like = "in training" if width is not None else f"row {rows[int(missing.argmin())]} has"
    for row, value, vector in zip(rows, column, vectors, strict=True):
        if vector is None:
            if is_missing(value) and may_be_missing:
                continue
            got = f"row {row} has none" if is_missing(value) else f"row {row} has {str(value)[:50]!r}"
            raise ValueError(f"Expected column {column.name!r} to have a vector of numbers in every row, but {got}.")
        if not len(vector):
            raise ValueError(f"Expected the vectors of column {column.name!r} to have numbers, but row {row} has none.")
        width = len(vector) if width is None else width
        if len(vector) != width:
            got = f"row {row} has {len(vector)}"
            raise ValueError(
                f"Expected the vectors of column {column.name!r} to have {width} numbers as {like}, but {got}."
            )
        if not np.isfinite(vector).all():
            wrong = vector[~np.isfinite(vector)][0]
            raise ValueError(f"Expected column {column.name!r} to have finite numbers, but got {wrong} in row {row}.")
    assert width is not None  # there is a row
    absent = np.full(width, np.nan, np.float32)
    return np.stack([absent if vector is None else vector for vector in vectors])


def to_vector(value: Any) -> NDArray[Any] | None:
    """Convert a list, an array or a string such as ``[0.5, 1.5]`` to a 1-D array of numbers; None for other values."""
    try:
        if isinstance(value, str):
            inside = re.fullmatch(r"\s*\[(.*)\]\s*", value, re.DOTALL)
            return np.array(inside[1].replace(",", " ").split(), np.float64) if inside else None
        vector = np.asarray(value)
        vector = vector.astype(np.float64) if vector.dtype == object or not vector.size else vector
    except (ValueError, TypeError):
        return None
    return vector if vector.ndim == 1 and vector.dtype.kind in "iuf" else None


def is_missing(value: Any) -> bool:
    """Return whether a value is missing; lists and arrays are not."""
    return value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))


def as_bytes(column: Column) -> Column:
    """Convert the vectors of a column to bytes, so that they can be compared and hashed; return others unchanged."""
    if not holds_vectors(column):
        return column
    return column.map(lambda value: None if is_missing(value) else np.asarray(value).tobytes())

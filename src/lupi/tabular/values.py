"""Values of a column: as numbers, as vectors, or as codes of categories. Messages count rows from 0."""

import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype, is_string_dtype

Column: TypeAlias = "pd.Series[Any]"
RowNumbers: TypeAlias = Sequence[int] | NDArray[np.int64] | pd.Index

ID = re.compile(r"(\bid|_id|Id|ID|annotator|worker|rater|labell?er|coder|judge|reviewer|participant|user|model)$")
"""Typical names of a column of annotators."""


def is_number(column: Column) -> bool:
    """Return whether a column holds numbers; booleans do not count."""
    return is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)


def is_id(column: Column) -> bool:
    """Return whether a column of numbers looks like ids of annotators, by its name and values."""
    whole = not is_number(column) or bool((column.dropna() % 1 == 0).all())  # large integers are strings
    return bool(ID.search(str(column.name))) and whole


def as_text(value: Any) -> str:
    """Return a value as a string. 3, 3.0 and "3" are equal, because missing values turn ids into floats."""
    whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if whole else value)


def check_not_all_missing(column: Column) -> Column:
    """Return an input column of training rows; raise a `ValueError` if all of its values are missing.

    These may be the rows of a split, so the column may have values in other rows.
    """
    if column.isna().all():
        raise ValueError(
            f"Expected input column {column.name!r} to have a value in some row that a network is trained on, but all "
            "are missing: leave it out, or name it in `ignore`."
        )
    return column


def as_numbers(column: Column) -> NDArray[np.float64]:
    """Return a column of finite or missing numbers as floats, NaN where missing."""
    values = _plain(column).to_numpy(np.float64, na_value=np.nan)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(f"Expected column {column.name!r} to be finite numbers, but got {values[row]} in row {row}.")
    return values


def category_labels(column: Column) -> list[str]:
    """Return the distinct values of a column as strings; numbers are in numeric order, others sorted as strings."""
    if is_coded(column):
        used = pd.unique(column.cat.codes.to_numpy())
        return sorted(as_text(value) for value in column.cat.categories[used[used >= 0]])
    numeric = is_number(_plain(column))
    labels = [as_text(value) for value in _factorize(column, sort=numeric)[1]]
    return labels if numeric else sorted(set(labels))


def category_codes(column: Column, labels: list[str]) -> NDArray[np.signedinteger]:
    """Return the index of each value in the labels: −1 if it is not there, the number of labels if it is missing."""
    coded = is_coded(column)
    codes, values = (column.cat.codes.to_numpy(), column.cat.categories) if coded else _factorize(column)
    places = pd.Index(labels, dtype=object).get_indexer(pd.Index([as_text(value) for value in values], dtype=object))
    places = np.append(places, len(labels))  # a missing value has code −1, the last element
    return places.astype(np.min_scalar_type(-1 - len(labels)))[codes]


def code_categories(column: Column) -> NDArray[np.int64]:
    """Number the distinct values of a column from 0, in sorted order; missing values come last."""
    return category_codes(column, category_labels(column)).astype(np.int64)


def _factorize(column: Column, sort: bool = False) -> tuple[NDArray[np.intp], Any]:
    """Return the index of the value of each row among the distinct values, −1 if missing, and the distinct values."""
    column = _plain(column)
    if is_number(column):
        as_numbers(column)  # raises an error on infinity
    try:
        return pd.factorize(column, sort=sort)
    except TypeError:  # unhashable values
        raise ValueError(
            f"Expected column {column.name!r} to be numbers, strings, booleans or categories, "
            f"but got {column.iloc[0]!r} in row 0."
        ) from None


def is_coded(column: Column) -> bool:
    """Return whether a column is a pandas categorical."""
    return isinstance(column.dtype, pd.CategoricalDtype) and is_string_dtype(column.cat.categories.dtype)


def _plain(column: Column) -> Column:
    """Return a categorical column as a column of its values."""
    categorical = isinstance(column.dtype, pd.CategoricalDtype)
    return pd.Series(np.asarray(column), name=column.name) if categorical else column


# -------------------------------------------------------------------------------- vectors


def holds_vectors(column: Column) -> bool:
    """Return whether the first known value of a column is a list or an array of numbers."""
    if column.dtype != object:
        return False
    first = next((value for value in column if not is_missing(value)), None)
    return isinstance(first, list | tuple | np.ndarray) and to_vector(first) is not None


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


# -------------------------------------------------------------------------------- families of data types


def stored_as(kind: pa.DataType) -> str:
    """Return the family of an Arrow type: boolean, number, string, date, duration, vector, or the name of the type."""
    types = pa.types
    if types.is_dictionary(kind):
        return stored_as(kind.value_type)
    families = {
        "boolean": types.is_boolean,
        "number": lambda t: types.is_integer(t) or types.is_floating(t) or types.is_decimal(t),
        "string": lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t),
        "date": lambda t: types.is_timestamp(t) or types.is_date(t),
        "duration": types.is_duration,
        "vector": lambda t: is_list(t) and stored_as(t.value_type) == "number",
    }
    return next((name for name, belongs in families.items() if belongs(kind)), str(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list type."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def stored_in(column: Column) -> str:
    """Return the family of a pandas column's data type."""
    if column.dtype.kind in "mM":
        return "date" if column.dtype.kind == "M" else "duration"
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.categories.to_series()
    if holds_vectors(column):
        return "vector"
    return stored_as(pa.array(column.head(1), from_pandas=True).type) if column.dtype != object else "string"

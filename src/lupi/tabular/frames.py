"""Convert any table to a pandas DataFrame with distinct names and typed columns. Messages count rows from 0."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from lupi.tabular.containers import as_pandas
from lupi.tabular.kinds.vector import expand_vectors
from lupi.tabular.lazy import Columns, Frame
from lupi.tabular.values import Column, as_numbers

Table: TypeAlias = Any  # a table or column of pandas, polars, Arrow or Hugging Face, an array, or a list of rows


def as_frame(table: Table, prefix: str = "a", what: str = "privileged information") -> Frame:
    """Convert a table to a pandas DataFrame with distinct string names and typed columns.

    Object columns get the type of their values; durations become seconds, and dates become seconds since 1970.
    `Columns` are not converted.
    """
    if isinstance(table, Columns):
        return table.map(_convert_objects)
    table = as_pandas(table)
    if isinstance(table, pd.Series):
        table = table.to_frame(f"{prefix}0" if table.name in (None, "") else table.name)
    if isinstance(table, pd.DataFrame):
        frame = table.set_axis([str(name) for name in table.columns], axis="columns")
    else:
        # The object type keeps numbers in a list of mixed rows as numbers.
        array = np.asarray(table, dtype=object if isinstance(table, list | tuple) else None)
        if array.ndim not in (1, 2):
            got = f"a {array.ndim}-D array" if array.ndim else type(table).__name__
            raise ValueError(f"Expected {what} to be a DataFrame or a 1-D or 2-D array, but got {got}.")
        array = array[:, np.newaxis] if array.ndim == 1 else array
        frame = pd.DataFrame(array, columns=_default_names(array.shape[1], prefix), copy=False)
    for size, unit in zip(frame.shape, ("sample(s)", "feature(s)"), strict=True):
        if size == 0:  # scikit-learn checks for these last words
            raise ValueError(
                f"Expected {what} to have rows and columns, but got 0 {unit} (shape={frame.shape}) "
                "while a minimum of 1 is required."
            )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"Expected {what} to have distinct column names, but got {twice!r} twice.")
    others = [name for name, dtype in frame.dtypes.items() if dtype.kind not in "biuf"]
    typed = {str(name): _convert_objects(frame[name]) for name in others}
    return frame.assign(**typed) if typed else frame


def check_inputs(X: Table) -> Frame:
    """Return X as a frame; raise a `ValueError` that locates an infinite number.

    `Columns` are checked when they are read.
    """
    if isinstance(X, np.ndarray | list) and np.ndim(X) == 1:
        raise ValueError("Expected X to be a 2-D array, but got a 1-D array. Reshape your data.")
    frame = as_frame(X, "x", "X")
    if isinstance(frame, Columns):
        return frame.map(lambda column: _check_input(column, repr(column.name)))
    frame = expand_vectors(frame)
    if all(map(is_numeric_dtype, frame.dtypes)) and not np.isinf(as_matrix(frame)).any():
        return frame
    unnamed = list(frame.columns) == _default_names(frame.shape[1], "x")
    for position, (name, column) in enumerate(frame.items()):
        _check_input(column, str(position) if unnamed else repr(name))
    return frame


def _check_input(column: Column, name: str) -> Column:
    """Return a column; raise a `ValueError` that names the row of an infinite number."""
    if is_numeric_dtype(column.dtype):
        infinite = np.isinf(column.to_numpy(np.float64, na_value=0))
        if infinite.any():  # scikit-learn checks for these first words
            raise ValueError(f"Input X contains infinity in column {name}, row {int(np.argmax(infinite))}.")
    return column


def as_matrix(frame: pd.DataFrame) -> NDArray[Any]:
    """Return a frame of numbers as an array, without a copy if possible."""
    dtypes = set(frame.dtypes)
    same = len(dtypes) == 1 and isinstance(dtypes.pop(), np.dtype)
    return frame.to_numpy() if same else frame.to_numpy(np.float64, na_value=np.nan)


def iterate_matrix(frame: Frame) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield the numbers of a frame with their columns: all columns of a DataFrame at once, others one by one."""
    if isinstance(frame, pd.DataFrame):
        if not all(map(is_numeric_dtype, frame.dtypes)):
            frame = pd.DataFrame({name: as_numbers(column) for name, column in frame.items()})
        yield slice(0, frame.shape[1]), as_matrix(frame)
        return
    for place, (_, column) in enumerate(frame.items()):
        yield slice(place, place + 1), as_matrix(column.to_frame())


def match_columns(frame: Frame, columns: list[str], prefix: str, what: str) -> Frame:
    """Return the frame with the column names of training; for an array, only the number of columns is checked."""
    names = list(frame.columns)
    unnamed = names == _default_names(len(names), prefix) or columns == _default_names(len(columns), prefix)
    if unnamed and len(names) != len(columns):
        raise ValueError(f"Expected {what} with {len(columns)} columns, but got {len(names)}.")
    if not unnamed and names != columns:
        raise ValueError(f"Expected {what} with columns {columns}, but got {names}.")
    return frame if isinstance(frame, Columns) else frame.set_axis(columns, axis="columns")


def _default_names(count: int, prefix: str) -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


def _convert_objects(column: Column) -> Column:
    """Convert an object column to the type of its values, and durations and dates to seconds."""
    if column.dtype == object:
        # Missing values would turn integers into floats otherwise.
        known = column.reset_index(drop=True).dropna().infer_objects().convert_dtypes()
        column = known.reindex(range(len(column))).set_axis(column.index)
    if column.dtype.kind == "c":  # scikit-learn checks for these first words
        raise ValueError(
            f"Complex data not supported. Expected column {column.name!r} to be real numbers, but got {column.dtype}."
        )
    if column.dtype.kind == "M":
        column = column - pd.Timestamp(0, tz=column.dt.tz).as_unit(column.dt.unit)
    return column.dt.total_seconds() if column.dtype.kind == "m" else column

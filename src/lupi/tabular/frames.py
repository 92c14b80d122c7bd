"""Any table as typed pandas columns: from pandas, polars, Arrow, Hugging Face or arrays, at once or by column.

`Columns` are read when they are used, one at a time, so that a table need not fit into memory. Libraries that a table
comes from are not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, TypeAlias, overload

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse
from numpy.typing import NDArray

from lupi.tabular.values import Column

EXACT = 2**53
"""Floats hold all integers up to this one."""
NULLABLE = {pa.bool_(): pd.BooleanDtype(), pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
"""Types of pandas that hold missing values, and larger integers than floats do."""


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Convert an Arrow table to pandas, with decimals as numbers and dictionary columns as their values.

    Integers with missing values are floats, unless a float cannot hold them.
    """
    plain = [make_plain(name, column) for name, column in zip(table.column_names, table.columns, strict=True)]
    table = pa.Table.from_arrays(plain, table.column_names)
    frame: pd.DataFrame = table.to_pandas(date_as_object=False, ignore_metadata=True)
    for place, column in enumerate(table.columns):
        if column.type in NULLABLE and column.null_count and (pa.types.is_boolean(column.type) or is_large(column)):
            frame.isetitem(place, column.to_pandas(types_mapper=NULLABLE.get))
    return frame


def make_plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert dictionaries to their values, and decimals to numbers; refuse strings that are not UTF-8."""
    with explain_strings(name, column):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if is_string(column.type):
            column.validate(full=True)
    return convert_decimals(column) if pa.types.is_decimal(column.type) else column


def convert_decimals(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert decimals to floats, or to integers if all are whole, since ids must stay exact.

    Integers of more than 64 bits become strings.
    """
    try:
        whole = column.cast(pa.decimal256(76, 0))
    except pa.ArrowInvalid:  # some have fractions
        return column.cast(pa.float64())
    for kind in (pa.int64(), pa.uint64()):
        try:
            return whole.cast(kind)
        except pa.ArrowInvalid:
            continue
    return whole.cast(pa.string())


def is_large(column: pa.ChunkedArray) -> bool:
    """Return whether a column has integers that a float cannot hold."""
    ends = pc.min_max(column).as_py().values()
    return any(end is not None and abs(end) > EXACT for end in ends)


def to_column(name: str, column: pa.ChunkedArray) -> Column:
    """Convert an Arrow column to pandas as `to_pandas` does, but with strings as categories."""
    column = code_strings(column)
    if not (pa.types.is_dictionary(column.type) and is_string(column.type.value_type)):
        return to_pandas(pa.table({name: column}))[name]
    with explain_strings(name, column):
        column = column.unify_dictionaries()
        for chunk in column.chunks[:1]:  # all have the same
            chunk.dictionary.validate(full=True)
    return pd.Series(column.to_pandas(), name=name)


def code_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionary-encode a column of strings, chunk by chunk; return any other column unchanged."""
    if not is_string(column.type):
        return column
    return pa.chunked_array(
        [chunk.dictionary_encode() for chunk in column.chunks], pa.dictionary(pa.int32(), column.type)
    )


def is_string(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a string type."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


@contextmanager
def explain_strings(name: str, column: pa.ChunkedArray) -> Iterator[None]:
    """Turn an Arrow error into one that names the first string of a column that is not UTF-8."""
    try:
        yield
    except pa.ArrowException as error:
        for row, value in enumerate(column if "UTF8" in str(error) else ()):  # other columns may not be iterable
            try:
                value.as_py()
            except UnicodeDecodeError as wrong:
                got = f"{wrong.object[:50]!r} in row {row}"
                raise ValueError(f"Expected column {name!r} to be UTF-8, but got {got}.") from error
        raise


def as_pandas(table: Any) -> Any:
    """Convert a table or column of another library, or records, to pandas; return anything else unchanged.

    Records are a list of dicts, one dict of columns, or one of values, which is a single row.
    """
    library = type(table).__module__.partition(".")[0]
    if library == "datasets" and isinstance(table, Mapping):
        raise ValueError(f"Expected one split of a Hugging Face dataset, but got {', '.join(map(str, table))}.")
    if library == "datasets" and not hasattr(table, "to_pandas"):
        return list(table)  # a column
    if isinstance(table, Mapping):
        rows = {name: len(values) for name, values in table.items() if pd.api.types.is_list_like(values)}
        if len(rows) == len(table) and len(set(rows.values())) > 1:
            raise ValueError(f"Expected columns of one length, but got {rows}.")
        return pd.DataFrame(dict(table) if rows.keys() == table.keys() else [table])
    if isinstance(table, list) and table and all(isinstance(row, Mapping) for row in table):
        return pd.DataFrame(table)
    if library == "polars" and hasattr(table, "collect"):
        table = table.collect()  # a LazyFrame
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return to_pandas(table)
    return table.to_pandas() if library in ("polars", "datasets", "pyarrow") else table


# -------------------------------------------------------------------------------- columns that are read one by one


class Columns:
    """A replacement for a DataFrame whose columns are read whenever they are used.

    Strings are read as pandas categoricals, with categories in order of appearance.
    """

    def __init__(self, read: Callable[[str], Column], names: Sequence[str], rows: int) -> None:
        self.read, self.columns, self.shape = read, list(names), (rows, len(names))

    @classmethod
    def of(cls, table: pa.Table) -> Columns:
        """Return the columns of an Arrow table, which may be larger than memory if it is memory-mapped."""
        return cls(lambda name: to_column(name, table.column(name)), table.column_names, table.num_rows)

    def __len__(self) -> int:
        return self.shape[0]

    @overload
    def __getitem__(self, name: str) -> Column: ...

    @overload
    def __getitem__(self, name: list[str]) -> Columns: ...

    def __getitem__(self, name: str | list[str]) -> Column | Columns:
        """Return a column, or some of the columns."""
        return self.read(name) if isinstance(name, str) else Columns(self.read, name, len(self))

    def items(self) -> Iterator[tuple[str, Column]]:
        """Return names and columns."""
        return ((name, self[name]) for name in self.columns)

    def map(self, change: Callable[[Column], Column]) -> Columns:
        """Return columns to which a function is applied after they have been read."""
        return Columns(lambda name: change(self.read(name)), self.columns, len(self))

    def take(self, rows: NDArray[Any]) -> Columns:
        """Return some of the rows, by their numbers."""
        return Columns(lambda name: self.read(name).iloc[rows], self.columns, len(rows))

    def to_frame(self) -> pd.DataFrame:
        """Read all columns into a DataFrame, in which strings are strings."""
        return pd.DataFrame({name: spell_out(column) for name, column in self.items()}, columns=self.columns)


Frame: TypeAlias = pd.DataFrame | Columns


def by_column(table: Any) -> Any:
    """Convert an Arrow table to `Columns` and a table of another library to pandas; return anything else unchanged.

    Arrow tables with lists, which become several columns, are converted to pandas too.
    """
    if scipy.sparse.issparse(table):
        raise TypeError("Expected dense data, but got a sparse matrix, which is not supported.")
    if (
        isinstance(table, pa.Table)
        and len(set(table.column_names)) == table.num_columns
        and not any(map(pa.types.is_nested, table.schema.types))
    ):
        return Columns.of(table)
    return as_pandas(table)


def spell_out(column: Column) -> Column:
    """Convert a categorical column to a column of strings."""
    return column.astype(column.cat.categories.dtype) if isinstance(column.dtype, pd.CategoricalDtype) else column


# -------------------------------------------------------------------------------- typed columns

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
        named = all(isinstance(name, str) for name in table.columns)
        frame = table if named else table.set_axis([str(name) for name in table.columns], axis="columns")
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
    others = {str(name): frame[name] for name, dtype in frame.dtypes.items() if dtype.kind not in "biuf"}
    typed = {name: _convert_objects(column) for name, column in others.items()}
    changed = {name: column for name, column in typed.items() if column is not others[name]}
    return frame.assign(**changed) if changed else frame


def match_columns(frame: Frame, columns: list[str], prefix: str, what: str) -> Frame:
    """Return the frame with the columns of training, by name; for an array, only their number is checked."""
    names = list(frame.columns)
    if names == columns:
        return frame
    if sorted(names) == sorted(columns):
        return frame[columns]
    unnamed = names == _default_names(len(names), prefix) or columns == _default_names(len(columns), prefix)
    if not unnamed:
        raise ValueError(f"Expected {what} with columns {columns}, but got {names}.")
    if len(names) != len(columns):
        raise ValueError(f"Expected {what} with {len(columns)} columns, but got {len(names)}.")
    return frame if isinstance(frame, Columns) else frame.set_axis(columns, axis="columns")


def _default_names(count: int, prefix: str) -> list[str]:
    return [f"{prefix}{i}" for i in range(count)]


def _convert_objects(column: Column) -> Column:
    """Convert an object column to the type of its values, and durations and dates to seconds."""
    if column.dtype == object:
        # Missing values would turn integers into floats otherwise.
        known = column.reset_index(drop=True).dropna().infer_objects().convert_dtypes()
        if len(known) and all(isinstance(value, Decimal) for value in known):
            known = to_pandas(pa.table({"": pa.array(known)}))[""].set_axis(known.index).convert_dtypes()
        column = known.reindex(range(len(column))).set_axis(column.index)
    if column.dtype.kind == "c":  # scikit-learn checks for these first words
        raise ValueError(
            f"Complex data not supported. Expected column {column.name!r} to be real numbers, but got {column.dtype}."
        )
    return to_seconds(column)


def to_seconds(column: Column) -> Column:
    """Convert durations to seconds, and dates to seconds since 1970; return other columns unchanged."""
    if column.dtype.kind == "M":
        column = column - pd.Timestamp(0, tz=column.dt.tz).as_unit(column.dt.unit)
    return column.dt.total_seconds() if column.dtype.kind == "m" else column

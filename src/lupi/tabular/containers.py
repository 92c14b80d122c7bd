"""Convert tables of polars, Arrow and Hugging Face Datasets to pandas, without importing these libraries."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

EXACT = 2**53
"""Floats hold all integers up to this one."""
NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
"""Types of pandas that hold missing values and larger integers."""


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Convert an Arrow table to pandas, with decimals as floats and dictionary columns as their values.

    Integers with missing values are floats, unless a float cannot hold them.
    """
    for place, field in enumerate(table.schema):
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        plain = pa.float64() if pa.types.is_decimal(plain) else plain
        if plain != field.type:
            with explain_strings(field.name, table.column(place)):
                table = table.set_column(place, field.name, table.column(place).cast(plain))
        if is_string(plain):
            with explain_strings(field.name, table.column(place)):
                table.column(place).validate(full=True)
    frame: pd.DataFrame = table.to_pandas(date_as_object=False, ignore_metadata=True)
    for place, column in enumerate(table.columns):
        if column.type in NULLABLE and column.null_count and is_large(column):
            frame.isetitem(place, column.to_pandas(types_mapper=NULLABLE.get))
    return frame


def is_large(column: pa.ChunkedArray) -> bool:
    """Return whether a column has integers that a float cannot hold."""
    ends = pc.min_max(column).as_py().values()
    return any(end is not None and abs(end) > EXACT for end in ends)


def to_column(name: str, column: pa.ChunkedArray) -> "pd.Series[Any]":
    """Convert an Arrow column to pandas as `to_pandas` does, but with strings as categories."""
    column = code_strings(column)
    if not (pa.types.is_dictionary(column.type) and is_string(column.type.value_type)):
        return to_pandas(pa.table({name: column}))[name]
    return pd.Series(join_codes(name, column), name=name)


def code_strings(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dictionary-encode a column of strings, chunk by chunk; return any other column unchanged."""
    if not is_string(column.type):
        return column
    return pa.chunked_array(
        [chunk.dictionary_encode() for chunk in column.chunks], pa.dictionary(pa.int32(), column.type)
    )


def join_codes(name: str, column: pa.ChunkedArray) -> pd.Categorical:
    """Convert a column of Arrow dictionaries, which may differ between chunks, to a pandas categorical."""
    with explain_strings(name, column):
        column = column.unify_dictionaries()
        distinct = column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())
        distinct.validate(full=True)
    categories = pd.Index(distinct.to_pandas())
    codes = np.empty(len(column), np.min_scalar_type(-max(1, len(categories))))
    start = 0
    for chunk in column.chunks:
        codes[start : start + len(chunk)] = chunk.indices.fill_null(-1).to_numpy()
        start += len(chunk)
    return pd.Categorical.from_codes(codes, categories)


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
    """Convert a table or column of another library to pandas; return anything else unchanged."""
    library = type(table).__module__.partition(".")[0]
    if library == "datasets" and isinstance(table, Mapping):
        raise ValueError(f"Expected one split of a Hugging Face dataset, but got {', '.join(map(str, table))}.")
    if library == "datasets" and not hasattr(table, "to_pandas"):
        return list(table)  # a column
    if library == "polars" and hasattr(table, "collect"):
        table = table.collect()  # a LazyFrame
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table):
        return to_pandas(table)
    return table.to_pandas() if library in ("polars", "datasets", "pyarrow") else table

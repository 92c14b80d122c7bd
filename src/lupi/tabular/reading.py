"""Read tables: CSV, TSV, JSON, Excel, Parquet and folders of Parquet, whole or in batches."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pyarrow as pa

from lupi.tabular.formats import open_file
from lupi.tabular.formats.base import TableFile, explain_unreadable


def open_table(path: str | Path, types: Mapping[str, pa.DataType] | None = None) -> TableFile:
    """Open a table, reading only the names and types of its columns where that is possible.

    Parameters
    ----------
    path : str or Path
        A CSV, TSV, JSON, JSON Lines, Excel or Parquet file, or a folder of Parquet files.
    types : mapping, optional
        Types of columns of a CSV or JSON Lines file. The types of other columns are inferred.
    """
    return open_file(path, types)


def read_schema(table: TableFile) -> pa.Schema:
    """Return the names and types of a table's columns."""
    with explain_unreadable(table.path):
        schema = table.schema
        _ = schema.names  # decodes them
    return schema


def read_table(path: str | Path, columns: Sequence[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    r"""Read columns of a table into memory.

    Parameters
    ----------
    path : str or Path
        The table.
    columns : sequence of str
        Their names.
    types : mapping, optional
        Types of columns of a CSV file, such as strings for ids, so that 007 does not become 7.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "table.csv")
    ...     _ = file.write_text("id,label\n007,yes\n008,no\n")
    ...     read_table(file, ["id", "label"], {"id": pa.string()}).to_pylist()
    [{'id': '007', 'label': 'yes'}, {'id': '008', 'label': 'no'}]
    """
    table = open_table(path, types)
    with explain_unreadable(path):
        rows = table.read(columns)
    if rows.num_rows == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    return rows


def count_rows(table: TableFile) -> int:
    """Count the rows of a table, and refuse an empty one."""
    with explain_unreadable(table.path):
        rows = table.count_rows()
    if rows == 0:
        raise ValueError(f"Expected {table.path} to have rows, but it is empty.")
    return rows


def read_batches(table: TableFile, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read a table of any length in batches, in order, with bounded memory where its format allows it."""
    with explain_unreadable(table.path):
        yield from table.batches(columns)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Convert an Arrow table to pandas; decimals become floats, dictionaries their values.

    Examples
    --------
    >>> to_pandas(pa.table({"age": [20, 40]}))["age"].tolist()
    [20, 40]
    """
    for place, field in enumerate(table.schema):
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        plain = pa.float64() if pa.types.is_decimal(plain) else plain
        if plain != field.type:
            with explain_strings(field.name, table.column(place)):
                table = table.set_column(place, field.name, table.column(place).cast(plain))
        if pa.types.is_string(plain) or pa.types.is_large_string(plain):
            with explain_strings(field.name, table.column(place)):
                table.column(place).validate(full=True)
    frame: pd.DataFrame = table.to_pandas(date_as_object=False, ignore_metadata=True)
    return frame


@contextmanager
def explain_strings(name: str, column: pa.ChunkedArray) -> Iterator[None]:
    """Turn an error of Arrow into one that names the first string of a column that is not UTF-8."""
    try:
        yield
    except pa.ArrowException as error:
        for row, value in enumerate(column):
            try:
                value.as_py()
            except UnicodeDecodeError as wrong:
                got = f"{wrong.object[:50]!r} in row {row}"
                raise ValueError(f"Expected column {name!r} to be UTF-8, but got {got}.") from error
        raise

"""Read tables: CSV, TSV, JSON, Excel, Parquet and folders of Parquet, whole or in batches."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lupi.tabular.formats import open_file
from lupi.tabular.formats.base import TableFile, explain_unreadable
from lupi.tabular.frames import Columns, code_strings, to_column
from lupi.tabular.values import Column


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
        Names of the columns.
    types : mapping, optional
        Types of columns of a CSV file, for example strings for ids, so that 007 does not become 7.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "table.csv")
    ...     _ = file.write_text("id,label\n007,yes\n008,no\n")
    ...     read_table(file, ["id", "label"], {"id": pa.string()}).to_pylist()
    [{'id': '007', 'label': 'yes'}, {'id': '008', 'label': 'no'}]
    """
    table = open_file(path, types)
    with explain_unreadable(path):
        rows = table.read(columns)
    if rows.num_rows == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    return rows


def open_columns(
    path: str | Path, columns: Sequence[str], types: Mapping[str, pa.DataType] | None = None
) -> tuple[Columns, pa.Schema]:
    """Return columns of a table that are read when they are used, and their types.

    The parameters are those of `read_table`. A Parquet file is read column by column, other formats at once.
    """
    with explain_unreadable(path):
        table = open_file(path, types).by_column(columns)

    def read(name: str) -> Column:
        batches = [code_strings(rows.column(0)) for rows in read_batches(table, [name])]
        column = to_column(name, pa.chunked_array([chunk for batch in batches for chunk in batch.chunks]))
        del batches
        pa.default_memory_pool().release_unused()  # Arrow would keep the memory for the next column
        return column

    return Columns(read, columns, count_rows(table)), read_schema(table)


def count_rows(table: TableFile) -> int:
    """Count the rows of a table; raise a `ValueError` if it is empty."""
    with explain_unreadable(table.path):
        rows = table.count_rows()
    if rows == 0:
        raise ValueError(f"Expected {table.path} to have rows, but it is empty.")
    return rows


def read_batches(table: TableFile, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read a table of any length in batches, in order, with bounded memory where its format allows it."""
    with explain_unreadable(table.path):
        yield from table.batches(columns)

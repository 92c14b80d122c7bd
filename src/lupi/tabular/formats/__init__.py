"""Read tables: CSV, TSV, JSON, Excel, Parquet and folders of Parquet, whole, by column or in batches.

There is one class per file format. To add one, subclass `TableFile` and add it to `FORMATS`.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from lupi.tabular.formats.base import TableFile, check_rows, explain_unreadable
from lupi.tabular.formats.json_files import JsonFile, JsonLinesFile
from lupi.tabular.formats.parquet import ParquetFile
from lupi.tabular.formats.separated import SeparatedFile
from lupi.tabular.formats.workbook import Workbook
from lupi.tabular.frames import Columns

FORMATS: tuple[type[SeparatedFile | JsonLinesFile | JsonFile | ParquetFile | Workbook], ...]
FORMATS = (SeparatedFile, JsonLinesFile, JsonFile, Workbook, ParquetFile)
"""All file formats."""


def open_file(path: str | Path, types: Mapping[str, pa.DataType] | None = None) -> TableFile:
    """Open a table in a file or folder, reading only the names and types of its columns where possible."""
    path = Path(path)
    if not os.fsencode(path).decode("utf-8", "ignore") == str(path):  # Arrow accepts only UTF-8 paths
        raise ValueError(f"Expected the path of a table to be UTF-8, but got {os.fsencode(path)!r}.")
    if not path.exists():
        raise FileNotFoundError(f"Expected a table, but there is no {path}.")
    name = path.name.lower()
    found = ParquetFile if path.is_dir() else next((kind for kind in FORMATS if name.endswith(kind.suffixes)), None)
    if found is None:
        known = ", ".join(kind.suffixes[0] for kind in FORMATS)
        raise ValueError(f"Expected a table to be one of {known} or a folder of .parquet, but got {path}.")
    if path.is_file():
        check_rows(path, path.stat().st_size)
    with explain_unreadable(path):
        return found(path, types or {})


def folder_of(path: str | Path) -> Path:
    """Return the folder that paths in a table are relative to: the table's folder, or the table if it is a folder."""
    path = Path(path)
    return path if path.is_dir() else path.parent


def read_schema(table: TableFile) -> pa.Schema:
    """Return the names and types of a table's columns."""
    with explain_unreadable(table.path):
        schema = table.schema
        _ = schema.names  # decodes them
    return schema


def read_table(
    path: str | Path, columns: Sequence[str] | None = None, types: Mapping[str, pa.DataType] | None = None
) -> pa.Table:
    r"""Read a table, or some of its columns, into memory."""
    table = open_file(path, types)
    with explain_unreadable(path):
        rows = table.read(table.schema.names if columns is None else columns)
    check_rows(path, rows.num_rows)
    return rows


def open_columns(
    path: str | Path, columns: Sequence[str], types: Mapping[str, pa.DataType] | None = None
) -> tuple[Columns, pa.Schema]:
    """Return columns of a table that are read when they are used, and their types.

    The parameters are those of `read_table`. A Parquet file is read column by column, other formats at once.
    """
    with explain_unreadable(path):
        found, kinds = open_file(path, types).by_column(columns)
    check_rows(path, len(found))
    return found, kinds


def count_rows(table: TableFile) -> int:
    """Count the rows of a table; raise a `ValueError` if it is empty."""
    with explain_unreadable(table.path):
        return check_rows(table.path, table.count_rows())


def read_batches(table: TableFile, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Read a table of any length in batches, in order, with bounded memory where its format allows it."""
    with explain_unreadable(table.path):
        yield from table.batches(columns)

"""File formats of tables, one class each. To add a format, subclass `TableFile` and add it to `FORMATS`."""

import os
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from lupi.tabular.formats.base import TableFile, explain_unreadable
from lupi.tabular.formats.json_files import JsonFile, JsonLinesFile
from lupi.tabular.formats.parquet import ParquetFile
from lupi.tabular.formats.separated import SeparatedFile
from lupi.tabular.formats.workbook import Workbook

FORMATS: tuple[type[SeparatedFile | JsonLinesFile | JsonFile | ParquetFile | Workbook], ...] = (
    SeparatedFile,
    JsonLinesFile,
    JsonFile,
    Workbook,
    ParquetFile,
)
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
    if not path.is_dir() and path.stat().st_size == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    with explain_unreadable(path):
        return found(path, types or {})

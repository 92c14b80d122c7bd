"""Excel workbooks. The first sheet is read, and its first row holds the column names."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow.csv import ConvertOptions

from lupi.tabular.formats.base import MemoryTable


class Workbook(MemoryTable):
    """An Excel workbook, whose first sheet is read as a whole. This needs the extra `excel`."""

    suffixes = (".xlsx",)

    def __init__(self, path: Path, types: Mapping[str, pa.DataType]) -> None:  # noqa: ARG002  cells have types
        super().__init__(path, read_sheet(path))


def read_sheet(path: Path) -> pa.Table:
    """Read the first sheet of a workbook."""
    try:
        import openpyxl  # noqa: F401  pandas needs it
    except ImportError as error:
        raise ImportError(f"Expected the extra `excel` (pip install 'lupi[excel]'), but {error}.") from error
    try:
        frame = pd.read_excel(  # 007 stays a string, and the same strings are missing as in CSV files
            path, engine="openpyxl", dtype=object, keep_default_na=False, na_values=ConvertOptions().null_values
        )
    except Exception as error:  # the reader may raise anything for other files
        raise ValueError(f"Expected {path} to be a readable table, but got: {error}.") from error
    frame = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    return pa.Table.from_pandas(frame.convert_dtypes(), preserve_index=False).replace_schema_metadata()

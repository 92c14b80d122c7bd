"""Excel workbooks. The first sheet is read, and its first row holds the column names."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from lupi._internal.checks import import_extra
from lupi.tabular.formats.base import MISSING, MemoryTable, check_distinct, note_missing

NAMES_OF_MISSING = frozenset(MISSING.to_pylist())


class Workbook(MemoryTable):
    """An Excel workbook, whose first sheet is read as a whole. This needs the extra `excel`.

    As in CSV files, empty cells are missing, and so are names such as NA in columns without other strings.
    """

    suffixes = (".xlsx",)

    def __init__(self, path: Path, types: Mapping[str, pa.DataType]) -> None:  # noqa: ARG002  cells have types
        self.names_of_missing: dict[str, tuple[bool, Counter[str]]] = {}
        frame = read_sheet(path)
        check_distinct(path, [str(name) for name in frame])
        columns = {str(name): self._clean(str(name), list(frame[name])) for name in frame}
        super().__init__(path, pa.Table.from_pandas(pd.DataFrame(columns).convert_dtypes(), preserve_index=False))
        self.table = self.table.replace_schema_metadata()

    @property
    def note(self) -> str | None:
        """A sentence about names of missing values."""
        return note_missing(self.names_of_missing)

    def _clean(self, name: str, values: list[Any]) -> "pd.Series[Any]":
        """Return the cells of a column with one type that Arrow can hold, and with missing values."""
        if any(isinstance(value, int) and abs(value) >= 2**63 for value in values):
            values = [float(value) if type(value) is int else value for value in values]
        found = Counter(value for value in values if isinstance(value, str) and value in NAMES_OF_MISSING)
        if found:
            others = [value for value in values if value is not None and value not in found]
            missing = bool(others) and not any(isinstance(value, str) for value in others)
            self.names_of_missing[name] = missing, found
            values = [None if missing and value in found else value for value in values]
        if any(isinstance(value, str) for value in values):  # as in CSV files, beside which all others are texts
            values = [None if value is None else str(value) for value in values]
        return pd.Series(values, dtype=object)


def read_sheet(path: Path) -> pd.DataFrame:
    """Read the cells of the first sheet of a workbook, None where they are empty."""
    import_extra("openpyxl", "excel")  # pandas needs it
    try:
        options: Any = {"header": None, "dtype": object, "keep_default_na": False, "na_values": [""]}  # 007 stays
        cells: pd.DataFrame = pd.read_excel(path, engine="openpyxl", **options)
    except Exception as error:  # the reader may raise anything for other files
        raise ValueError(f"Expected {path} to be a readable table, but got: {error}.") from error
    if cells.empty:
        return cells
    names = [f"Unnamed: {place}" if pd.isna(name) else str(name) for place, name in enumerate(cells.iloc[0])]
    frame = cells[1:].reset_index(drop=True).set_axis(names, axis="columns")
    return frame.astype(object).where(frame.notna(), None)

"""Columns that are read when they are used, one at a time, so that a table need not fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from lupi.tabular.containers import as_pandas, to_column
from lupi.tabular.values import Column


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

    def __getitem__(self, name: str) -> Column:
        return self.read(name)

    def items(self) -> Iterator[tuple[str, Column]]:
        """Return names and columns."""
        return ((name, self[name]) for name in self.columns)

    def select(self, names: Sequence[str]) -> Columns:
        """Return some of the columns."""
        return Columns(self.read, names, len(self))

    def map(self, change: Callable[[Column], Column]) -> Columns:
        """Return columns to which a function is applied after they have been read."""
        return Columns(lambda name: change(self.read(name)), self.columns, len(self))

    def take(self, rows: NDArray[Any]) -> Columns:
        """Return some of the rows, by their numbers."""
        return Columns(lambda name: self.read(name).iloc[rows], self.columns, len(rows))

    def expand(self, parts: Mapping[str, pd.DataFrame]) -> Columns:
        """Return the columns with some of them replaced by several columns in memory."""
        names = [each for name in self.columns for each in (parts[name].columns if name in parts else [name])]
        place = {each: part for part in parts.values() for each in part.columns}
        return Columns(lambda name: place[name][name] if name in place else self.read(name), names, len(self))

    def to_frame(self) -> pd.DataFrame:
        """Read all columns into a DataFrame, in which strings are strings."""
        return pd.DataFrame({name: spell_out(column) for name, column in self.items()}, columns=self.columns)


Frame: TypeAlias = pd.DataFrame | Columns
FrameType = TypeVar("FrameType", pd.DataFrame, Columns)


def by_column(table: Any) -> Any:
    """Convert an Arrow table to `Columns` and a table of another library to pandas; return anything else unchanged.

    Arrow tables with lists, which become several columns, are converted to pandas too.
    """
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

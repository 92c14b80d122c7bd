"""The base class of file formats: names and types of columns, all rows at once, or rows in batches."""

import gzip
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, ClassVar

import pyarrow as pa
import pyarrow.csv

from lupi.tabular.frames import Columns, code_strings

ROWS_AT_ONCE = 65_536
"""Number of rows of a batch, for formats that can choose it."""
MISSING = pa.array([name for name in pa.csv.ConvertOptions().null_values if name])
"""Names that stand for missing values in columns of numbers, dates or booleans of files without types."""


class TableFile(ABC):
    """A table in a file or folder."""

    suffixes: ClassVar[tuple[str, ...]]
    """Suffixes of file names, in lower case."""

    def __init__(self, path: Path, types: Mapping[str, pa.DataType]) -> None:
        self.path, self.types = path, types

    @property
    def note(self) -> str | None:
        """A sentence about properties of the file that differ from what its name suggests; None if there are none."""
        return None

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Names and types of the columns; the type is null if the beginning of the file does not show it."""

    @abstractmethod
    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of all rows, with types that fit all rows."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read columns in batches, in order, with bounded memory where the format allows it."""

    @abstractmethod
    def count_rows(self) -> int:
        """Count the rows."""

    def by_column(self, columns: Sequence[str]) -> tuple[Columns, pa.Schema]:
        """Return columns that are converted when they are used, and their types, which fit all rows.

        By default, they are in memory, with dictionary-encoded strings.
        """
        table = self.read(columns)
        table = pa.table({name: code_strings(table.column(name)) for name in columns})
        return Columns.of(table), table.schema


class MemoryTable(TableFile):
    """A table that is read as a whole, for formats that cannot be read in parts."""

    def __init__(self, path: Path, table: pa.Table) -> None:
        super().__init__(path, {})
        self.table = table

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.table.schema

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return columns of all rows."""
        return self.table.select(list(columns))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Return columns in batches."""
        yield from map(pa.Table.from_batches, ([batch] for batch in self.read(columns).to_batches(ROWS_AT_ONCE)))

    def count_rows(self) -> int:
        """Count the rows."""
        return int(self.table.num_rows)


def note_missing(counts: Mapping[str, tuple[bool, Counter[str]]]) -> str | None:
    """Say which names are read as missing values, and which are not, given both and their counts for each column."""
    notes = []
    advice = "; leave cells empty where the value is missing"
    for wanted, what, end in ((True, "Missing", ""), (False, "Not missing but a value", advice)):
        names = [
            f"{name!r} in {count:,} row{'s' if count > 1 else ''} of {column!r}"
            for column, (is_missing, found) in counts.items()
            for name, count in sorted(found.items())
            if is_missing == wanted
        ]
        notes += [f"{what}: {list_some(names)}{end}."] if names else []
    return " ".join(notes) or None


def list_some(names: Sequence[str], most: int = 5) -> str:
    """List the first names, and count the others."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def check_rows(path: str | Path, rows: int) -> int:
    """Return the number of rows of a table; raise a `ValueError` if it is empty."""
    if rows == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    return rows


@contextmanager
def explain_unreadable(path: str | Path) -> Iterator[None]:
    """Turn an error of Arrow or gzip into a sentence that says why a file cannot be read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected {path} to be a readable table, but got: column names that are not UTF-8."
        ) from error
    except (EOFError, zlib.error, pa.ArrowException, OSError, KeyError) as error:
        why = " ".join(str(error).split()).rpartition("Invalid: ")[2].removesuffix(".")  # keep only the cause
        raise ValueError(f"Expected {path} to be a readable table, but got: {why[:300]}.") from error


def open_binary(path: Path) -> IO[bytes]:
    """Open a file, decompressed if it is a .gz file."""
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def read_text(path: Path, size: int = -1) -> str:
    """Read the first `size` bytes of a file, or all, as UTF-8; a .gz file is decompressed."""
    with explain_unreadable(path), open_binary(path) as file:
        return file.read(size).decode("utf-8-sig", "replace")


def check_distinct(path: Path, names: Sequence[str]) -> None:
    """Raise a `ValueError` if columns share a name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"Expected {path} to have distinct column names, but got {twice[0]!r} twice.")

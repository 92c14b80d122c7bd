"""CSV and TSV files. The separator is inferred from the first lines, the types from all lines."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset

from lupi.tabular.formats.base import TableFile, read_text

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
BEGINNING, BLOCK = 2**20, 2**22
"""Number of bytes from which names and types are inferred, and of a batch."""


@dataclass(frozen=True)
class Dialect:
    """The separator of values and the decimal point of a file."""

    separator: str = ","
    decimal: str = "."


class SeparatedFile(TableFile):
    """A CSV or TSV file, possibly compressed with gzip."""

    suffixes = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

    @cached_property
    def dialect(self) -> Dialect:
        """The dialect of the file."""
        return sniff(read_text(self.path, BEGINNING), default="\t" if ".tsv" in self.path.name.lower() else ",")

    @property
    def note(self) -> str | None:
        """A sentence about the separator and decimal point, unless they are what the file name suggests."""
        expected = Dialect("\t" if ".tsv" in self.path.name.lower() else ",")
        if self.dialect == expected:
            return None
        decimals = " with decimal commas" if self.dialect.decimal == "," else ""
        return f"Table: values separated by {SEPARATORS[self.dialect.separator]}{decimals}."

    def _options(self, size: int, columns: Sequence[str] | None = None) -> tuple[Any, Any, Any]:
        """Return the options to read, parse and convert in blocks of `size` bytes."""
        types = {name: kind for name, kind in self.types.items() if columns is None or name in columns}
        return (
            pa.csv.ReadOptions(block_size=size),
            pa.csv.ParseOptions(delimiter=self.dialect.separator, newlines_in_values=True),
            pa.csv.ConvertOptions(
                column_types=types,
                strings_can_be_null=True,
                decimal_point=self.dialect.decimal,
                include_columns=None if columns is None else list(columns),
            ),
        )

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns, from the first megabyte."""
        with pa.csv.open_csv(self.path, *self._options(BEGINNING)) as reader:
            schema = reader.schema
        twice = [name for name in schema.names if schema.names.count(name) > 1]
        if twice:
            raise ValueError(f"Expected {self.path} to have distinct column names, but got {twice[0]!r} twice.")
        return schema

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of all rows; later blocks may change the type inferred from earlier ones."""
        _ = self.schema  # checks for duplicate names, of which Arrow would read the first
        return pa.csv.read_csv(self.path, *self._options(BLOCK, columns))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read columns in batches with the types of `schema`; columns of unknown type are read as strings."""
        read, parse, convert = self._options(BLOCK, columns)
        kinds = {name: self.schema.field(name).type for name in columns}
        convert.column_types = {name: pa.string() if pa.types.is_null(kind) else kind for name, kind in kinds.items()}
        with pa.csv.open_csv(self.path, read, parse, convert) as reader:
            yield from map(pa.Table.from_batches, ([batch] for batch in reader))

    def count_rows(self) -> int:
        """Count the rows without converting their values."""
        read, parse, convert = self._options(BLOCK)
        file_format = pa.dataset.CsvFileFormat(parse, read_options=read, convert_options=convert)
        return int(pa.dataset.dataset(self.path, format=file_format).count_rows())


def is_separated(path: str | Path) -> bool:
    """Return whether a file is a CSV or TSV file, whose columns can always be read as strings."""
    return Path(path).name.lower().endswith(SeparatedFile.suffixes)


def sniff(text: str, default: str = ",") -> Dialect:
    r"""Infer the separator and the decimal point from the first lines of a file.

    A separator must give all lines the same number of values, two or more. If the default does, it is used; otherwise
    the separator that gives the most values is used.
    """
    widths = {separator: count_values(text, separator) for separator in dict.fromkeys((default, *SEPARATORS))}
    possible = [separator for separator, width in widths.items() if width > 1]
    if default in possible or not possible:
        return Dialect(default)
    separator = max(possible, key=lambda separator: widths[separator])
    values = [value for line in parse_lines(text, separator)[1:] for value in line]
    commas, points = (sum(bool(re.fullmatch(rf"[+-]?\d+{sign}\d+", v)) for v in values) for sign in (",", r"\."))
    return Dialect(separator, "," if commas and not points else ".")


def count_values(text: str, separator: str) -> int:
    """Return the number of values per line, or 1 if lines differ."""
    widths = {len(line) for line in parse_lines(text, separator)}
    return widths.pop() if len(widths) == 1 else 1


def parse_lines(text: str, separator: str, count: int = 100) -> list[list[str]]:
    """Split the first lines of a text, without blank lines and, if there are others, without a truncated last line."""
    whole = text if len(text) < BEGINNING // 2 else text[: text.rfind("\n") + 1]
    try:
        lines = list(islice(csv.reader(whole.splitlines(True), delimiter=separator), count))
    except csv.Error:
        return []
    return [line for line in lines if line]

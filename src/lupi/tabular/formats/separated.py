"""CSV and TSV files. Separator, decimal point and quotes are inferred from the lines, the types from all values."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset

from lupi.tabular.formats.base import (
    MISSING,
    TableFile,
    check_distinct,
    explain_unreadable,
    note_missing,
    open_binary,
    read_text,
)

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
BEGINNING, BLOCK = 2**20, 2**22
"""Number of bytes from which names and types are inferred, and of a batch."""
MAYBE_LONG = re.compile(r"\d{19}")
"""Whole numbers that may have more than 64 bits."""


@dataclass(frozen=True)
class Dialect:
    """The separator of values and the decimal point of a file."""

    separator: str = ","
    decimal: str = "."


class Quotes(NamedTuple):
    """Whether quotes enclose values or are part of them, and a note on what is unusual."""

    enclose: bool
    note: str | None = None


class SeparatedFile(TableFile):
    """A CSV or TSV file, possibly compressed with gzip.

    Empty cells are missing. In columns of numbers, dates and booleans, so are names such as NA; strings may have any
    value.
    """

    suffixes = (".csv", ".csv.gz", ".tsv", ".tsv.gz")

    @cached_property
    def dialect(self) -> Dialect:
        """The dialect of the file."""
        return sniff(read_text(self.path, BEGINNING), default="\t" if ".tsv" in self.path.name.lower() else ",")

    @cached_property
    def quotes(self) -> Quotes:
        """What quotes mean in the file."""
        status = self.path.stat()
        return find_quotes(self.path, self.dialect.separator, status.st_mtime_ns, status.st_size)

    @property
    def note(self) -> str | None:
        """Sentences about an unexpected separator, decimal point or quotes, and about names of missing values."""
        with explain_unreadable(self.path):
            notes = [self.quotes.note, note_missing(self._count_missing())]
        if self.dialect != Dialect("\t" if ".tsv" in self.path.name.lower() else ","):
            decimals = " with decimal commas" if self.dialect.decimal == "," else ""
            notes.insert(0, f"Table: values separated by {SEPARATORS[self.dialect.separator]}{decimals}.")
        return " ".join(filter(None, notes)) or None

    def _count_missing(self) -> dict[str, tuple[bool, Counter[str]]]:
        """Count the names of missing values in each column, and say whether they are read as missing."""
        read, parse, convert = self._options(BLOCK)
        convert.column_types = dict.fromkeys(self.schema.names, pa.binary())  # which need not be UTF-8
        missing = MISSING.cast(pa.binary())
        counts: dict[str, Counter[str]] = {name: Counter() for name in self.schema.names}
        with pa.csv.open_csv(self.path, read, parse, convert) as reader:
            for batch in reader:
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    counts[name].update(column.filter(pc.is_in(column, missing)).cast(pa.string()).to_pylist())
        kinds = {field.name: field.type for field in self.schema}
        return {name: (kinds[name] not in (pa.string(), pa.null()), found) for name, found in counts.items() if found}

    def _options(self, size: int, columns: Sequence[str] | None = None) -> tuple[Any, Any, Any]:
        """Return the options to read, parse and convert in blocks of `size` bytes."""
        hexadecimal, long = self._integers
        types = {**dict.fromkeys(long, pa.string()), **self.types}
        types |= {name: pa.int64() for name in hexadecimal if types.get(name) == pa.float64()}
        return (
            pa.csv.ReadOptions(block_size=size),
            parse_options(self.dialect.separator, self.quotes.enclose),
            pa.csv.ConvertOptions(
                column_types=types,
                null_values=["", *MISSING.to_pylist()],
                strings_can_be_null=False,
                decimal_point=self.dialect.decimal,
                include_columns=None if columns is None else list(columns),
            ),
        )

    @cached_property
    def _integers(self) -> tuple[list[str], list[str]]:
        """Columns with integers such as 0x1F, and with integers of more than 64 bits, in the first megabyte.

        Arrow does not read the former as floats, and floats would merge ids among the latter.
        """
        text = read_text(self.path, BEGINNING)
        if "0x" not in text.lower() and not MAYBE_LONG.search(text):
            return [], []
        read = pa.csv.ReadOptions(block_size=BEGINNING)
        parse = parse_options(self.dialect.separator, self.quotes.enclose)
        with pa.csv.open_csv(self.path, read, parse) as reader:
            kinds = [(field.name, field.type) for field in reader.schema]
        integers, floats = ([n for n, kind in kinds if of(kind)] for of in (pa.types.is_integer, pa.types.is_floating))
        if not (integers or floats):
            return [], []
        numbers = dict.fromkeys([*integers, *floats], pa.string())
        convert = pa.csv.ConvertOptions(include_columns=list(numbers), column_types=numbers)
        with pa.csv.open_csv(self.path, read, parse, convert) as reader:
            texts = reader.read_next_batch()
        hexadecimal = [n for n in integers if pc.any(pc.starts_with(texts[n], "0x", ignore_case=True)).as_py()]
        return hexadecimal, [name for name in floats if are_whole(texts[name])]

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns, from the first megabyte."""
        with pa.csv.open_csv(self.path, *self._options(BEGINNING)) as reader:
            schema = reader.schema
        check_distinct(self.path, schema.names)
        return schema

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of all rows; later blocks may change the type inferred from earlier ones."""
        _ = self.schema  # checks for duplicate names, of which Arrow would read the first
        read, parse, convert = self._options(BLOCK, columns)
        table = empty_to_missing(pa.csv.read_csv(self.path, read, parse, convert))
        unsure = [name for name in columns if name not in self.types and may_be_texts(table.column(name))]
        if unsure:
            convert.column_types, convert.include_columns = dict.fromkeys(unsure, pa.string()), unsure
            texts = empty_to_missing(pa.csv.read_csv(self.path, read, parse, convert))
            for name in unsure:
                unknown = pa.types.is_null(table.column(name).type)
                if are_whole(texts.column(name)) or (unknown and texts.column(name).null_count < len(texts)):
                    table = table.set_column(table.schema.get_field_index(name), name, texts.column(name))
        return table

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read columns in batches with the types of `schema`; columns of unknown type are read as strings."""
        read, parse, convert = self._options(BLOCK, columns)
        kinds = {name: self.schema.field(name).type for name in columns}
        convert.column_types = {name: pa.string() if pa.types.is_null(kind) else kind for name, kind in kinds.items()}
        with pa.csv.open_csv(self.path, read, parse, convert) as reader:
            yield from (empty_to_missing(pa.Table.from_batches([batch])) for batch in reader)

    def count_rows(self) -> int:
        """Count the rows without converting their values."""
        read, parse, convert = self._options(BLOCK)
        file_format = pa.dataset.CsvFileFormat(parse, read_options=read, convert_options=convert)
        return int(pa.dataset.dataset(self.path, format=file_format).count_rows())


def parse_options(separator: str, quoted: bool) -> Any:
    """Return the options with which Arrow splits lines into values."""
    quote: Any = '"' if quoted else False
    return pa.csv.ParseOptions(delimiter=separator, quote_char=quote, double_quote=quoted, newlines_in_values=quoted)


def may_be_texts(column: pa.ChunkedArray) -> bool:
    """Return whether a column has only names of missing values, or floats that may be integers beyond 64 bits."""
    if not pa.types.is_floating(column.type):
        return bool(pa.types.is_null(column.type))
    most = pc.max(pc.abs(column)).as_py()
    return most is not None and 2.0**63 <= most < math.inf


def are_whole(texts: Any) -> bool:
    """Return whether all texts that are no names of missing values are whole numbers in digits."""
    given = texts.filter(pc.invert(pc.is_in(texts, pa.array(["", *MISSING.to_pylist()]))))
    return len(given) > 0 and bool(pc.all(pc.match_substring_regex(given, r"^[+-]?[0-9]+$")).as_py())


def empty_to_missing(table: pa.Table) -> pa.Table:
    """Replace empty strings with missing values."""
    for place, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = table.column(place)
            table = table.set_column(place, field.name, pc.if_else(pc.equal(column, ""), None, column))
    return table


@lru_cache
def find_quotes(path: Path, separator: str, _changed: int, _size: int) -> Quotes:
    """Find out from all lines of a file whether quotes enclose values: a single one must not hide the lines after it.

    Quotes are part of the values if all lines have equally many values without quotes, while enclosing quotes would
    join lines; between tabs, also if none is doubled and no column name has one.
    """
    with open_lines(path) as file:
        header = file.readline()
        found = find_marks(file)
    if '"' not in header + found:
        return Quotes(enclose=False)
    rows, plain = (count_records(path, separator, quoted=quoted) for quoted in (True, False))
    if rows == (count_lines(path) if plain is None else plain):
        return Quotes(enclose=plain is None or separator != "\t" or '"' in header or found == '""')
    long = list(find_long_values(path, separator))
    if not long:
        return Quotes(enclose=True)
    if plain is not None:
        line = long[0].start
        return Quotes(False, f"Table: quotes are part of the values, since one in line {line:,} is not closed there.")
    for value in long:
        if not value.closed:
            raise ValueError(
                f"Expected {path} to close the quotes of each value and to double those within, but the value that "
                f"begins in line {value.start:,} does not end in line {value.end:,} with its quotes."
            )
    joined = sum(value.end - value.start for value in long)
    which = f"{len(long):,} quoted values span" if len(long) > 1 else "1 quoted value spans"
    where = f"the first lines {long[0].start:,} to {long[0].end:,}"
    alone = f"{joined:,} lines are no rows of their own" if joined > 1 else "1 line is no row of its own"
    return Quotes(True, f"Table: {which} several lines, {where}; {alone}.")


def open_lines(path: Path) -> TextIO:
    """Open a file to read lines that end with a newline, whatever ends them in the file; any bytes are Latin-1."""
    return io.TextIOWrapper(open_binary(path), encoding="latin-1")


def find_marks(file: TextIO) -> str:
    """Return the quotes in the rest of a file: none, a single one, or two if any are doubled."""
    found = ""
    while found != '""' and (block := file.read(BLOCK)):
        found = next((marks for marks in ('""', '"') if marks in block), found)
    return found


def count_records(path: Path, separator: str, *, quoted: bool) -> int | None:
    """Count the rows of a file, with its header; return None if they do not have equally many values."""
    # Any bytes are Latin-1.
    read = pa.csv.ReadOptions(block_size=BLOCK, autogenerate_column_names=True, encoding="latin-1")
    convert = pa.csv.ConvertOptions(include_columns=["f0"], column_types={"f0": pa.binary()})
    try:
        with pa.csv.open_csv(path, read, parse_options(separator, quoted), convert) as reader:
            return int(sum(batch.num_rows for batch in reader))
    except pa.ArrowInvalid:
        return None


def count_lines(path: Path) -> int:
    """Count the lines of a file that are not blank."""
    with open_lines(path) as file:
        return sum(bool(line.strip(" \t\n")) for line in file)


class LongValue(NamedTuple):
    """A quoted value that spans lines, and whether its last quote ends it."""

    start: int
    end: int
    closed: bool


def find_long_values(path: Path, separator: str) -> Iterator[LongValue]:
    """Yield the quoted values that span lines."""
    close, opened, number = re.compile(r'(?:[^"]|"")*"(?!")'), 0, 0
    with open_lines(path) as file:
        for number, line in enumerate(file, 1):
            place = 0 if opened or '"' in line else -1
            while place >= 0:  # the beginning of a value, or of the rest of one that is open
                if opened or line.startswith('"', place):
                    rest = close.match(line, place if opened else place + 1)
                    if rest is None:
                        opened = opened or number
                        break
                    if opened:
                        yield LongValue(opened, number, line[rest.end() : rest.end() + 1] in (separator, "\n", ""))
                    opened, place = 0, rest.end()
                place = line.find(separator, place) + 1 or -1
    if opened:
        yield LongValue(opened, number, closed=False)


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
    whole = text if len(text) < BEGINNING // 2 else text[: max(map(text.rfind, "\r\n")) + 1]
    try:
        lines = list(islice(csv.reader(whole.splitlines(True), delimiter=separator), count))
    except csv.Error:
        return []
    return [line for line in lines if line]

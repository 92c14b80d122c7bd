"""Hostile tables: a small table of annotations, changed in a few places, in one of several file formats."""

import csv
import datetime
import gzip
import io
import json
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

from tests.faults.values import NUMBERS, hostile_text, mutate_bytes

Columns = list[tuple[str, Any]]
"""Names, which may repeat, and lists of Python values or Arrow arrays."""

KINDS = {"parquet": 5, "csv": 4, "xlsx": 1, "json": 1, "jsonl": 1, "tsv": 1, "csv.gz": 0.5, "folder": 0.5}
"""File formats, and how often they are drawn."""
TARGETS = {"label": "classification", "grade": "regression", "flag": "multi-label"}
"""Targets of the small table; `flag` goes with `mark`."""


def small_table(rng: Random, rows: int) -> Columns:
    """Return a table with inputs of every kind, privileged columns and three kinds of targets."""
    words = ["good", "bad", "dull", "bright", "long", "short"]
    size = twice(rows, lambda: rng.gauss(0, 1))
    return [
        ("id", [place // 2 for place in range(rows)]),
        ("size", size),
        ("count", twice(rows, lambda: rng.randrange(5))),
        ("colour", twice(rows, lambda: rng.choice(["red", "green", "blue"]))),
        ("note", twice(rows, lambda: " ".join(rng.choices(words, k=5)))),
        ("worker", [f"w{rng.randrange(4)}" for _ in range(rows)]),
        ("seconds", [rng.expovariate(0.1) for _ in range(rows)]),
        ("label", [rng.choice(["no", "yes"]) if abs(x) < 0.3 else ["no", "yes"][x > 0] for x in size]),
        ("grade", [x + rng.gauss(0, 0.3) for x in size]),
        ("flag", [int(x > 0) for x in size]),
        ("mark", [rng.randrange(2) for _ in range(rows)]),
        ("gold", [["no", "yes"][x > 0] for x in size]),
    ]


def twice(rows: int, draw: Callable[[], Any]) -> list[Any]:
    """Draw values of examples with two labels each."""
    return [value for _ in range(rows // 2) for value in [draw()] * 2]


# ------------------------------------------------------------------------------ columns


def hostile_column(rng: Random, rows: int) -> Any:
    """Draw a column of a type or of values that are unusual."""
    kind = rng.choice(list(COLUMNS))
    try:
        return pa.array(COLUMNS[kind](rng, rows)) if kind in PLAIN else COLUMNS[kind](rng, rows)
    except (pa.ArrowException, OverflowError, TypeError):
        return pa.nulls(rows)


def each(draw: Callable[[Random], Any]) -> Callable[[Random, int], list[Any]]:
    """Make a column of a function that draws one value."""
    return lambda rng, rows: [draw(rng) for _ in range(rows)]


def of_type(kind: pa.DataType, draw: Callable[[Random], Any]) -> Callable[[Random, int], pa.Array]:
    """Make a column of an Arrow type; a value in ten is missing."""
    return lambda rng, rows: pa.array([None if rng.random() < 0.1 else draw(rng) for _ in range(rows)], kind)


def day(rng: Random) -> datetime.datetime:
    """Draw a date between the years 1 and 9999."""
    near = datetime.datetime(2020, 1, 1) + datetime.timedelta(seconds=rng.randrange(10**8))
    return rng.choice(
        [near, near, datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31), datetime.datetime(1600, 2, 3)]
    )


PLAIN = {
    "numbers",
    "constant",
    "big integers",
    "texts",
    "one text",
    "missing",
    "long texts",
    "unique",
    "booleans",
    "rare",
    "names of missing",
    "quotes",
    "dates in text",
    "hexadecimal",
}
COLUMNS: dict[str, Callable[[Random, int], Any]] = {
    "numbers": lambda rng, rows: [float(rng.choice(NUMBERS)) for _ in range(rows)],
    "constant": lambda rng, rows: [rng.choice(NUMBERS)] * rows,
    "big integers": lambda rng, rows: [
        rng.choice([2**53 + 1, 2**62, -(2**62), 1700000000123456789]) for _ in range(rows)
    ],
    "texts": each(hostile_text),
    "one text": lambda rng, rows: [hostile_text(rng)] * rows,
    "missing": lambda _, rows: [None] * rows,
    "long texts": each(lambda rng: "word " * rng.choice([0, 1, 2000])),
    "unique": lambda rng, rows: [f"{rng.random()}" for _ in range(rows)],
    "booleans": each(lambda rng: rng.choice([True, False, None])),
    "rare": lambda _, rows: ["once", *["often"] * (rows - 1)][:rows],
    "spread": of_type(pa.float64(), lambda rng: rng.choice([1e308, -1e308, 1e-308, 0.0, 1.0])),
    "float16": of_type(pa.float16(), lambda rng: np.float16(rng.random())),
    "uint64": of_type(pa.uint64(), lambda rng: rng.choice([0, 2**64 - 1, 2**63])),
    "int8": of_type(pa.int8(), lambda rng: rng.randrange(-128, 128)),
    "decimals": of_type(
        pa.decimal128(38, 5), lambda rng: Decimal(rng.choice(["1.5", "-7", "123456789012345678901234567.5"]))
    ),
    "whole decimals": of_type(pa.decimal128(20, 0), lambda rng: Decimal(10**19 + rng.randrange(4))),
    "names of missing": each(lambda rng: rng.choice(["NA", "N/A", "NULL", "nan", "null", "yes", "no"])),
    "quotes": each(lambda rng: rng.choice(['"begins', 'ends"', 'in"side', '"both"', 'say ""it""', "none"])),
    "dates in text": each(lambda rng: day(rng).isoformat() + rng.choice(["", "Z", "+05:30"])),
    "hexadecimal": each(lambda rng: hex(rng.randrange(10**4))),
    "dates": of_type(pa.date32(), lambda rng: day(rng).date()),
    "microseconds": of_type(pa.timestamp("us"), day),
    "zoned": of_type(pa.timestamp("us", "Asia/Kolkata"), day),
    "seconds": of_type(pa.timestamp("s"), lambda rng: rng.choice([0, 10**9, 10**12, -(10**11)])),
    "times": of_type(pa.time64("us"), lambda rng: day(rng).time()),
    "durations": of_type(pa.duration("s"), lambda rng: rng.choice([0, 60, 10**13])),
    "bytes": of_type(pa.binary(), lambda rng: rng.choice([b"", b"abc", b"\xff\xfe", rng.randbytes(4)])),
    "lists": of_type(pa.list_(pa.int64()), lambda rng: [rng.randrange(3) for _ in range(rng.randrange(4))]),
    "vectors": of_type(pa.list_(pa.float32(), 2), lambda rng: [rng.random(), rng.random()]),
    "embeddings": lambda rng, rows: pa.array([[rng.random(), rng.random()] for _ in range(rows)]),
    "paths": each(lambda rng: rng.choice(["table.csv", "table.parquet", "../a.png", "/dev/zero", hostile_text(rng)])),
    "lists of texts": of_type(pa.list_(pa.string()), lambda rng: [hostile_text(rng)]),
    "structs": of_type(
        pa.struct([("a", pa.int64()), ("b", pa.string())]), lambda rng: {"a": rng.randrange(3), "b": "x"}
    ),
    "maps": of_type(pa.map_(pa.string(), pa.int64()), lambda rng: [("a", rng.randrange(3))]),
    "categories": lambda rng, rows: pa.array([rng.choice(["a", "b", None]) for _ in range(rows)]).dictionary_encode(),
    "integer categories": lambda rng, rows: pa.array(
        [rng.choice([1, 2, None]) for _ in range(rows)]
    ).dictionary_encode(),
    "large texts": of_type(pa.large_string(), hostile_text),
    "text views": of_type(pa.string_view(), hostile_text),
    "nothing": lambda _, rows: pa.nulls(rows),
    "bad UTF-8": lambda rng, rows: bad_utf8(rng, rows),
}


def bad_utf8(rng: Random, rows: int) -> pa.Array:
    """Return a column of strings that are not UTF-8, as careless writers of Parquet make them."""
    values = [rng.choice([b"fine", b"\xff\xfe", b"caf\xe9"]) for _ in range(rows)]
    binary = pa.array(values, pa.binary())
    return pa.Array.from_buffers(pa.string(), rows, binary.buffers())


# ------------------------------------------------------------------------------ changes


def replace_column(table: Columns, rng: Random) -> Columns:
    place = rng.randrange(len(table))
    return [*table[:place], (table[place][0], hostile_column(rng, length(table))), *table[place + 1 :]]


def add_column(table: Columns, rng: Random) -> Columns:
    place = rng.randint(0, len(table))
    return [*table[:place], (hostile_text(rng), hostile_column(rng, length(table))), *table[place:]]


def rename_column(table: Columns, rng: Random) -> Columns:
    place = rng.randrange(len(table))
    name = rng.choice([hostile_text(rng), table[rng.randrange(len(table))][0]])
    return [*table[:place], (name, table[place][1]), *table[place + 1 :]]


def remove_column(table: Columns, rng: Random) -> Columns:
    place = rng.randrange(len(table))
    return table[:place] + table[place + 1 :]


def change_cells(table: Columns, rng: Random) -> Columns:
    """Replace some cells by hostile numbers or texts, or by nothing."""
    place = rng.randrange(len(table))
    name, values = table[place]
    if not isinstance(values, list) or not values:
        return table
    values = list(values)
    numbers = isinstance(values[0], int | float)
    for _ in range(rng.choice([1, 2, len(values) // 2 + 1])):
        new = rng.choice([None, rng.choice(NUMBERS) if numbers else hostile_text(rng)])
        values[rng.randrange(len(values))] = float(new) if isinstance(new, int) and abs(new) > 2**62 else new
    return [*table[:place], (name, values), *table[place + 1 :]]


def drop_rows(table: Columns, rng: Random) -> Columns:
    """Keep none, one or a few rows."""
    count = rng.choice([0, 0, 1, 1, 2, 3, 5])
    return [(name, values[:count] if isinstance(values, list) else values.slice(0, count)) for name, values in table]


def repeat_rows(table: Columns, _: Random) -> Columns:
    """Make all rows equal to the first."""
    return [
        (name, [values[0]] * len(values)) if isinstance(values, list) and values else (name, values)
        for name, values in table
    ]


def widen(table: Columns, rng: Random) -> Columns:
    """Add many columns of numbers."""
    rows = length(table)
    return [*table, *((f"x{place}", [rng.random() for _ in range(rows)]) for place in range(rng.choice([20, 300])))]


def many_classes(table: Columns, _: Random) -> Columns:
    """Give every row a label of its own."""
    return [
        (name, [f"class {place}" for place in range(len(values))]) if name == "label" else (name, values)
        for name, values in table
    ]


CHANGES = [
    *[replace_column] * 6,
    *[change_cells] * 4,
    add_column,
    add_column,
    rename_column,
    rename_column,
    remove_column,
    drop_rows,
    drop_rows,
    repeat_rows,
    widen,
    many_classes,
]


def length(table: Columns) -> int:
    """Return the number of rows."""
    return len(table[0][1]) if table else 0


# ------------------------------------------------------------------------------ files


def to_arrow(table: Columns) -> pa.Table:
    """Convert columns; values of mixed types become texts."""
    arrays = []
    for _, values in table:
        try:
            arrays.append(values if isinstance(values, pa.Array) else pa.array(values))
        except (pa.ArrowException, OverflowError):
            arrays.append(pa.array([None if value is None else str(value) for value in values]))
    return pa.Table.from_arrays(arrays, names=[name for name, _ in table])


def to_csv(table: Columns, rng: Random, plain: bool, delimiter: str = ",") -> bytes:
    """Write a CSV file, in one of many dialects unless it is `plain`."""
    rows = [[name for name, _ in table]]
    lists = [values if isinstance(values, list) else to_texts(values) for _, values in table]
    rows += [["" if value is None else value for value in row] for row in zip(*lists, strict=True)]
    dialect = (
        {"delimiter": delimiter}
        if plain
        else {"delimiter": rng.choice(",,,;\t|"), "lineterminator": rng.choice(["\n", "\r\n", "\r"])}
    )
    quoting = csv.QUOTE_MINIMAL if plain else rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    text = io.StringIO(newline="")
    writer = csv.writer(text, quoting=quoting, **dialect)
    if plain or rng.random() < 0.9:
        writer.writerows(rows)
    else:  # rows of different lengths
        writer.writerows(row[: rng.randint(0, len(row))] if rng.random() < 0.1 else row for row in rows)
    encoding = (
        "utf-8" if plain else rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252", "utf-32"])
    )
    return text.getvalue().encode(encoding, "replace")


def write_as(kind: str, table: Columns, rng: Random) -> bytes:
    """Write a table in a file format, in its usual form."""
    if kind in ("csv", "tsv"):
        return to_csv(table, rng, plain=True, delimiter="\t" if kind == "tsv" else ",")
    if kind == "parquet":
        return to_parquet(to_arrow(table), rng)
    return to_workbook(table) if kind == "xlsx" else to_json(table, lines=kind == "jsonl")


def to_cells(table: Columns) -> list[list[Any]]:
    """Return the rows of a table as Python values; what is neither a number nor a text becomes a text."""
    lists = [values if isinstance(values, list) else to_texts(values) for _, values in table]
    plain = (str, int, float, bool, type(None))
    return [[cell if isinstance(cell, plain) else str(cell) for cell in row] for row in zip(*lists, strict=True)]


def to_json(table: Columns, *, lines: bool) -> bytes:
    """Write JSON Lines, or a list of objects."""
    names = [name for name, _ in table]
    rows = [json.dumps(dict(zip(names, row, strict=True))) for row in to_cells(table)]
    return ("\n".join(rows) if lines else f"[{', '.join(rows)}]").encode("utf-8", "replace")


def to_workbook(table: Columns) -> bytes:
    """Write an Excel workbook, which holds neither control characters nor infinities."""
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    for row in [[name for name, _ in table], *to_cells(table)]:
        sheet.append([to_cell(value) for value in row])
    content = io.BytesIO()
    book.save(content)
    return content.getvalue()


def to_cell(value: Any) -> Any:
    """Return a value as a workbook holds it."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    text = ILLEGAL_CHARACTERS_RE.sub("?", value)[:32_000] if isinstance(value, str) else value
    return f"'{text}" if isinstance(text, str) and text.startswith("=") else text  # else it is a formula


def to_texts(values: pa.Array) -> list[str | None]:
    """Return the values of an Arrow array as texts; what Python cannot hold becomes a question mark."""
    try:
        return [None if value is None else str(value) for value in values.to_pylist()]
    except (ValueError, OverflowError, pa.ArrowException):
        return ["?"] * len(values)


def write_table(folder: Path, name: str, table: Columns, rng: Random, hostile: float) -> str:
    """Write a table to a file or folder, with damaged bytes with some probability, and return its path."""
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    damaged, plain = rng.random() < 0.2 * hostile, rng.random() > 0.25 * hostile
    if kind in ("tsv", "xlsx", "json", "jsonl"):
        content = write_as(kind, table, rng)
        content = mutate_bytes(content, rng) if damaged else content
    elif "csv" in kind:
        content = to_csv(table, rng, plain)
        content = mutate_bytes(content, rng) if damaged and rng.random() < 0.7 else content
        content = gzip.compress(content, 1) if kind == "csv.gz" else content
    else:
        content = to_parquet(to_arrow(table), rng)
    content = mutate_bytes(content, rng) if damaged and kind in ("parquet", "folder", "csv.gz") else content
    if kind == "folder":
        path = folder / name
        path.mkdir(exist_ok=True)
        (path / "part-0.parquet").write_bytes(content)
        other = to_arrow(rng.choice(CHANGES)(table, rng)) if rng.random() < hostile else to_arrow(table)
        (path / "part-1.parquet").write_bytes(to_parquet(other, rng))
        return name
    suffix = rng.choice([kind, kind.upper(), "txt", "", "parquet", "csv"]) if rng.random() < 0.05 * hostile else kind
    path = folder / f"{name}.{suffix}"
    path.write_bytes(content)
    return path.name


def to_parquet(table: pa.Table, rng: Random) -> bytes:
    """Write a Parquet file in one of its variants."""
    sink = io.BytesIO()
    try:
        pa.parquet.write_table(
            table,
            sink,
            compression=rng.choice(["snappy", "none", "zstd", "gzip"]),
            row_group_size=rng.choice([None, None, 1, 7]),
            store_schema=rng.random() < 0.8,
        )
    except (pa.ArrowException, ValueError):
        sink = io.BytesIO()
        pa.parquet.write_table(pa.table({"label": ["no", "yes"]}), sink)
    return sink.getvalue()


def hostile_table(rng: Random, hostile: float) -> Columns:
    """Return the small table, changed in a few places with some probability."""
    table = small_table(rng, rng.choice([48, 48, 48, 24]))
    if rng.random() < hostile:
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            table = rng.choice(CHANGES)(table, rng) if table else table
    return table

"""JSON files: lists of objects, and JSON Lines with one object per line."""

import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json

from lupi.tabular.formats.base import MemoryTable, check_rows, open_binary, read_text

BLOCK = 2**22
"""Number of bytes that Arrow parses at once. No line may be longer."""
MAX_DEPTH = 500
"""Depth to which objects and lists may be nested: Python's parser stops at about twice as many, and Arrow's crashes."""
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


MAYBE_LONG = re.compile(rb"(?<![\d.])\d{19,}(?![\d.eE])")
"""Whole numbers that may have more than 64 bits, of which Arrow makes floats."""


class JsonLinesFile(MemoryTable):
    """A file with one JSON object per line, possibly compressed with gzip. It is read as a whole."""

    suffixes = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")

    def __init__(self, path: Path, types: Mapping[str, pa.DataType]) -> None:  # noqa: ARG002  JSON has types
        with open_binary(path) as file:
            for number, line in enumerate(file):
                if line.count(b"[") + line.count(b"{") > MAX_DEPTH and measure_depth(line) > MAX_DEPTH:
                    raise make_depth_error(path, number)
                if MAYBE_LONG.search(line):
                    check_integers(STRING.sub(b"", line), path)
        super().__init__(path, pa.json.read_json(path, pa.json.ReadOptions(block_size=BLOCK)))


class JsonFile(MemoryTable):
    """A file with a list of JSON objects, or with lists by column name. It is read as a whole."""

    suffixes = (".json", ".json.gz")

    def __init__(self, path: Path, types: Mapping[str, pa.DataType]) -> None:  # noqa: ARG002  JSON has types
        super().__init__(path, to_table(read_records(path), path))


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read the objects of a JSON or JSON Lines file."""
    text = read_text(path)
    try:
        found = _parse(text)
    except RecursionError:
        raise make_depth_error(path) from None
    except ValueError:
        found = [_parse_line(line, number, path) for number, line in enumerate(text.splitlines()) if line.strip()]
    if isinstance(found, dict):
        columns = [list(value.values()) if isinstance(value, dict) else value for value in found.values()]
        if all(isinstance(column, list) for column in columns) and len({len(column) for column in columns}) == 1:
            found = [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]
        else:
            found = [found]
    for number, record in enumerate(found if isinstance(found, list) else [found]):
        if not isinstance(record, dict):
            got = type(record).__name__
            raise ValueError(f"Expected {path} to be a list of JSON objects, but element {number} is a {got}.")
    return found  # type: ignore[no-any-return]


def _parse(text: str) -> Any:
    return json.loads(text, parse_constant=lambda _: None)  # NaN and infinity are not valid JSON


def _parse_line(line: str, number: int, path: Path) -> Any:
    try:
        return _parse(line)
    except RecursionError:
        raise make_depth_error(path, number) from None
    except ValueError as error:
        raise ValueError(f"Expected {path} to be JSON, but got, in line {number + 1}: {error}.") from error


def check_integers(text: bytes, path: Path) -> None:
    """Raise a `ValueError` for whole numbers of more than 64 bits, which would merge with their neighbours."""
    for found in MAYBE_LONG.finditer(text):
        if int(found[0]) >= 2**63:
            got = found[0].decode()
            raise ValueError(
                f"Expected whole numbers of {path} to fit into 64 bits, but got {got}; write ids as strings."
            )


def measure_depth(line: bytes) -> int:
    """Return how deeply the objects and lists of a line are nested."""
    depth = deepest = 0
    for mark in re.findall(rb"[\[{\]}]", STRING.sub(b"", line)):
        depth += 1 if mark in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def make_depth_error(path: Path, number: int | None = None) -> ValueError:
    """Return the error for JSON that is nested too deeply."""
    where = "" if number is None else f" in line {number + 1}"
    return ValueError(f"Expected {path} to be JSON with at most {MAX_DEPTH} levels, but it has more{where}.")


def to_table(records: Sequence[Mapping[str, Any]], path: Path) -> pa.Table:
    """Return JSON objects as a table, with the types of a JSON Lines file."""
    check_rows(path, len(records))
    lines = "\n".join(json.dumps(record) for record in records).encode()
    if MAYBE_LONG.search(lines):
        check_integers(STRING.sub(b"", lines), path)
    return pa.json.read_json(io.BytesIO(lines), pa.json.ReadOptions(block_size=max(len(lines), BLOCK)))

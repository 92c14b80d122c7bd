"""The columns of a training table, as a model stores them, and checks that other tables match them."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from lupi._internal.json_types import from_json
from lupi.tabular.formats.separated import is_separated
from lupi.tabular.kinds import KINDS, RowNumbers
from lupi.tabular.lazy import Columns, FrameType
from lupi.tabular.relative_paths import find_files
from lupi.tabular.roles import Roles
from lupi.tabular.targets import TASKS
from lupi.tabular.values import Column

CSV_TYPES = {"number": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "date": pa.timestamp("ns")}


@dataclass(frozen=True)
class InputColumn:
    """An input column: its kind, the family of its data type in the training table, and the width of vectors."""

    kind: str
    stored: str
    width: int | None = None


def stored_as(kind: pa.DataType) -> str:
    """Return the family of an Arrow type: boolean, number, string, date, duration, vector, or the name of the type."""
    types = pa.types
    if types.is_dictionary(kind):
        return stored_as(kind.value_type)
    families = {
        "boolean": types.is_boolean,
        "number": lambda t: types.is_integer(t) or types.is_floating(t) or types.is_decimal(t),
        "string": lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t),
        "date": lambda t: types.is_timestamp(t) or types.is_date(t),
        "duration": types.is_duration,
        "vector": lambda t: is_list(t) and stored_as(t.value_type) == "number",
    }
    return next((name for name, belongs in families.items() if belongs(kind)), str(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is a list type."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


@dataclass(frozen=True)
class Schema:
    """The description of the training table that is stored in a model folder."""

    roles: Roles
    task: str
    inputs: dict[str, InputColumn]
    privileged: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`; raise a `ValueError` if it is invalid."""
        schema: Self = from_json(facts, cls)
        for name, column in schema.inputs.items():
            if column.kind not in KINDS:
                raise ValueError(f"Expected `inputs.{name}.kind` to be one of {list(KINDS)}, but got {column.kind!r}.")
        if schema.task not in TASKS:
            raise ValueError(f"Expected `task` to be one of {', '.join(TASKS)}, but got {schema.task!r}.")
        return schema

    def csv_types(self, keep: Iterable[str]) -> dict[str, pa.DataType]:
        """Return the types with which to read the columns of a CSV file; the columns in `keep` are read as strings."""
        strings = dict.fromkeys(keep, pa.string())
        return strings | {name: CSV_TYPES.get(column.stored, pa.string()) for name, column in self.inputs.items()}


def privileged_encoding(kinds: Mapping[str, str]) -> dict[str, str]:
    """Return the encodings of `PrivilegedEncoder` for privileged columns of the given kinds."""
    return {name: KINDS[kind].privileged or "category" for name, kind in kinds.items()}


def clean_inputs(
    frame: FrameType, inputs: Mapping[str, InputColumn], rows: RowNumbers | None = None, folder: Path = Path()
) -> FrameType:
    """Convert the input columns to the types of their kinds, and reject missing values where they are not allowed."""
    if isinstance(frame, Columns):
        vectors = {name: frame[name] for name, column in inputs.items() if column.width is not None}
        cleaned = {name: clean(values, inputs[name], values.index, folder) for name, values in vectors.items()}
        plain = frame.select(list(inputs))
        rest = plain.map(lambda values: clean(values, inputs[str(values.name)], values.index, folder))
        return rest.expand(cleaned)
    rows = range(len(frame)) if rows is None else rows
    parts: list[pd.DataFrame | Column] = []
    for name, column in inputs.items():
        part = clean(frame[name], column, rows, folder)
        parts.append(part.rename(name) if isinstance(part, pd.Series) else part)
    return pd.concat(parts, axis="columns").set_axis(pd.Index(rows), axis="index")


def clean(values: Column, column: InputColumn, rows: RowNumbers, folder: Path) -> Any:
    """Convert an input column to the type of its kind (vectors to a DataFrame), and check for missing values."""
    missing = values.isna().to_numpy()
    if missing.any() and not KINDS[column.kind].may_be_missing:
        got = f"row {rows[int(np.argmax(missing))]} has none"
        raise ValueError(f"Expected input column {values.name!r} to have a value in every row, but {got}.")
    values = find_files(values, folder, rows) if KINDS[column.kind].names_files else values
    part = KINDS[column.kind].clean(values, column.stored, rows)
    if column.width is not None and isinstance(part, pd.DataFrame) and part.shape[1] != column.width:
        what = f"Expected the vectors of column {values.name!r} to have {column.width} numbers as in training"
        raise ValueError(f"{what}, but row {rows[0]} has {part.shape[1]}.")
    return part


def estimator_kinds(inputs: Mapping[str, InputColumn]) -> dict[str, str]:
    """Return the parameter `kind` of an estimator for cleaned inputs, so that kinds are not recognized a second time.

    Vectors have become columns of numbers.
    """
    kinds: dict[str, str] = {}
    for name, column in inputs.items():
        if column.width is not None:
            kinds |= {f"{name}[{i}]": "number" for i in range(column.width)}
        elif KINDS[column.kind].make_encoder(None, "cpu") is None:
            kinds[name] = "category" if column.kind == "category" else "number"
    return kinds


def check_matches(schema: pa.Schema, inputs: Mapping[str, InputColumn], path: str | Path) -> None:
    """Raise a `ValueError` unless a table has the input columns of the training table, with compatible types."""
    missing = [name for name in inputs if name not in schema.names]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"Expected {path} to have the model's input columns, but it has no {missing[0]!r}{more}.")
    for name, column in inputs.items():
        stored = stored_as(schema.field(name).type)
        as_string = is_separated(path) and column.stored == "string"  # a CSV column can always be read as strings
        empty = stored == "null"  # at least at the start of the file; missing values are checked when rows are read
        if not (as_string or empty or KINDS[column.kind].accepts(column.stored, stored)):
            raise ValueError(
                f"Expected column {name!r} of {path} to be a {column.stored} as in training, but it is a {stored}."
            )

"""The columns of a training table, as a model stores them, and checks that other tables match them."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa

from lupi._internal.json_types import from_json
from lupi.tabular.formats.separated import is_separated
from lupi.tabular.frames import Columns, Frame
from lupi.tabular.kinds import find_kind
from lupi.tabular.kinds.image import find_files
from lupi.tabular.spec import Roles
from lupi.tabular.targets import TASKS
from lupi.tabular.values import Column, stored_as

CSV_TYPES = {"number": pa.float64(), "boolean": pa.bool_()}
"""Types of columns of a CSV file; others are strings, also dates, which Arrow has no type for that holds all of."""


@dataclass(frozen=True)
class InputColumn:
    """An input column: its kind, and the family of its data type in the training table."""

    kind: str
    stored: str


@dataclass(frozen=True, kw_only=True)
class Schema:
    """The description of the training table that is stored in a model folder."""

    roles: Roles
    task: str
    soft: bool
    inputs: dict[str, InputColumn]
    privileged: dict[str, str]
    annotator: str | None
    ordinal: bool = False

    @property
    def several(self) -> bool:
        """Whether there are several targets of 0 and 1."""
        return len(self.roles.target) > 1 and not self.soft

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds of input and privileged columns, as the parameter `kind` of an estimator."""
        return {name: column.kind for name, column in self.inputs.items()} | self.privileged

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`; raise a `ValueError` if it is invalid."""
        schema: Self = from_json(facts, cls)
        for kind in schema.kinds.values():
            find_kind(kind)
        if schema.task not in TASKS:
            raise ValueError(f"Expected `task` to be one of {', '.join(TASKS)}, but got {schema.task!r}.")
        return schema

    def csv_types(self, keep: Iterable[str]) -> dict[str, pa.DataType]:
        """Return the types with which to read the columns of a CSV file; the columns in `keep` are read as strings."""
        strings = dict.fromkeys(keep, pa.string())
        return strings | {name: CSV_TYPES.get(column.stored, pa.string()) for name, column in self.inputs.items()}

    def check_table(self, stored: pa.Schema, path: str | Path) -> None:
        """Raise a `ValueError` unless a table has the input columns of the training table, with compatible types."""
        self._check_names(stored.names, str(path))
        for name, column in self.inputs.items():
            here = stored_as(stored.field(name).type)
            as_string = is_separated(path) and column.stored == "string"  # a CSV column can always be read as strings
            empty = here == "null"  # at least at the start of the file; missing values are checked when rows are read
            if not (as_string or empty or find_kind(column.kind).accepts(column.stored, here)):
                got = f"{column.stored} as in training, but it is a {here}"
                raise ValueError(f"Expected column {name!r} of {path} to be a {got}.")

    def _check_names(self, names: Collection[str], table: str) -> None:
        """Raise a `ValueError` that names the first missing column, if there is one."""
        missing = [name for name in self.inputs if name not in names]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise ValueError(f"Expected {table} to have the model's input columns, but it has no {missing[0]!r}{more}.")

    def clean(self, frame: Frame, folder: Path) -> Frame:
        """Return the input columns, with the paths of files that they name; refuse values that their kinds refuse."""
        self._check_names(frame.columns, "the table")
        if isinstance(frame, Columns):
            return frame[list(self.inputs)].map(lambda column: self._clean(column, folder))
        return pd.DataFrame({name: self._clean(frame[name], folder) for name in self.inputs}, index=frame.index)

    def _clean(self, column: Column, folder: Path) -> Column:
        kind = find_kind(self.inputs[str(column.name)].kind)
        missing = column.isna().to_numpy()
        if missing.any() and not kind.may_be_missing:
            got = f"row {column.index[int(np.argmax(missing))]} has none"
            raise ValueError(f"Expected input column {column.name!r} to have a value in every row, but {got}.")
        return kind.clean(find_files(column, folder) if kind.names_files else column)

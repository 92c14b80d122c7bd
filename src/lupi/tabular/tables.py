"""Annotation tables: read CSV and Parquet, give every column one role, and recognise what kind of column it is.

Messages count rows from 0.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from lupi.tabular.encoding import as_text, is_id

if TYPE_CHECKING:
    Column: TypeAlias = pd.Series[Any]

ROWS_AT_ONCE = 65_536
MOST_CATEGORIES = 1_000
"""An input column of more strings without spaces is no category, unless the user says so."""
MOST_CLASSES = 100
"""A target of more whole numbers is a quantity, unless the user says so."""
KINDS = ("number", "category", "text")
"""Kinds that users may give to a column; a `boolean` is recognised too."""
TASKS = ("classification", "regression")
CSV_TYPES = {"number": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "date": pa.timestamp("ns")}


# -------------------------------------------------------------------------------- reading


def open_table(
    path: str | Path, types: Mapping[str, pa.DataType] | None = None, *, whole: bool = False
) -> pa.dataset.Dataset:
    """Open a CSV file, a Parquet file or a folder of Parquet; nothing but its columns is read yet.

    Parameters
    ----------
    path : str or Path
        The table.
    types : mapping, optional
        Types of columns of a CSV file. Those of others are recognised.
    whole : bool
        Whether to recognise them by all rows of the file, rather than by the first megabyte.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected a table, but there is no {path}.")
    csv = is_csv(path)
    if not (csv or path.is_dir() or path.suffix.lower() in (".parquet", ".pq")):
        raise ValueError(f"Expected a table to be .csv, .parquet or a folder of .parquet, but got {path}.")
    if path.is_dir():
        files = [file for file in path.rglob("*") if file.suffix.lower() in (".parquet", ".pq")]
        if not files:
            raise ValueError(f"Expected {path} to be a folder of .parquet files, but it has none.")
    elif path.stat().st_size == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    if csv:
        size = 2**20 if not whole else min(max(path.stat().st_size * (10 if path.suffix == ".gz" else 1), 2**20), 2**30)
        read, parse, convert = csv_options(types or {}, size)
        file_format: Any = pa.dataset.CsvFileFormat(parse, read_options=read, convert_options=convert)
    else:
        file_format = pa.dataset.ParquetFileFormat()
    try:
        return pa.dataset.dataset(path, format=file_format, partitioning="hive")
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error


def csv_options(types: Mapping[str, pa.DataType], size: int) -> tuple[Any, Any, Any]:
    """Options to read, parse and convert CSV in blocks of so many bytes."""
    return (
        pa.csv.ReadOptions(block_size=size),
        pa.csv.ParseOptions(newlines_in_values=True),
        pa.csv.ConvertOptions(column_types=dict(types), strings_can_be_null=True),
    )


def read_table(path: str | Path, columns: Sequence[str], strings: Iterable[str] = ()) -> pa.Table:
    r"""Read columns of a table into memory.

    Parameters
    ----------
    path : str or Path
        The table.
    columns : sequence of str
        Their names.
    strings : iterable of str
        Columns of a CSV file to read as they are written: 007 is not 7.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "table.csv")
    ...     _ = file.write_text("id,label\n007,yes\n008,no\n")
    ...     read_table(file, ["id", "label"], strings=["id"]).to_pylist()
    [{'id': '007', 'label': 'yes'}, {'id': '008', 'label': 'no'}]
    """
    table = open_table(path, dict.fromkeys(strings, pa.string()), whole=True)
    try:
        rows = table.to_table(columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    if rows.num_rows == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    return rows


def count_rows(table: pa.dataset.Dataset, path: str | Path) -> int:
    """Count the rows of a table that has some."""
    try:
        rows = int(table.count_rows())
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from error
    if rows == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    return rows


def batches(table: pa.dataset.Dataset, columns: Sequence[str], path: str | Path) -> Iterator[pa.Table]:
    """Read a table part by part, in its order, so that memory holds a few parts however long the table is."""
    schema = pa.schema([table.schema.field(name) for name in columns])
    try:
        if isinstance(table.format, pa.dataset.ParquetFileFormat):
            for fragment in table.get_fragments():
                yield from fragment_batches(fragment, schema)
        else:
            types = {field.name: field.type for field in schema}
            read, parse, convert = csv_options(types, 2**22)
            convert.include_columns = list(columns)
            with pa.csv.open_csv(path, read, parse, convert) as reader:
                yield from map(pa.Table.from_batches, ([batch] for batch in reader))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise unreadable(path, error) from error


def fragment_batches(fragment: Any, schema: pa.Schema) -> Iterator[pa.Table]:
    """Read one Parquet file part by part: the scanner of a dataset would read whole row groups, of any size."""
    folders = pa.dataset.get_partition_keys(fragment.partition_expression)
    own = [name for name in schema.names if name not in folders]
    with pa.parquet.ParquetFile(fragment.path, buffer_size=2**20, pre_buffer=False) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=own):
            rows = pa.Table.from_batches([batch])
            for name in schema.names:
                if name in folders:
                    rows = rows.append_column(name, pa.repeat(folders[name], batch.num_rows))
            yield rows.select(schema.names).cast(schema)


def as_pandas(table: pa.Table) -> pd.DataFrame:
    """Turn Arrow's columns into those of pandas; decimals become floats, dictionaries their values.

    Examples
    --------
    >>> as_pandas(pa.table({"age": [20, 40]}))["age"].tolist()
    [20, 40]
    """
    for place, field in enumerate(table.schema):
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        plain = pa.float64() if pa.types.is_decimal(plain) else plain
        if plain != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(plain))
    frame: pd.DataFrame = table.to_pandas(date_as_object=False, ignore_metadata=True)
    return frame


def is_csv(path: str | Path) -> bool:
    """Tell by its name whether a table is CSV."""
    return Path(path).name.lower().endswith((".csv", ".csv.gz"))


def unreadable(path: str | Path, error: Exception) -> ValueError:
    """Say in a sentence why a file cannot be read."""
    why = " ".join(str(error).split()).rpartition("Invalid: ")[2].removesuffix(".")  # the cause, not where it arose
    return ValueError(f"Expected {path} to be a table that can be read, but got: {why[:300]}.")


# -------------------------------------------------------------------------------- roles


@dataclass(frozen=True)
class Roles:
    """What each column of a table is for."""

    target: tuple[str, ...]
    privileged: tuple[str, ...]
    example: str | None
    ignored: tuple[str, ...]
    inputs: tuple[str, ...]

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        target: Sequence[str],
        privileged: Sequence[str] = (),
        example: str | None = None,
        ignore: Sequence[str] = (),
    ) -> Self:
        """Give every column one role; those that are not named are inputs.

        Examples
        --------
        >>> Roles.of(["id", "age", "worker", "label"], ["label"], ["worker"], "id").inputs
        ('age',)
        """
        named = {"--target": target, "--privileged": privileged, "--example": [example] if example else []}
        role: dict[str, str] = {}
        for option, columns in (named | {"--ignore": ignore}).items():
            for column in columns:
                check_name(column, names, option)
                if column in role:
                    raise ValueError(f"Expected column {column!r} in one role, but got {role[column]} and {option}.")
                role[column] = option
        inputs = tuple(name for name in names if name not in role)
        if not target:
            raise ValueError("Expected `--target` to name a column, but got none.")
        if not inputs:
            raise ValueError("Expected some columns to be inputs, but all are target, privileged, example or ignored.")
        return cls(tuple(target), tuple(privileged), example, tuple(ignore), inputs)

    @property
    def used(self) -> list[str]:
        """Columns to read."""
        return [*self.target, *self.privileged, *([self.example] if self.example else []), *self.inputs]


def check_name(column: str, names: Sequence[str], option: str) -> None:
    """Look for a column, and propose the nearest name where there is none."""
    if column not in names:
        near = difflib.get_close_matches(column, names, n=1)
        some = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {some}."
        raise ValueError(f"Expected `{option}` to name a column of the table, but got {column!r}: {hint}")


def split_names(options: Sequence[str], names: Sequence[str]) -> list[str]:
    """Read a repeated option with commas; a column whose own name has a comma is taken as it is.

    Examples
    --------
    >>> split_names(["annotator, seconds", "a,b"], ["annotator", "seconds", "a,b"])
    ['annotator', 'seconds', 'a,b']
    """
    parts = [[option] if option in names else option.split(",") for option in options]
    return [name.strip() for part in parts for name in part if name.strip()]


def read_kinds(options: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Read `--kind column=text` options.

    Examples
    --------
    >>> read_kinds(["zip=category"], ["zip"])
    {'zip': 'category'}
    """
    kinds = {}
    for option in options:
        column, sign, kind = option.rpartition("=")
        if not sign or kind not in KINDS:
            raise ValueError(
                f"Expected `--kind` to be COLUMN=KIND with a kind of {', '.join(KINDS)}, but got {option!r}."
            )
        check_name(column, names, "--kind")
        kinds[column] = kind
    return kinds


# -------------------------------------------------------------------------------- kinds


@dataclass(frozen=True)
class Input:
    """An input column: what it is read as, and what it was stored as in training."""

    kind: str
    stored: str


def stored_as(kind: pa.DataType) -> str:
    """Name the family of an Arrow type."""
    types = pa.types
    if types.is_dictionary(kind):
        return stored_as(kind.value_type)
    families = {
        "boolean": types.is_boolean,
        "number": lambda t: types.is_integer(t) or types.is_floating(t) or types.is_decimal(t),
        "string": lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t),
        "date": lambda t: types.is_timestamp(t) or types.is_date(t),
        "duration": types.is_duration,
    }
    return next((name for name, belongs in families.items() if belongs(kind)), str(kind))


def check_types(schema: pa.Schema, names: Sequence[str], role: str) -> None:
    """Refuse columns that can be no target or no example, such as lists."""
    for name in names:
        if (stored := stored_as(schema.field(name).type)) not in ("boolean", "number", "string"):
            raise ValueError(f"Expected {role} {name!r} to be numbers, booleans or strings, but it is {stored}.")


def input_kinds(
    frame: pd.DataFrame, schema: pa.Schema, roles: Roles, given: Mapping[str, str]
) -> tuple[dict[str, Input], list[str]]:
    """Recognise what input columns are, refuse identifiers, and say what is worth a second look.

    A string column is text where most values are of three words or more; else it is a category. An identifier, whose
    values are nearly all distinct or whose name is an annotator's or an id's, is no input.

    Returns
    -------
    tuple
        The kind of each column, and notes for the user.
    """
    first = frame.drop_duplicates(roles.example) if roles.example else frame
    inputs, notes = {}, []
    for name in roles.inputs:
        stored = stored_as(schema.field(name).type)
        if stored not in ("boolean", "number", "string", "date", "duration"):
            raise ValueError(
                f"Expected input column {name!r} to be numbers, booleans, dates or strings, but it is {stored}: "
                f"name it in `--ignore`."
            )
        kind = given.get(name) or recognised(first[name], stored)
        if kind == "text" and stored != "string":
            raise ValueError(f"Expected column {name!r} to be strings to be read as text, but it is {stored}.")
        if name not in given and re.search(r"gold|truth", name, re.IGNORECASE):
            notes.append(f"Input column {name!r} sounds like true labels; if it is, name it in `--ignore`.")
        inputs[name] = Input(kind, stored)
    counts = [name for name in inputs if name not in given and pa.types.is_integer(schema.field(name).type)]
    different = {name: first[name].nunique() for name in counts}
    examples = len(first[list(inputs)].drop_duplicates()) if any(n > 20 for n in different.values()) else 0
    notes += [
        f"Input column {name!r} has another whole number in nearly every example; if it is an id, name it in "
        "`--example` or `--ignore`."
        for name, n in different.items()
        if n > 20 and n > 0.9 * examples
    ]
    return inputs, notes


def recognised(column: Column, stored: str) -> str:
    """Recognise the kind of an input column by its values, one per example."""
    name, known = str(column.name), column.dropna()
    if stored == "number":
        if is_id(column):
            raise ValueError(
                f"Expected input columns without identifiers, but {name!r} holds whole numbers and is named like one: "
                f"name it in `--example`, `--privileged` or `--ignore`, or say `--kind {name}=number`."
            )
        return "number"
    if stored == "boolean":
        return "boolean"
    if stored != "string":
        return "number"
    values = [str(value) for value in known.unique()]
    if len(values) > 20 and np.mean([len(value.split()) >= 3 for value in values[:10_000]]) > 0.5:
        return "text"
    distinct = len(values) > 20 and len(values) > 0.9 * len(known)
    if distinct or len(values) > MOST_CATEGORIES:
        raise ValueError(
            f"Expected input columns without identifiers, but {name!r} has {len(values):,} distinct strings in "
            f"{len(known):,} examples: name it in `--ignore`, or say `--kind {name}=category` or `--kind {name}=text`."
        )
    return "category"


def privileged_kinds(frame: pd.DataFrame, roles: Roles, given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Recognise what privileged columns are: `number` or `category`, with notes for the user.

    Examples
    --------
    >>> frame = pd.DataFrame({"annotator": [1, 2, 1], "seconds": [3, 9, 4]})
    >>> roles = Roles(("label",), ("annotator", "seconds"), None, (), ("age",))
    >>> privileged_kinds(frame, roles, {})[0]
    {'annotator': 'category', 'seconds': 'number'}
    """
    kinds, notes = {}, []
    for name in roles.privileged:
        kind = given.get(name)
        if kind == "text":
            raise ValueError(
                f"Expected privileged column {name!r} to be a category or a number, but got `--kind {name}=text`."
            )
        if kind is None:
            dtype = frame[name].dtype
            numeric = (is_numeric_dtype(dtype) or dtype.kind in "mM") and not is_bool_dtype(dtype)
            kind = "number" if numeric else "category"
            if numeric and dtype.kind not in "mM" and is_id(frame[name]):
                kind = "category"
                notes.append(
                    f"Privileged column {name!r} holds whole numbers that look like ids, so each is a category; "
                    f"`--kind {name}=number` makes it a quantity."
                )
        kinds[name] = kind
    return kinds, notes


def prepare(frame: pd.DataFrame, inputs: Mapping[str, Input], start: int = 0) -> pd.DataFrame:
    """Return the input columns with the types of their kinds, and refuse missing values.

    Parameters
    ----------
    frame : DataFrame
        Rows of a table.
    inputs : mapping
        The input columns.
    start : int
        Where in the table these rows begin, for messages.

    Examples
    --------
    >>> prepare(pd.DataFrame({"zip": [8001, 3011]}), {"zip": Input("category", "number")})["zip"].tolist()
    ['8001', '3011']
    """
    columns = {}
    for name, column in inputs.items():
        values = frame[name]
        missing = values.isna().to_numpy()
        if missing.any():
            row = start + int(np.argmax(missing))
            raise ValueError(f"Expected input column {name!r} to have a value in every row, but row {row} has none.")
        if column.kind == "number" and column.stored == "string":
            numbers = pd.to_numeric(values.astype(str), errors="coerce")
            if numbers.isna().any():
                row = int(np.argmax(numbers.isna()))
                raise ValueError(
                    f"Expected column {name!r} to be numbers, but got {values.iloc[row]!r} in row {start + row}."
                )
            values = numbers
        elif column.kind == "number" and column.stored == "number" and not np.isfinite(values).all():
            row = start + int(np.argmin(np.isfinite(values)))
            raise ValueError(f"Expected input column {name!r} to be finite numbers, but row {row} is infinite.")
        elif column.kind == "category":
            values = pd.Series([as_text(value) for value in values], index=values.index, dtype=object)
        columns[name] = values
    return pd.DataFrame(columns)


def check_matches(schema: pa.Schema, inputs: Mapping[str, Input], path: str | Path) -> None:
    """Compare the columns of a table with those that a model was trained on."""
    missing = [name for name in inputs if name not in schema.names]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"Expected {path} to have the model's input columns, but it has no {missing[0]!r}{more}.")
    for name, column in inputs.items():
        stored = stored_as(schema.field(name).type)
        allowed = {column.stored, "string"} if column.kind == "category" else {column.stored}
        if column.kind in ("number", "boolean") and column.stored in ("number", "boolean"):
            allowed = {"number", "boolean"}
        as_string = is_csv(path) and column.stored == "string"  # digits too are read as strings then
        if stored not in allowed and not as_string:
            raise ValueError(
                f"Expected column {name!r} of {path} to be a {column.stored} as in training, but it is a {stored}."
            )


# -------------------------------------------------------------------------------- targets


def target_task(frame: pd.DataFrame, target: Sequence[str], task: str | None) -> tuple[str, str]:
    """Check the target columns and choose classification or regression.

    Numbers that are not whole, or take more than a hundred values, are a quantity. Several columns are labels that are
    on or off.

    Returns
    -------
    tuple
        The task, and the reason in words.

    Examples
    --------
    >>> target_task(pd.DataFrame({"price": [1.5, 2.0, 3.25]}), ["price"], None)
    ('regression', 'the target is real numbers')
    """
    if task not in (None, *TASKS):
        raise ValueError(f"Expected `--task` to be one of {', '.join(TASKS)}, but got {task!r}.")
    for name in target:
        column = frame[name]
        missing = column.isna().to_numpy()
        if missing.any():
            row = int(np.argmax(missing))
            raise ValueError(f"Expected target {name!r} to have a value in every row, but row {row} has none.")
        values = column.unique()
        if len(values) < 2:
            raise ValueError(
                f"Expected target {name!r} to have at least two values, but all are {as_text(values[0])!r}."
            )
        if len(target) > 1:
            wrong = ~column.isin([0, 1]).to_numpy()
            if wrong.any():
                row = int(np.argmax(wrong))
                got = as_text(column.iloc[row])
                raise ValueError(f"Expected several targets to be 0 or 1, but {name!r} has {got!r} in row {row}.")
    if len(target) > 1:
        if task == "regression":
            raise ValueError(f"Expected one target for regression, but got {len(target)}.")
        return "classification", f"{len(target)} targets of 0 and 1"
    column = frame[target[0]]
    numeric = is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype)
    if task == "regression" and not is_numeric_dtype(column.dtype):
        raise ValueError(
            f"Expected target {target[0]!r} to be numbers for regression, but got {as_text(column.iloc[0])!r}."
        )
    if task is not None:
        return task, "as `--task` says"
    if not numeric:
        return "classification", "the target is names"
    if not (column % 1 == 0).all():
        return "regression", "the target is real numbers"
    if column.nunique() > MOST_CLASSES:
        return "regression", f"the target is whole numbers of {column.nunique()} values"
    return "classification", f"the target is {column.nunique()} whole numbers"


# -------------------------------------------------------------------------------- stored form


@dataclass(frozen=True)
class Schema:
    """What a model folder says of the table that the model was trained on."""

    roles: Roles
    task: str
    inputs: dict[str, Input]
    privileged: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        """Read what `to_json` made."""
        roles: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list | tuple) else value for name, value in facts["roles"].items()
        }
        inputs = {name: Input(**column) for name, column in facts["inputs"].items()}
        return cls(Roles(**roles), facts["task"], inputs, dict(facts["privileged"]))

    def csv_types(self, keep: Iterable[str]) -> dict[str, pa.DataType]:
        """Types to read a CSV file's columns with; kept columns stay as they are written."""
        as_written = dict.fromkeys(keep, pa.string())
        return as_written | {name: CSV_TYPES.get(column.stored, pa.string()) for name, column in self.inputs.items()}


# -------------------------------------------------------------------------------- all of it


class Asked(Protocol):
    """What a command that reads annotations was asked for."""

    @property
    def table(self) -> Path:
        """The file or folder."""

    @property
    def target(self) -> Sequence[str]:
        """Columns of labels."""

    @property
    def privileged(self) -> Sequence[str]:
        """Privileged columns."""

    @property
    def example(self) -> str | None:
        """Column of ids of examples."""

    @property
    def ignore(self) -> Sequence[str]:
        """Columns not to use."""

    @property
    def kind(self) -> Sequence[str]:
        """Kinds that the user gives to columns, as COLUMN=KIND."""

    @property
    def task(self) -> str | None:
        """Classification or regression, where the user says."""


@dataclass(frozen=True)
class AnnotationTable:
    """A table of annotations that has been read, with what every column is."""

    frame: pd.DataFrame
    schema: Schema
    stored: pa.Schema
    said: list[str]
    """What was recognised, in sentences."""
    notes: list[str]


def read_annotations(asked: Asked, missing: str | None) -> AnnotationTable:
    """Read a table, and find the role and the kind of every column.

    Parameters
    ----------
    asked : Asked
        The table, and what the user says of its columns.
    missing : str, optional
        The sentence that refuses a table without privileged columns, where they are needed.
    """
    names = open_table(asked.table).schema.names
    roles = Roles.of(
        names,
        split_names(asked.target, names),
        split_names(asked.privileged, names),
        asked.example,
        split_names(asked.ignore, names),
    )
    if missing and not roles.privileged:
        raise ValueError(missing)
    given = read_kinds(asked.kind, names)
    for name in given:
        if name not in (*roles.inputs, *roles.privileged):
            raise ValueError(f"Expected `--kind` to name an input or a privileged column, but got {name!r}.")
    example = [roles.example] if roles.example else []
    table = read_table(asked.table, roles.used, [*(n for n, kind in given.items() if kind != "number"), *example])
    check_types(table.schema, roles.target, "target")
    check_types(table.schema, example, "example")
    frame = as_pandas(table)
    task, reason = target_task(frame, roles.target, asked.task)
    inputs, notes = input_kinds(frame, table.schema, roles, given)
    kinds, more = privileged_kinds(frame, roles, given)
    said = [
        f"Task: {task} ({reason}).",
        f"Inputs: {counted(inputs)}.",
        "Privileged: " + (", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none") + ".",
    ]
    return AnnotationTable(frame, Schema(roles, task, inputs, kinds), table.schema, said, [*notes, *more])


def counted(inputs: Mapping[str, Input]) -> str:
    """Count the columns of each kind; of what is no number, name them.

    Examples
    --------
    >>> counted({"a": Input("number", "number"), "b": Input("number", "number"), "c": Input("text", "string")})
    '2 number, 1 text (c)'
    """
    kinds: dict[str, list[str]] = {}
    for name, column in inputs.items():
        kinds.setdefault(column.kind, []).append(name)
    return ", ".join(
        f"{len(names)} {kind}" + ("" if kind == "number" else f" ({', '.join(names)})") for kind, names in kinds.items()
    )

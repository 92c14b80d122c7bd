"""Give every column of a table one role and one kind. Messages count rows from 0."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from lupi._internal.json_types import from_json
from lupi.tabular.encoding import ID, Column, as_text, is_id, is_number
from lupi.tabular.formats.separated import is_separated
from lupi.tabular.kinds import KINDS, RowNumbers
from lupi.tabular.soft_labels import check_probabilities
from lupi.tabular.spec import TableSpec

MAX_CATEGORIES = 1_000
"""A column with more distinct strings is an identifier, unless the user chooses its kind."""
MAX_CLASSES = 100
"""A target with more distinct integers is a quantity, unless the user chooses the task."""
TASKS = ("classification", "regression")
LISTS = "; write each of its values, such as the numbers of an embedding, to a column of its own"
"""Advice for columns of lists."""
TRUTH = re.compile(r"(?<![a-z])(gold|(ground)?truth|true[ _.-]?labels?)(?![a-z])", re.IGNORECASE)
"""Names of columns of true labels."""
TABLE_ADVICE = {
    "identifier": "name it in `example`, `privileged` or `ignore`",
    "truth": "name it in `ignore`, or in `gold` where that is an argument",
    "privileged": "name it in `ignore`",
}
"""What users of a table can do with a column that cannot be an input or privileged information."""
CSV_TYPES = {"number": pa.float64(), "boolean": pa.bool_(), "string": pa.string(), "date": pa.timestamp("ns")}


# -------------------------------------------------------------------------------- roles


@dataclass(frozen=True, kw_only=True)
class Roles:
    """The role of each column of a table."""

    target: tuple[str, ...]
    privileged: tuple[str, ...] = ()
    example: str | None = None
    ignored: tuple[str, ...] = ()
    inputs: tuple[str, ...]

    @classmethod
    def of(cls, spec: TableSpec, names: Sequence[str]) -> Self:
        """Assign the columns of a table to the roles of a spec; columns without a role are inputs.

        Examples
        --------
        >>> spec = TableSpec(table=Path("t.csv"), target=["label"], privileged=["worker"], example="id")
        >>> Roles.of(spec, ["id", "age", "worker", "label"]).inputs
        ('age',)
        """
        target, privileged, ignore = (split_names(v, names) for v in (spec.target, spec.privileged, spec.ignore))
        single = (spec.example or None, spec.gold, spec.weight, spec.annotator)
        example, gold, weight, annotator = ([] if name is None else [name] for name in single)
        ignore = [name for name in ignore if name not in gold]  # whether or not users ignore it, too
        annotator = [name for name in annotator if name not in (*privileged, *ignore)]
        role: dict[str, str] = {}
        assigned = {"target": target, "example": example, "gold": gold, "weight": weight, "privileged": privileged}
        for argument, columns in (assigned | {"annotator": annotator, "ignore": ignore}).items():
            for column in columns:
                check_name(column, names, argument)
                if column in role:
                    both = f"`{role[column]}` and `{argument}`"
                    raise ValueError(f"Expected column {column!r} to have one role, but got {both}.")
                role[column] = argument
        inputs = tuple(name for name in names if name not in role)
        if not target:
            raise ValueError("Expected `target` to name a column, but got none.")
        if not inputs:
            raise ValueError("Expected some columns to be inputs, but every column has another role.")
        return cls(
            target=tuple(target),
            privileged=(*privileged, *annotator),
            example=spec.example or None,
            ignored=(*ignore, *gold, *weight),
            inputs=inputs,
        )


def check_name(column: str, names: Sequence[str], argument: str, of: str = "the table") -> None:
    """Raise a `ValueError` unless a table has the column; propose the nearest name. `of` names the table."""
    if column not in names:
        near = difflib.get_close_matches(column, names, n=1)
        some = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {some}."
        raise ValueError(f"Expected `{argument}` to name a column of {of}, but got {column!r}: {hint}")


def find_annotator(frame: pd.DataFrame, kinds: Mapping[str, str]) -> str | None:
    """Find the column that says who gave each label: the first that is named like one and whose values repeat.

    Parameters
    ----------
    frame : DataFrame
        The privileged columns.
    kinds : mapping
        Kinds of columns; by default recognised. An annotator is a category.

    Examples
    --------
    >>> A = pd.DataFrame({"seconds": [2, 3, 2, 9], "worker_id": [7, 8, 8, 7]})
    >>> find_annotator(A, {}), find_annotator(A[["seconds"]], {}), find_annotator(A, {"worker_id": "number"})
    ('worker_id', None, None)
    """
    for name in frame.columns:
        named = ID.search(name) and kinds.get(name, recognise_privileged_column(frame[name])) == "category"
        if named and 1 < frame[name].nunique() <= len(frame) / 2:
            return str(name)
    return None


def split_names(values: Sequence[str], names: Sequence[str]) -> list[str]:
    """Split comma-separated column names; a value that is itself the name of a column stays whole.

    Examples
    --------
    >>> split_names(["annotator, seconds", "a,b"], ["annotator", "seconds", "a,b"])
    ['annotator', 'seconds', 'a,b']
    """
    parts = [[value] if value in names else value.split(",") for value in values]
    return [name.strip() for part in parts for name in part if name.strip()]


# -------------------------------------------------------------------------------- kinds


@dataclass(frozen=True)
class InputColumn:
    """An input column: its kind, and the family of types that it was stored as in training."""

    kind: str
    stored: str


def stored_as(kind: pa.DataType) -> str:
    """Return the family of an Arrow type: boolean, number, string, date, duration, or the type's own name."""
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


def check_types(schema: pa.Schema, names: Sequence[str], role: str, allowed: Sequence[str]) -> None:
    """Raise a `ValueError` for columns that are stored in another way, such as lists."""
    for name in names:
        if (stored := stored_as(schema.field(name).type)) not in allowed:
            families = ", ".join(f"{family}s" for family in allowed if family != "null")
            advice = LISTS if re.search("list|struct|map", stored) else ""
            raise ValueError(f"Expected {role} column {name!r} to be one of {families}, but it is {stored}{advice}.")


def check_kinds(given: Mapping[str, str], names: Sequence[str], roles: Roles) -> None:
    """Raise a `ValueError` unless the user chose known kinds for inputs or privileged columns."""
    choosable = [name for name, kind in KINDS.items() if kind.choosable]
    for column, kind in given.items():
        if kind not in choosable:
            raise ValueError(f"Expected `kind` of column {column!r} to be one of {choosable}, but got {kind!r}.")
        check_name(column, names, "kind")
        if column not in (*roles.inputs, *roles.privileged):
            raise ValueError(f"Expected `kind` to name an input or privileged column, but got {column!r}.")


def check_reads(name: str, kind: str, stored: str) -> None:
    """Raise a `ValueError` unless a column that is stored in this way can be read as this kind."""
    if not KINDS[kind].reads(stored):
        raise ValueError(f"Expected column {name!r} to be strings to be read as {kind}, but it is {stored}.")


def recognise_inputs(
    frame: pd.DataFrame, schema: pa.Schema, roles: Roles, given: Mapping[str, str]
) -> tuple[dict[str, InputColumn], list[str]]:
    """Recognise the kinds of input columns, refuse identifiers, and note what deserves a second look.

    Returns
    -------
    tuple
        The input columns, and notes for the user.
    """
    first = frame.drop_duplicates(roles.example) if roles.example else frame
    check_types(schema, roles.inputs, "input", ("boolean", "number", "string", "date", "duration"))
    inputs, notes = {}, []
    for name in roles.inputs:
        stored = stored_as(schema.field(name).type)
        kind = given.get(name) or recognise_input(first[name], stored, TABLE_ADVICE)
        check_reads(name, kind, stored)
        inputs[name] = InputColumn(kind, stored)
    counts = [name for name in inputs if name not in given and pa.types.is_integer(schema.field(name).type)]
    different = {name: first[name].nunique() for name in counts}
    examples = len(first[list(inputs)].drop_duplicates()) if any(n > 20 for n in different.values()) else 0
    notes += [
        f"Input column {name!r} has a different integer in nearly every example; if it is an id, name it in "
        "`example` or `ignore`."
        for name, n in different.items()
        if n > 20 and n > 0.9 * examples
    ]
    return inputs, notes


def recognise_input(column: Column, stored: str, advice: Mapping[str, str]) -> str:
    """Return the kind of an input column by its values; refuse true labels, lists and identifiers.

    Parameters
    ----------
    column : Series
        The values, one per example.
    stored : str
        The family of types that they are stored as.
    advice : mapping
        What users can do with an "identifier" and with the "truth", for messages.
    """
    name, values, count = str(column.name), column.count(), column.nunique()
    kind = next(kind.name for kind in KINDS.values() if kind.recognises(column, stored))
    use = f"pass `kind={{{name!r}: {kind!r}}}` to use it as an input"
    if TRUTH.search(name):
        what = f"{name!r} is named like them: {advice['truth']}, or {use}"
        raise ValueError(f"Expected input columns without true labels, but {what}.")
    if stored == "string" and holds_lists(column):
        got = f"lists such as {str(column.dropna().iloc[0])[:30]!r}"
        raise ValueError(f"Expected input column {name!r} to have one value per row, but got {got}{LISTS}.")
    if kind == "number" and stored == "number" and is_id(column):
        why = "holds integers and is named like an id"
    elif kind == "category" and (count > max(20, 0.9 * values) or count > MAX_CATEGORIES):
        why = f"has {count:,} distinct strings in {values:,} examples"
    else:
        return kind
    what = f"{name!r} {why}: {advice['identifier']}, or {use}"
    raise ValueError(f"Expected input columns without identifiers, but {what}.")


def holds_lists(column: Column) -> bool:
    """Return whether strings are lists, such as the embeddings that a CSV file can only hold as strings.

    Examples
    --------
    >>> holds_lists(pd.Series(["[0.5, 1.5]", "[2.5 3.5]"])), holds_lists(pd.Series(["[sic]", "a, b"]))
    (True, False)
    """
    some = [str(value).strip() for value in column.dropna().head(100)]
    return bool(some) and all(re.fullmatch(r"\[[^\]]*[,\s][^\]]*\]", value, re.DOTALL) for value in some)


def recognise_privileged(
    frame: pd.DataFrame, schema: pa.Schema, roles: Roles, given: Mapping[str, str], annotator: str | None = None
) -> tuple[dict[str, str], list[str]]:
    """Recognise the kinds of privileged columns, with notes for the user; refuse identifiers.

    The column of annotators, if users name it, is a category whatever its values.
    """
    check_types(schema, roles.privileged, "privileged", ("boolean", "number", "string", "date", "duration", "null"))
    kinds, notes = {}, []
    for name in roles.privileged:
        if name in given:
            kinds[name] = given[name]
            if KINDS[given[name]].privileged is None:
                chosen = f"`kind={{{name!r}: {given[name]!r}}}`"
                raise ValueError(f"Expected privileged column {name!r} to be a category or a number, but got {chosen}.")
            check_reads(name, given[name], stored_as(schema.field(name).type))
            continue
        kinds[name] = recognise_privileged_column(frame[name])
        if name != annotator:
            use = f"{TABLE_ADVICE['privileged']}, or pass `kind={{{name!r}: {kinds[name]!r}}}` to use it"
            check_privileged(frame[name], kinds[name], use)
        if kinds[name] == "category" and is_number(frame[name]):
            notes.append(
                f"Privileged column {name!r} holds integers that look like ids, so each value is a category; "
                f"pass `kind={{{name!r}: 'number'}}` to make it a quantity."
            )
    return kinds, notes


def recognise_privileged_column(column: Column) -> str:
    """Return the kind of a privileged column by its name and values; dates and durations are quantities.

    Strings are text if most differ and they read like sentences, such as the comments of annotators.

    Examples
    --------
    >>> recognise_privileged_column(pd.Series([2.5, 3.0], name="seconds"))
    'number'
    >>> recognise_privileged_column(pd.Series([f"I like film {i}" for i in range(30)], name="comment"))
    'text'
    """
    if is_number(column):
        return "category" if is_id(column) else "number"
    if column.dtype.kind in "mM":
        return "number"
    if is_bool_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype) or ID.search(str(column.name)):
        return "category"
    return (
        "text" if column.nunique() > column.count() / 2 and KINDS["text"].recognises(column, "string") else "category"
    )


def check_privileged(column: Column, kind: str, advice: str) -> None:
    """Raise a `ValueError` if a privileged column holds identifiers: strings, or ids, that nearly all differ."""
    values, count = column.count(), column.nunique()
    if kind == "category" and count > max(20, 0.9 * values):
        why = f"has {count:,} distinct values in {values:,} rows"
        raise ValueError(f"Expected privileged columns without identifiers, but {column.name!r} {why}: {advice}.")


def clean_inputs(
    frame: pd.DataFrame, inputs: Mapping[str, InputColumn], rows: RowNumbers | None = None
) -> pd.DataFrame:
    """Return the input columns with the types of their kinds, and refuse missing values of kinds that need one.

    Parameters
    ----------
    frame : DataFrame
        Rows of a table.
    inputs : mapping
        The input columns.
    rows : sequence of int, optional
        Numbers of these rows in the table, for messages; by default they are counted from 0.

    Examples
    --------
    >>> clean_inputs(pd.DataFrame({"zip": [8001, 3011]}), {"zip": InputColumn("category", "number")})["zip"].tolist()
    ['8001', '3011']
    """
    rows = range(len(frame)) if rows is None else rows
    for name, column in inputs.items():
        missing = frame[name].isna().to_numpy()
        if missing.any() and not KINDS[column.kind].may_be_missing:
            row = rows[int(np.argmax(missing))]
            raise ValueError(f"Expected input column {name!r} to have a value in every row, but row {row} has none.")
    return pd.DataFrame(
        {name: KINDS[column.kind].clean(frame[name], column.stored, rows) for name, column in inputs.items()}
    )


def estimator_kinds(inputs: Mapping[str, InputColumn]) -> dict[str, str]:
    """Return the parameter `kind` of an estimator of cleaned inputs, so that it does not recognise them once more.

    Examples
    --------
    >>> estimator_kinds({"zip": InputColumn("category", "number"), "note": InputColumn("text", "string")})
    {'zip': 'category'}
    """
    return {
        name: "category" if column.kind == "category" else "number"
        for name, column in inputs.items()
        if KINDS[column.kind].make_encoder(None, "cpu") is None
    }


def check_matches(schema: pa.Schema, inputs: Mapping[str, InputColumn], path: str | Path) -> None:
    """Raise a `ValueError` unless a table has the input columns of training, stored in a compatible way."""
    missing = [name for name in inputs if name not in schema.names]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ValueError(f"Expected {path} to have the model's input columns, but it has no {missing[0]!r}{more}.")
    for name, column in inputs.items():
        stored = stored_as(schema.field(name).type)
        as_string = is_separated(path) and column.stored == "string"  # a CSV column can always be read as strings
        empty = stored == "null"  # at least in the beginning of the file; rows without a value are found when read
        if not (as_string or empty or KINDS[column.kind].accepts(column.stored, stored)):
            raise ValueError(
                f"Expected column {name!r} of {path} to be a {column.stored} as in training, but it is a {stored}."
            )


# -------------------------------------------------------------------------------- targets


def choose_task(frame: pd.DataFrame, target: Sequence[str], task: str | None, *, soft: bool = False) -> tuple[str, str]:
    """Check the target columns, and choose classification or regression.

    A target of numbers is a quantity if some are not integers or if there are more than `MAX_CLASSES` distinct ones.
    Targets that are `soft` are probabilities of classes.

    Returns
    -------
    tuple
        The task, and the reason in words.

    Examples
    --------
    >>> choose_task(pd.DataFrame({"price": [1.5, 2.0, 3.25]}), ["price"], None)
    ('regression', 'the target holds real numbers')
    """
    if task not in (None, *TASKS):
        raise ValueError(f"Expected `task` to be one of {', '.join(TASKS)}, but got {task!r}.")
    for name in target:
        check_target(frame[name], binary=len(target) > 1 and not soft)
    if soft:
        check_probabilities(frame[list(target)], "the targets")
        if task == "regression":
            raise ValueError("Expected `soft` targets for classification, but `task` is 'regression'.")
        return "classification", f"the targets are probabilities of {len(target)} classes"
    for name in target:
        if frame[name].nunique() < 2:
            got = as_text(frame[name].iloc[0])
            raise ValueError(f"Expected target {name!r} to have at least two values, but all are {got!r}.")
    if len(target) > 1:
        if task == "regression":
            raise ValueError(f"Expected one target for regression, but got {len(target)}.")
        return "classification", f"{len(target)} targets of 0 and 1"
    column = frame[target[0]]
    if task == "regression" and not is_numeric_dtype(column.dtype):
        raise ValueError(
            f"Expected target {target[0]!r} to be numbers for regression, but got {as_text(column.iloc[0])!r}."
        )
    if task is not None:
        return task, "as `task` says"
    if not is_number(column):
        return "classification", "the target holds names"
    if not (column % 1 == 0).all():
        return "regression", "the target holds real numbers"
    count = column.nunique()
    return "regression" if count > MAX_CLASSES else "classification", f"the target holds {count} distinct integers"


def check_target(column: Column, *, binary: bool, of: str = "") -> None:
    """Raise a `ValueError` unless a target has a value in every row, 0 or 1 if `binary`; `of` names the table."""
    missing = column.isna().to_numpy()
    if missing.any():
        row = column.index[int(np.argmax(missing))]
        raise ValueError(f"Expected target {column.name!r}{of} to have a value in every row, but row {row} has none.")
    wrong = ~column.isin([0, 1]).to_numpy()
    if binary and wrong.any():
        place = int(np.argmax(wrong))
        got = f"{as_text(column.iloc[place])!r} in row {column.index[place]}"
        raise ValueError(f"Expected several targets to be 0 or 1, but {column.name!r}{of} has {got}.")


def find_unlabelled(labels: pd.DataFrame, *, classes: bool) -> NDArray[np.bool_]:
    """Return which rows have no label: all of their targets are missing or, for a single target of classes, −1.

    −1 means unlabelled only if all other labels are integers from 0 on and of two classes or more; it is a class beside
    names, beside other negative numbers, and in {−1, 1}.

    Parameters
    ----------
    labels : DataFrame
        The targets.
    classes : bool
        Whether they are classes rather than real numbers.

    Examples
    --------
    >>> find_unlabelled(pd.DataFrame({"y": [0, 1, -1, None]}), classes=True)
    array([False, False,  True,  True])
    >>> find_unlabelled(pd.DataFrame({"y": [1, 1, -1, None]}), classes=True)
    array([False, False, False,  True])
    """
    missing = np.asarray(labels.isna().all(axis=1))
    column = labels.iloc[:, 0]
    if not classes or labels.shape[1] > 1 or not is_number(column):
        return missing
    values = column.to_numpy(np.float64, na_value=np.nan)
    others = np.unique(values[~missing & (values != -1)])
    counts = len(others) > 1 and np.isfinite(others).all() and (others >= 0).all() and (others % 1 == 0).all()
    return missing | (values == -1) if counts else missing


# -------------------------------------------------------------------------------- schema


@dataclass(frozen=True)
class Schema:
    """What a model folder stores about its training table."""

    roles: Roles
    task: str
    inputs: dict[str, InputColumn]
    privileged: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`, or raise a `ValueError` if it is something else."""
        schema: Self = from_json(facts, cls)
        for name, column in schema.inputs.items():
            if column.kind not in KINDS:
                raise ValueError(f"Expected `inputs.{name}.kind` to be one of {list(KINDS)}, but got {column.kind!r}.")
        if schema.task not in TASKS:
            raise ValueError(f"Expected `task` to be one of {', '.join(TASKS)}, but got {schema.task!r}.")
        return schema

    def csv_types(self, keep: Iterable[str]) -> dict[str, pa.DataType]:
        """Return the types to read columns of a CSV file with; the columns to `keep` are read as strings."""
        strings = dict.fromkeys(keep, pa.string())
        return strings | {name: CSV_TYPES.get(column.stored, pa.string()) for name, column in self.inputs.items()}


def privileged_encoding(kinds: Mapping[str, str]) -> dict[str, str]:
    """Return how `PrivilegedEncoder` encodes privileged columns of these kinds.

    Examples
    --------
    >>> privileged_encoding({"annotator": "category", "seconds": "number"})
    {'annotator': 'category', 'seconds': 'quantile'}
    """
    return {name: KINDS[kind].privileged or "category" for name, kind in kinds.items()}

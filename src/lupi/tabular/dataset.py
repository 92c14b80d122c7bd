"""Read a table into arrays: inputs, coded targets, examples and privileged information."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from lupi._internal.sanitizing import one_line
from lupi.tabular import columns, recognizing, targets
from lupi.tabular.columns import InputColumn, Schema
from lupi.tabular.containers import to_pandas
from lupi.tabular.examples import check_examples, group_equal_inputs, hash_rows
from lupi.tabular.features import encode_columns, fit_encoders, is_fixed
from lupi.tabular.folds import number_examples
from lupi.tabular.formats import open_file
from lupi.tabular.kinds import KINDS
from lupi.tabular.kinds.vector import as_bytes
from lupi.tabular.lazy import Columns
from lupi.tabular.notation import note_notation
from lupi.tabular.reading import open_columns, read_schema, read_table
from lupi.tabular.relative_paths import folder_of
from lupi.tabular.roles import Roles
from lupi.tabular.soft_labels import check_probabilities, check_weights
from lupi.tabular.spec import TableSpec
from lupi.tabular.values import Column, as_text


@dataclass(frozen=True, kw_only=True)
class AnnotationTable:
    """A table with the role and kind of every column."""

    columns: Columns
    schema: Schema
    annotator: str | None
    choices: list[str]
    notes: list[str]


def read_annotations(spec: TableSpec) -> AnnotationTable:
    """Open a table and recognize its columns, which are read one by one."""
    opened = open_file(spec.table)
    given, names = spec.kind, read_schema(opened).names
    roles = Roles.of(spec, names)
    recognizing.check_kinds(given, names, roles)
    single = (roles.example, spec.gold, spec.weight, spec.annotator)
    example, gold, weight, annotator = ([] if name is None else [name] for name in single)
    used = dict.fromkeys([*roles.target, *roles.privileged, *example, *roles.inputs, *gold, *weight, *annotator])
    strings = [*(name for name, kind in given.items() if kind != "number"), *example]
    table, types = open_columns(spec.table, list(used), dict.fromkeys(strings, pa.string()))
    for role, named in {"target": roles.target, "example": example, "gold": gold, "annotator": annotator}.items():
        recognizing.check_types(types, named, role, ("boolean", "number", "string"))
    recognizing.check_types(types, weight, "weight", ("boolean", "number"))
    labels = pd.DataFrame({name: table[name] for name in roles.target})
    labels, unlabelled = drop_unlabelled(labels, roles.target, classes=False)
    task, reason = targets.choose_task(labels, roles.target, spec.task, soft=spec.soft)
    if task == "classification":
        labels, coded = drop_unlabelled(labels, roles.target, classes=True)
        unlabelled += coded
    if len(labels) < len(table):
        table = table.take(labels.index.to_numpy())
    for name in weight:
        check_weights(table[name], f"weight column {name!r}")
    inputs, notes = recognizing.recognize_inputs(table, types, roles, given)
    kinds, more = recognizing.recognize_privileged(table, types, roles, given, spec.annotator)
    schema = Schema(roles, task, inputs, kinds)
    who, choice = choose_annotator(spec, table, schema)
    known = []
    for name in gold:
        line, strange = targets.check_gold(table, name, roles.target, task, soft=spec.soft)
        known, more = [line], [*more, *strange]
    if spec.trust and who is None:
        raise ValueError("Expected a column of annotators for `trust`: name it in `annotator`.")
    choices = [
        *([opened.note] if opened.note else []),
        f"Task: {task} ({reason}).",
        f"Inputs: {count_kinds(inputs)}.",
        "Privileged: " + (", ".join(f"{name} ({kind})" for name, kind in kinds.items()) or "none") + ".",
        choice,
        *(f"Weights: {name}." for name in weight),
        *known,
    ]
    if task == "classification" and len(roles.target) == 1:
        column = labels[roles.target[0]]
        notes = [*targets.note_spellings(column), *notes]
        if spec.task is None:
            find = targets.note_quantity if is_numeric_dtype(column.dtype) else partial(note_notation, role="Target")
            notes = [*find(column), *notes]
    lines = [[one_line(text) for text in texts] for texts in (choices, (*unlabelled, *notes, *more))]
    return AnnotationTable(columns=table, schema=schema, annotator=who, choices=lines[0], notes=lines[1])


def drop_unlabelled(
    frame: pd.DataFrame, target: Sequence[str], *, classes: bool, of: str = "the table"
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that have a label, and a note on the others (see `lupi.tabular.targets.find_unlabelled`)."""
    unlabelled = targets.find_unlabelled(frame[list(target)], classes=classes)
    if unlabelled.all():
        raise ValueError(f"Expected target {target[0]!r} of {of} to have values, but all are missing.")
    if not unlabelled.any():
        return frame, []
    values = frame.loc[unlabelled, target[0]]
    what = "missing" if values.isna().all() else "-1" if values.notna().all() else "missing or -1"
    return frame[~unlabelled], [
        f"{unlabelled.sum():,} of {len(frame):,} rows of {of} have no label ({what}) and are left out."
    ]


def choose_annotator(spec: TableSpec, table: Columns, schema: Schema) -> tuple[str | None, str]:
    """Return the column of annotators, if any, and a sentence that says whether it was given or recognized."""
    if spec.annotator is not None:
        return spec.annotator, f"Annotators: {spec.annotator}."
    name = recognizing.find_annotator(table.select(list(schema.privileged)), schema.privileged)
    if name is not None:
        return name, f"Annotators: {name}, by its name; `annotator` names another column."
    name = recognizing.find_annotator(table.select(list(schema.inputs)), {})
    found = "Annotators: no privileged column has a name such as 'annotator'; `annotator` names the column."
    advice = "if you do not know it when you predict, name it in `privileged`"
    return None, found if name is None else f"{found} Input column {name!r} has such a name; {advice}."


def count_kinds(inputs: Mapping[str, InputColumn]) -> str:
    """Count the input columns of each kind, and name those that are not numbers."""
    kinds: dict[str, list[str]] = {}
    for name, column in inputs.items():
        kinds.setdefault(column.kind, []).append(name)
    parts = []
    for kind, names in kinds.items():
        plural = "categories" if kind == "category" else f"{kind}s"
        listed = "" if kind == "number" else f" ({', '.join(names)})"
        parts.append(f"{len(names)} {kind if len(names) == 1 else plural}{listed}")
    return ", ".join(parts)


# -------------------------------------------------------------------------------- arrays


@dataclass(frozen=True)
class TableRows:
    """Rows of a table: inputs, coded targets, and the number of each row's example.

    If there are `soft` labels, [rows, classes], the target is the most probable class.
    """

    X: pd.DataFrame
    y: NDArray[Any]
    example: NDArray[np.int64]
    soft: NDArray[np.float64] | None = None
    weight: NDArray[np.float64] | None = None

    def take(self, rows: NDArray[Any]) -> TableRows:
        """Return some of the rows."""
        soft, weight = (None if values is None else values[rows] for values in (self.soft, self.weight))
        return TableRows(self.X.iloc[rows].reset_index(drop=True), self.y[rows], self.example[rows], soft, weight)


@dataclass(frozen=True, kw_only=True)
class TableDataset:
    """A table as arrays.

    Parameters
    ----------
    schema : Schema
        Roles and kinds of the columns.
    task : {"classification", "multi-label", "regression"}
        The task.
    classes : tuple
        The classes that y encodes, or the names of several targets; empty for regression.
    train : TableRows
        The annotations.
    privileged : DataFrame
        The privileged columns of the annotations.
    test : TableRows or None
        The rows of a test table.
    unencoded : dict
        Input columns to encode with `fit_encoders`, fitted on the training rows only; empty if X is already encoded.
    annotator : str or None
        The column of annotators.
    annotators : ndarray or None
        The annotator of each row; missing names are "(missing)".
    gold : Series or None
        The true label of each row.
    ids : Series or None
        The example ids of the table.
    choices, notes : list of str
        Sentences that say what was recognized, and warnings about the table.
    rows : ndarray
        The row numbers in the table; rows without a label are skipped.
    digest : str
        A hash of the names and values.
    """

    schema: Schema
    task: str
    classes: tuple[Any, ...]
    train: TableRows
    privileged: pd.DataFrame
    test: TableRows | None
    unencoded: dict[str, InputColumn]
    annotator: str | None
    annotators: NDArray[Any] | None
    gold: Column | None
    ids: Column | None
    choices: list[str]
    notes: list[str]
    rows: NDArray[np.int64]
    digest: str


def read_dataset(spec: TableSpec, *, test: Path | None = None, device: str = "cpu") -> TableDataset:
    """Read a table, and optionally a test table, into arrays.

    Parameters
    ----------
    spec : TableSpec
        The table and the roles of its columns.
    test : Path, optional
        A table with the same inputs and target that holds true labels.
    device : str
        Device of a Hugging Face text encoder.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "table.csv")
    ...     pd.DataFrame({"x": [0.5, 1.5], "worker": ["ann", "bob"], "y": ["no", "yes"]}).to_csv(path, index=False)
    ...     data = read_dataset(TableSpec(table=path, target=["y"], privileged=["worker"]))
    >>> data.classes, data.train.y.tolist(), data.annotator
    (('no', 'yes'), [0, 1], None)
    """
    table = read_annotations(spec)
    frame, schema = table.columns.to_frame(), table.schema
    target = schema.roles.target
    test_frame, unlabelled = (None, []) if test is None else read_test(test, schema, frame, soft=spec.soft)
    classes: tuple[Any, ...] = ()
    if schema.task == "classification":
        classes = target if len(target) > 1 else tuple(np.unique(frame[target[0]]))
    train, grouped = code_rows(frame, schema, classes, spec.table, soft=spec.soft)
    ids = frame[schema.roles.example] if schema.roles.example else None
    if ids is not None:
        check_examples(ids.to_numpy(), train.X, frame.index.to_numpy())
    if spec.weight is not None:
        train = replace(train, weight=frame[spec.weight].to_numpy(np.float64))
    tested = (
        None if test is None or test_frame is None else code_rows(test_frame, schema, classes, test, soft=spec.soft)[0]
    )
    notes = [*table.notes, *unlabelled, *grouped]
    if tested is not None:
        seen = np.isin(hash_rows(tested.X), hash_rows(train.X))
        if seen.any():
            notes.append(f"{seen.sum():,} of {len(seen):,} rows of the test table have the inputs of training rows.")
    fixed = {name: column for name, column in schema.inputs.items() if is_fixed(column, spec.pretrained)}
    encoders = fit_encoders(train.X, fixed, spec.pretrained, device)
    train = replace(train, X=encode_columns(train.X, encoders))
    tested = tested and replace(tested, X=encode_columns(tested.X, encoders))
    contents = [train.X] if any(KINDS[column.kind].names_files for column in fixed.values()) else []
    annotator = table.annotator
    names = None if annotator is None else ["(missing)" if pd.isna(v) else as_text(v) for v in frame[annotator]]
    return TableDataset(
        schema=schema,
        task="multi-label" if len(target) > 1 and not spec.soft else schema.task,
        classes=classes,
        train=train,
        privileged=frame[list(schema.roles.privileged)],
        test=tested,
        unencoded={name: column for name, column in schema.inputs.items() if name not in fixed},
        annotator=annotator,
        annotators=None if names is None else np.array(names, dtype=object),
        gold=None if spec.gold is None else frame[spec.gold],
        ids=ids,
        choices=table.choices,
        notes=notes,
        rows=frame.index.to_numpy(),
        digest=fingerprint([frame, *([] if test_frame is None else [test_frame]), *contents]),
    )


def read_test(path: Path, schema: Schema, train: pd.DataFrame, *, soft: bool) -> tuple[pd.DataFrame, list[str]]:
    """Read the input columns and the target of a test table with the types of training, and return notes on it."""
    stored, target = read_schema(open_file(path)), schema.roles.target
    for name in target:
        if name not in stored.names:
            raise ValueError(f"Expected {path} to have the target {name!r}, but it has no such column.")
    columns.check_matches(stored, schema.inputs, path)
    example = [name for name in (schema.roles.example,) if name and name in stored.names]
    trained = pa.Schema.from_pandas(train[list(target)])
    families = {name: columns.stored_as(trained.field(name).type) for name in target}
    strings = [*example, *(name for name, family in families.items() if family == "string")]
    rows = read_table(path, [*target, *example, *schema.inputs], schema.csv_types(strings))
    frame, notes = drop_unlabelled(to_pandas(rows), target, classes=schema.task == "classification", of=str(path))
    for name, family in families.items():
        got = columns.stored_as(rows.schema.field(name).type)
        if family != got:
            raise ValueError(f"Expected target {name!r} of {path} to be a {family} as in training, but it is a {got}.")
        targets.check_target(frame[name], binary=len(target) > 1 and not soft, of=f" of {path}")
    return frame, notes


def code_rows(
    frame: pd.DataFrame, schema: Schema, classes: tuple[Any, ...], path: Path, *, soft: bool = False
) -> tuple[TableRows, list[str]]:
    """Clean the inputs, code the targets and number the examples; also return notes on rows with equal inputs."""
    X = columns.clean_inputs(frame, schema.inputs, frame.index.to_numpy(), folder_of(path))
    target, example = schema.roles.target, schema.roles.example
    p = check_probabilities(frame[list(target)], f"the targets of {path}") if soft else None
    y: NDArray[Any]
    if p is not None:
        y = p.argmax(1)
    elif schema.task == "regression":
        y = frame[target[0]].to_numpy(np.float64)
    elif len(target) > 1:
        y = frame[list(target)].to_numpy(np.int64)
    else:
        y = pd.Index(classes).get_indexer(pd.Index(frame[target[0]]))
        if (y < 0).any():
            place = int((y < 0).argmax())
            got = f"row {frame.index[place]} has {frame[target[0]].iloc[place]!r}"
            raise ValueError(f"Expected {path} to have labels of the training table, but {got}.")
    ids, notes = (frame[example], []) if example in frame else group_equal_inputs(X)
    if isinstance(ids, pd.Series) and (missing := ids.isna()).any():
        row = frame.index[int(missing.argmax())]
        raise ValueError(f"Expected example {example!r} to have an id in every row, but row {row} has none.")
    return TableRows(X, y, number_examples(ids, len(frame)), p), notes


def fingerprint(frames: Sequence[pd.DataFrame]) -> str:
    """Return a hash of the names and values of tables."""
    total = hashlib.sha256()
    for frame in frames:
        total.update(repr(list(frame)).encode())
        plain = pd.DataFrame({name: as_bytes(column) for name, column in frame.items()})
        total.update(np.asarray(pd.util.hash_pandas_object(plain, index=False)).tobytes())
    return total.hexdigest()

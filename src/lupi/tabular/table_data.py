"""Read a table of annotations: its schema, and rows that can be taken, sampled and trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from lupi._internal.sanitizing import one_line
from lupi.tabular import recognizing, targets
from lupi.tabular.formats import folder_of, open_columns, open_file, read_schema, read_table
from lupi.tabular.frames import Columns, Frame, to_pandas
from lupi.tabular.grouping import (
    check_examples,
    fill_missing,
    group_equal_inputs,
    hash_rows,
    note_repetitions,
    number_examples,
    sample_rows,
)
from lupi.tabular.kinds import find_kind
from lupi.tabular.kinds.embedded import embed
from lupi.tabular.pretrained_encoders import resolve_folder
from lupi.tabular.recognizing import TABLE_ADVICE
from lupi.tabular.schema import InputColumn, Schema
from lupi.tabular.spec import Roles, TableSpec
from lupi.tabular.values import Column, as_bytes, as_text, stored_as


@dataclass(frozen=True, kw_only=True)
class TableData:
    """Rows of a table, one per label, with the roles and kinds of their columns.

    Parameters
    ----------
    schema : Schema
        Roles and kinds of the columns.
    columns : DataFrame or Columns
        All columns with a role. The index is the row number in the table.
    classes : tuple
        The classes of the whole table, sorted or in the order of their scale, or the names of several targets; empty
        for regression.
    example : ndarray, optional
        The number of each row's example; by default each row is an example.
    gold, weight : str, optional
        Columns of true labels and of weights.
    trust : mapping
        For each trusted annotator, the probability that a label is correct.
    folder : Path
        The folder of files that the table names.
    choices, notes : list of str
        Sentences that say what was recognized, and warnings about the table.
    """

    schema: Schema
    columns: Frame
    classes: tuple[Any, ...]
    example: NDArray[np.int64] | None = None
    gold: str | None = None
    weight: str | None = None
    trust: Mapping[str, float] = field(default_factory=dict)
    folder: Path = Path()
    choices: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns)

    @cached_property
    def group(self) -> NDArray[np.int64]:
        """The number of each row's example."""
        return number_examples(self.example, len(self))

    @property
    def examples(self) -> int:
        """Number of examples."""
        return len(self) if self.example is None else len(np.unique(self.example))

    @property
    def rows(self) -> NDArray[np.int64]:
        """The row numbers in the table."""
        assert isinstance(self.columns, pd.DataFrame)
        return self.columns.index.to_numpy()

    @cached_property
    def inputs(self) -> Frame:
        """The input columns, as their kinds read them."""
        return self.schema.clean(self.columns, self.folder)

    @property
    def privileged(self) -> Frame:
        """The privileged columns."""
        return self.columns[list(self.schema.privileged)]

    @property
    def ids(self) -> Column | None:
        """The example ids of the table."""
        name = self.schema.roles.example
        return None if name is None else self.columns[name]

    @property
    def labels(self) -> Column | pd.DataFrame:
        """The labels: one column, or several of 0 and 1 or of probabilities."""
        target = self.schema.roles.target
        if len(target) == 1:
            labels = self.columns[target[0]]
            return targets.as_classes(labels) if self.schema.task == "classification" else labels
        return pd.DataFrame({name: self.columns[name] for name in target}).astype(np.float64)

    @cached_property
    def y(self) -> NDArray[Any]:
        """Labels as numbers: classes by their place in `classes`, probabilities by the most probable class."""
        labels = self.labels
        if isinstance(labels, pd.DataFrame):
            values = labels.to_numpy()
            return values.argmax(1) if self.schema.soft else values.astype(np.int64)
        if self.schema.task == "regression":
            return labels.to_numpy(np.float64)
        return np.asarray(pd.Index(self.classes).get_indexer(pd.Index(labels)))

    @property
    def annotators(self) -> NDArray[Any] | None:
        """The annotator of each row; missing names are "(missing)"."""
        if self.schema.annotator is None:
            return None
        names = self.columns[self.schema.annotator]
        return np.array(["(missing)" if pd.isna(name) else as_text(name) for name in names], dtype=object)

    @property
    def true_labels(self) -> NDArray[np.int64] | None:
        """The true class of each row by its place in `classes`, −1 where it is unknown."""
        if self.gold is None:
            return None
        codes = targets.code_gold(self.columns[self.gold], self.classes)
        return np.nan_to_num(codes, nan=-1).astype(np.int64)

    @property
    def trusted(self) -> dict[str, float]:
        """The trust in the annotators of these rows, who may not be all annotators of the table."""
        names = set() if self.annotators is None or not self.trust else set(self.annotators.tolist())
        return {name: value for name, value in self.trust.items() if name in names}

    @property
    def digest(self) -> str:
        """A hash of the names and values of columns in memory."""
        assert isinstance(self.columns, pd.DataFrame)
        plain = pd.DataFrame({name: as_bytes(column) for name, column in self.columns.items()})
        values = np.asarray(pd.util.hash_pandas_object(plain, index=False)).tobytes()
        return hashlib.sha256(repr(list(plain)).encode() + values).hexdigest()

    def take(self, rows: NDArray[Any]) -> TableData:
        """Return some of the rows, by their positions."""
        example = None if self.example is None else self.example[rows]
        return replace(self, columns=self.columns.take(rows), example=example)

    def sample(self, size: int, seed: int = 0) -> TableData:
        """Return a random sample of at most `size` rows, by whole examples."""
        if size >= len(self):
            return self
        rows = sample_rows(self.group, size, seed)
        sample = self.take(rows)
        what = f"A random sample of {len(rows):,} of {len(self):,} annotations was used"
        note = f"{what}, all those of {len(np.unique(self.group[rows])):,} examples."
        example = pd.factorize(self.group[rows])[0].astype(np.int64)
        return replace(sample, example=example, notes=[note, *self.notes])

    def load(self, device: str = "auto") -> TableData:
        """Read all columns into memory, and encode those whose encoders learn nothing, such as images, once."""
        frame = self.columns.to_frame() if isinstance(self.columns, Columns) else self.columns
        loaded = replace(self, columns=frame)
        inputs: dict[str, InputColumn] = {}
        new: dict[str, pd.DataFrame] = {}
        for name, column in self.schema.inputs.items():
            encoder = find_kind(column.kind).make_encoder(device)
            if encoder is None or encoder.learns:
                inputs[name] = column
                continue
            values = loaded.inputs[name]
            encoder.fit([str(value) for value in values.unique()])
            part = pd.DataFrame(embed(encoder, values), index=frame.index).add_prefix(f"{name}[").add_suffix("]")
            new[name] = part
            inputs |= dict.fromkeys(part.columns, InputColumn("number", "number"))
        if not new:
            return loaded
        columns = pd.concat([frame.drop(columns=list(new)), *new.values()], axis="columns")
        return replace(loaded, columns=columns, schema=replace(self.schema, inputs=inputs))

    def with_privileged(self, privileged: pd.DataFrame, kinds: Mapping[str, str]) -> TableData:
        """Return the rows with other privileged information."""
        assert isinstance(self.columns, pd.DataFrame)
        others = self.columns.drop(columns=[name for name in self.schema.privileged if name in self.columns])
        columns = pd.concat([others, privileged.set_axis(others.index)], axis="columns")
        return replace(self, columns=columns, schema=replace(self.schema, privileged=dict(kinds)))


def read_data(spec: TableSpec) -> TableData:
    """Open a table and recognize its columns, which are read one by one when they are used.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "table.csv")
    ...     pd.DataFrame({"x": [0.5, 1.5], "worker": ["ann", "bob"], "y": ["no", "yes"]}).to_csv(path, index=False)
    ...     data = read_data(TableSpec(table=path, target=["y"], privileged=["worker"]))
    >>> data.classes, data.y.tolist(), data.schema.kinds
    (('no', 'yes'), [0, 1], {'x': 'number', 'worker': 'category'})
    """
    opened = open_file(spec.table)
    names = read_schema(opened).names
    roles = Roles.of(spec, names)
    recognizing.check_kinds(spec.kind, names, "the table")
    for name in spec.kind:
        if name not in (*roles.inputs, *roles.privileged):
            raise ValueError(f"Expected `kind` to name an input or privileged column, but got {name!r}.")
    table, types = open_roles(spec, roles)
    table, task, reason, notes = keep_labelled(spec, table, roles)
    inputs, of_inputs = describe_inputs(spec, table, types, roles)
    privileged, of_privileged = recognizing.recognize_privileged(
        table[list(roles.privileged)], spec.kind, TABLE_ADVICE, spec.annotator
    )
    of_privileged += recognizing.note_ids(table, privileged, spec.kind)
    annotator, who = choose_annotator(spec.annotator, table, roles, privileged)
    if spec.trust and annotator is None:
        raise ValueError("Expected a column of annotators for `trust`: name it in `annotator`.")
    if spec.weight is not None:
        targets.check_weights(table[spec.weight], f"weight column {spec.weight!r}")
    known, of_gold = "", list[str]()
    if spec.gold is not None:
        known, of_gold = targets.check_gold(table, spec.gold, roles.target, task, soft=spec.soft)
    classes, ordinal = order_classes(spec, table, roles, task)
    choices = [
        opened.note,
        f"Task: {task} ({reason}).",
        f"Scale: {len(classes)} grades in order, from {classes[0]} to {classes[-1]}." if ordinal else "",
        f"Inputs: {count_kinds(inputs)}.",
        "Privileged: " + (", ".join(f"{name} ({kind})" for name, kind in privileged.items()) or "none") + ".",
        who,
        f"Weights: {spec.weight}." if spec.weight else "",
        known,
    ]
    data = TableData(
        schema=Schema(
            roles=roles,
            task=task,
            soft=spec.soft,
            inputs=inputs,
            privileged=privileged,
            annotator=annotator,
            ordinal=ordinal,
        ),
        columns=table,
        classes=classes,
        gold=spec.gold,
        weight=spec.weight,
        trust=spec.trust,
        folder=folder_of(spec.table),
    )
    data, of_examples = find_examples(data)
    every = [*notes, *of_inputs, *of_privileged, *of_gold, *of_examples]
    return replace(data, choices=[*map(one_line, filter(None, choices))], notes=[*map(one_line, every)])


def open_roles(spec: TableSpec, roles: Roles) -> tuple[Columns, pa.Schema]:
    """Open the columns that have a role, and check their types."""
    single = {"example": roles.example, "gold": spec.gold, "weight": spec.weight, "annotator": spec.annotator}
    named = {"target": roles.target, **{role: (name,) for role, name in single.items() if name}}
    used = dict.fromkeys([*roles.target, *roles.privileged, *roles.inputs, *filter(None, single.values())])
    strings = [name for name, kind in spec.kind.items() if kind not in ("number", "standardized")]
    types_of_csv = dict.fromkeys([*strings, *named.get("example", ())], pa.string())
    table, types = open_columns(spec.table, list(used), types_of_csv)
    for role, names in named.items():
        families = ("boolean", "number") if role == "weight" else ("boolean", "number", "string")
        recognizing.check_types(types, names, role, families)
    recognizing.check_types(types, roles.inputs, "input", recognizing.STORED)
    recognizing.check_types(types, roles.privileged, "privileged", (*recognizing.STORED, "null"))
    return table, types


def keep_labelled(spec: TableSpec, table: Columns, roles: Roles) -> tuple[Columns, str, str, list[str]]:
    """Return the rows that have a label, the task and the reason for it, and notes on the target."""
    labels = pd.DataFrame({name: table[name] for name in roles.target})
    labels, notes = drop_unlabelled(labels, roles.target, classes=False)
    task, reason = targets.choose_task(labels, roles.target, spec.task, soft=spec.soft)
    if task == "classification" and spec.scale in (None, "nominal"):  # else −1 may be a grade
        labels, coded = drop_unlabelled(labels, roles.target, classes=True)
        notes += coded
    if task == "classification" and len(roles.target) == 1:
        notes += note_target(labels[roles.target[0]], given=spec.task is not None, scaled=spec.scale is not None)
    labelled = table if len(labels) == len(table) else table.take(labels.index.to_numpy())
    return labelled, task, reason, notes


def describe_inputs(
    spec: TableSpec, table: Columns, types: pa.Schema, roles: Roles
) -> tuple[dict[str, InputColumn], list[str]]:
    """Recognize the kinds of input columns, and note those that are probably ids."""
    first = table.take(np.flatnonzero(~table[roles.example].duplicated())) if roles.example else table
    stored = {name: stored_as(types.field(name).type) for name in roles.inputs}
    kinds, notes = recognizing.recognize_inputs(first[list(roles.inputs)], spec.kind, TABLE_ADVICE, stored)
    # A single category always tells rows apart. With an example id, nearly unique categories have been rejected.
    several = len(kinds) > 1 and not roles.example
    candidates = [
        name
        for name, kind in kinds.items()
        if name not in spec.kind and (pa.types.is_integer(types.field(name).type) or (several and kind == "category"))
    ]
    notes += recognizing.note_identifiers(first, candidates, kinds, by_id=bool(roles.example))
    pretrained = {kind: resolve_folder(name) for kind, name in spec.pretrained.items() if name}
    return {
        name: InputColumn(f"{kind}:{pretrained[kind]}" if kind in pretrained else kind, stored[name])
        for name, kind in kinds.items()
    }, notes


def order_classes(spec: TableSpec, table: Columns, roles: Roles, task: str) -> tuple[tuple[Any, ...], bool]:
    """Return the classes of a table, or the names of several targets, and whether they are grades in order."""
    several = len(roles.target) > 1 and not spec.soft
    if spec.scale not in (None, "nominal") and (task == "regression" or several):
        raise ValueError(f"Expected classes for `scale`, but got {'several targets' if several else task}.")
    if task == "regression":
        return (), False
    classes = targets.list_classes(table, roles.target, soft=spec.soft)
    if spec.scale is None or several:
        return tuple(classes), False
    if spec.soft:  # the columns are in order
        return tuple(classes), spec.scale != "nominal"
    found, ordinal = targets.order_grades(np.asarray(classes), targets.split_scale(spec.scale, classes))
    return tuple(found.tolist()) if ordinal else tuple(classes), ordinal


def note_target(labels: Column, *, given: bool, scaled: bool) -> list[str]:
    """Return notes on spellings of classes and, unless the task is `given` or they are `scaled`, on numbers."""
    notes = targets.note_spellings(labels)
    if not is_numeric_dtype(labels.dtype):
        return notes if given else [*recognizing.note_notation(labels, role="Target"), *notes]
    if scaled:
        return notes
    return [*(([] if given else targets.note_quantity(labels)) or targets.note_scale(labels)), *notes]


def find_examples(data: TableData) -> tuple[TableData, list[str]]:
    """Number the examples of rows, by their ids or else by equal inputs, and return notes on them."""
    if data.ids is None:
        example, notes = group_equal_inputs(data.inputs)
    else:
        example, notes = number_examples(data.ids, len(data)), check_examples(data.ids, data.inputs, data.ids.index)
        if notes:
            data = replace(data, columns=fill_missing(data.columns, data.ids, data.schema.roles.inputs))
    if example is not None and data.schema.annotator is not None:
        notes += note_repetitions(example, data.columns[data.schema.annotator])
    return replace(data, example=example), notes


def read_test(path: Path, data: TableData) -> TableData:
    """Read a test table with the inputs and the target of training, and note rows that training has seen."""
    test = read_labelled(path, data.schema, data.classes)
    seen = np.isin(hash_rows(test.inputs), hash_rows(data.inputs))
    if not seen.any():
        return test
    note = f"{seen.sum():,} of {len(seen):,} rows of the test table have the inputs of training rows."
    return replace(test, notes=[*test.notes, note])


def read_labelled(path: Path, schema: Schema, classes: Sequence[Any]) -> TableData:
    """Read the labelled rows of another table with the inputs, the target and the classes of training."""
    stored, target = read_schema(open_file(path)), schema.roles.target
    for name in target:
        if name not in stored.names:
            raise ValueError(f"Expected {path} to have the target {name!r}, but it has no such column.")
    schema.check_table(stored, path)
    example = [name for name in (schema.roles.example,) if name and name in stored.names]
    of_classes = schema.task == "classification" and len(target) == 1
    family = stored_as(pa.array(list(classes)).type) if of_classes else "number"
    strings = [*example, *(target if family == "string" else ())]
    rows = read_table(path, list(dict.fromkeys([*target, *example, *schema.inputs])), schema.csv_types(strings))
    frame, notes = drop_unlabelled(to_pandas(rows), target, classes=schema.task == "classification", of=str(path))
    for name in target:
        got = stored_as(rows.schema.field(name).type)
        if got != family and not (got == "boolean" and schema.several):
            raise ValueError(f"Expected target {name!r} of {path} to be a {family} as in training, but it is a {got}.")
        targets.check_target(frame[name], binary=schema.several, of=f" of {path}")
    if schema.soft:
        targets.check_probabilities(frame[list(target)], f"the targets of {path}, which are soft,")
    test = TableData(
        schema=replace(schema, roles=replace(schema.roles, example=example[0] if example else None), privileged={}),
        columns=frame,
        classes=tuple(classes),
        folder=folder_of(path),
    )
    if of_classes and (test.y < 0).any():
        place = int((test.y < 0).argmax())
        got = f"row {frame.index[place]} has {frame[target[0]].iloc[place]!r}"
        raise ValueError(f"Expected {path} to have labels of the training table, but {got}.")
    if example and (missing := frame[example[0]].isna()).any():
        row = frame.index[int(missing.argmax())]
        raise ValueError(f"Expected example {example[0]!r} to have an id in every row, but row {row} has none.")
    ids = frame[example[0]] if example else group_equal_inputs(test.inputs)[0]
    return replace(test, example=number_examples(ids, len(frame)), notes=notes)


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


def choose_annotator(
    given: str | None, table: Columns, roles: Roles, privileged: Mapping[str, str]
) -> tuple[str | None, str]:
    """Return the column of annotators, if any, and a sentence that says whether it was given or recognized."""
    if given is not None:
        return given, f"Annotators: {given}."
    name = recognizing.find_annotator(table[list(privileged)], privileged)
    if name is not None:
        return name, f"Annotators: {name}, by its name; `annotator` names another column."
    name = recognizing.find_annotator(table[list(roles.inputs)], {})
    found = "Annotators: no privileged column with several annotators has a name such as 'annotator'; `annotator` names"
    found += " the column."
    advice = "if you do not know it when you predict, name it in `privileged`"
    return None, found if name is None else f"{found} Input column {name!r} has such a name; {advice}."


def count_kinds(inputs: Mapping[str, InputColumn]) -> str:
    """Count the input columns of each kind, and name those that are not numbers."""
    kinds: dict[str, list[str]] = {}
    for name, column in inputs.items():
        kinds.setdefault(column.kind.partition(":")[0], []).append(name)
    parts = []
    for kind, names in kinds.items():
        plural = "categories" if kind == "category" else f"{kind}s"
        listed = "" if kind == "number" else f" ({', '.join(names)})"
        parts.append(f"{len(names)} {kind if len(names) == 1 else plural}{listed}")
    return ", ".join(parts)

"""What is compared on: a table of annotations, read and split so that no example is on both sides.

Nothing of the rows to score on is looked at in encoding the rows to train on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, GroupShuffleSplit

from lupi.crowd import pairwise_agreement
from lupi.serving.tables import features, resolved
from lupi.tabular.tables import (
    Roles,
    Schema,
    as_pandas,
    check_matches,
    open_table,
    prepare,
    read_annotations,
    stored_as,
)
from lupi.tabular.text import TfidfEncoder, make_encoder

HELD_OUT = 0.2
"""Share of the examples that is held out for scoring, where there is no test table."""
FEWEST_EXAMPLES = 10


@dataclass(frozen=True)
class Plan:
    """What to compare.

    Parameters
    ----------
    table : Path
        One row per label.
    target, privileged, ignore : sequence of str
        Columns, as on the command line. Columns that are not named are inputs.
    example : str, optional
        Column of ids: rows with equal ids are one example. Without it, rows with equal inputs are.
    test : Path, optional
        Table whose target holds true labels. Without it examples are held out, with their noisy labels.
    methods : sequence of str
        Names; all that the target allows by default. No PI is always among them.
    seeds : int
        Number of seeds: of training, and of the split where there is no test table.
    folds : int, optional
        Cross-validation in so many parts instead of seeds.
    controls : bool
        Whether to train every method with zeros, shuffled and random values for its privileged information too, and
        No PI with early stopping.
    kind : sequence of str
        COLUMN=KIND, to read a column as number, category or text.
    task : str, optional
        classification or regression; by default by the target.
    text_encoder : str, optional
        Hugging Face model for text columns; else TF-IDF.
    device : str
        Where to train.
    settings : mapping
        More parameters of the estimators, such as `epochs`.
    """

    table: Path
    target: Sequence[str]
    privileged: Sequence[str]
    example: str | None = None
    ignore: Sequence[str] = ()
    test: Path | None = None
    methods: Sequence[str] = ()
    seeds: int = 10
    folds: int | None = None
    controls: bool = False
    kind: Sequence[str] = ()
    task: str | None = None
    text_encoder: str | None = None
    device: str = "cpu"
    settings: Mapping[str, Any] = field(default_factory=dict)


# -------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class Rows:
    """Rows of a table: inputs, targets as numbers, and the example of each."""

    X: pd.DataFrame
    y: NDArray[Any]
    example: NDArray[np.int64]

    def take(self, rows: NDArray[Any]) -> Rows:
        """Take some rows."""
        return Rows(self.X.iloc[rows].reset_index(drop=True), self.y[rows], self.example[rows])


@dataclass(frozen=True)
class Data:
    """A table that has been read: what to train on and, where there is one, the test table."""

    roles: Roles
    train: Rows
    privileged: pd.DataFrame
    test: Rows | None
    task: str
    classes: tuple[Any, ...]
    kinds: Mapping[str, str]
    text: tuple[str, ...]
    notes: list[str]
    digest: str


def read(plan: Plan, say: Callable[[str], None]) -> Data:
    """Read and check the tables of a plan."""
    table = read_annotations(plan, "Expected `--privileged` to name columns, but got none.")
    frame, schema, notes = table.frame, table.schema, table.notes
    roles, task, inputs, kinds = schema.roles, schema.task, schema.inputs, schema.privileged
    test = None if plan.test is None else read_test(plan.test, schema, table.stored)
    classes: tuple[Any, ...] = ()
    if task == "classification":
        classes = roles.target if len(roles.target) > 1 else tuple(np.unique(frame[roles.target[0]]))
    for sentence in table.said:
        say(sentence)
    rows = rows_of(frame, schema, classes, plan.table)
    tested = None if test is None else rows_of(test, schema, classes, plan.test)
    if task == "classification" and len(roles.target) == 1:
        agree = pairwise_agreement(rows.y, rows.example)
        if not np.isnan(agree):
            notes.append(f"Two labels of one example agree {100 * agree:.0f} % of the time.")
    if tested is not None:
        seen = np.isin(hashed(tested.X), hashed(rows.X))
        if seen.any():
            notes.append(f"{seen.sum()} of {len(seen)} rows of the test table have the inputs of training rows.")
    text = tuple(name for name, column in inputs.items() if column.kind == "text")
    if text and plan.text_encoder:  # it learns nothing from the table, so all rows are encoded at once
        encoders = dict.fromkeys(text, make_encoder(resolved(plan.text_encoder), plan.device).fit([]))
        rows = Rows(features(rows.X, encoders), rows.y, rows.example)
        tested = tested and Rows(features(tested.X, encoders), tested.y, tested.example)
        text = ()
    return Data(
        roles,
        rows,
        frame[list(roles.privileged)],
        tested,
        "multi-label" if len(roles.target) > 1 else task,
        classes,
        kinds,
        text,
        notes,
        digest([frame] if test is None else [frame, test]),
    )


def read_test(path: Path, schema: Schema, trained: pa.Schema) -> pd.DataFrame:
    """Read the test table: it has the input columns and the target, of the same types."""
    columns = open_table(path).schema
    for name in schema.roles.target:
        if name not in columns.names:
            raise ValueError(f"Expected {path} to have the target {name!r}, but it has no such column.")
    check_matches(columns, schema.inputs, path)
    example = schema.roles.example
    own = [example] if example is not None and example in columns.names else []
    strings = [name for name in schema.roles.target if stored_as(trained.field(name).type) == "string"]
    types = schema.csv_types([*own, *strings])
    source = open_table(path, types, whole=True)
    try:
        rows = source.to_table(columns=[*schema.roles.target, *own, *schema.inputs])
    except (pa.ArrowException, OSError) as error:
        why = " ".join(str(error).split()).removesuffix(".")
        raise ValueError(f"Expected {path} to have the types of the training table, but got: {why}.") from error
    if rows.num_rows == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    for name in schema.roles.target:
        expected, got = stored_as(trained.field(name).type), stored_as(rows.schema.field(name).type)
        if expected != got:
            raise ValueError(
                f"Expected target {name!r} of {path} to be a {expected} as in training, but it is a {got}."
            )
    return as_pandas(rows)


def rows_of(frame: pd.DataFrame, schema: Schema, classes: tuple[Any, ...], path: Path | None) -> Rows:
    """Prepare rows: inputs by their kinds, targets as numbers, examples numbered."""
    X = prepare(frame, schema.inputs)
    target, example = schema.roles.target, schema.roles.example
    for name in target:
        missing = frame[name].isna().to_numpy()
        if missing.any():
            row = int(missing.argmax())
            raise ValueError(
                f"Expected target {name!r} of {path} to have a value in every row, but row {row} has none."
            )
    y: NDArray[Any]
    if schema.task == "regression":
        y = frame[target[0]].to_numpy(np.float64)
    elif len(target) > 1:
        y = frame[list(target)].to_numpy(np.int64)
        wrong = np.argwhere((y != 0) & (y != 1))
        if len(wrong):
            row, column = map(int, wrong[0])
            raise ValueError(
                f"Expected several targets to be 0 or 1, but {target[column]!r} of {path} has {y[row, column]} "
                f"in row {row}."
            )
    else:
        y = pd.Index(classes).get_indexer(pd.Index(frame[target[0]]))
        if (y < 0).any():
            row = int((y < 0).argmax())
            got = frame[target[0]].iloc[row]
            raise ValueError(f"Expected {path} to have labels of the training table, but row {row} has {got!r}.")
    ids = frame[example] if example in frame else pd.Series(hashed(X))
    codes, _ = pd.factorize(ids)
    if (codes < 0).any():
        raise ValueError(f"Expected example {example!r} to have an id in every row, but row {codes.argmin()} has none.")
    return Rows(X, y, codes.astype(np.int64))


def hashed(X: pd.DataFrame) -> NDArray[np.uint64]:
    """Hash of each row's values; whole numbers are floats, as which other tables hold them.

    Examples
    --------
    >>> hashed(pd.DataFrame({"a": [1, 2]})) == hashed(pd.DataFrame({"a": [1.0, 3.0]}))
    array([ True, False])
    """
    plain = {name: column.astype(float) if column.dtype.kind in "biuf" else column for name, column in X.items()}
    return np.asarray(pd.util.hash_pandas_object(pd.DataFrame(plain), index=False))


def digest(frames: Sequence[pd.DataFrame]) -> str:
    """Fingerprint of tables, by names and values.

    Examples
    --------
    >>> digest([pd.DataFrame({"a": [1]})]) == digest([pd.DataFrame({"a": [2]})])
    False
    """
    total = hashlib.sha256()
    for frame in frames:
        total.update(repr(list(frame)).encode())
        total.update(np.asarray(pd.util.hash_pandas_object(frame, index=False)).tobytes())
    return total.hexdigest()


# -------------------------------------------------------------------------------- splits


class Case(NamedTuple):
    """What one run trains on and is scored on; texts are numbers."""

    train: Rows
    privileged: pd.DataFrame
    test: Rows


def splits(plan: Plan, data: Data) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Rows to train on and rows to score on for every run; no example is on both sides.

    Held-out labels of a class that the training part has none of are not scored.
    """
    group = data.train.example
    examples = len(np.unique(group))
    everything = np.arange(len(group))
    fewest = max(FEWEST_EXAMPLES, plan.folds or 0)
    if data.test is None and examples < fewest:
        raise ValueError(f"Expected at least {fewest} examples to hold some out, but got {examples}.")
    if data.test is not None:
        if len(np.unique(data.test.example)) < 2:
            raise ValueError("Expected the test table to have at least two examples, but got 1.")
        return [(everything, np.arange(len(data.test.y)))] * plan.seeds
    if plan.folds is not None:
        found = list(GroupKFold(plan.folds, shuffle=True, random_state=0).split(everything, groups=group))
    else:
        found = [
            next(GroupShuffleSplit(1, test_size=HELD_OUT, random_state=seed).split(everything, groups=group))
            for seed in range(plan.seeds)
        ]
    if data.task == "classification":
        y = data.train.y
        found = [(train, test[np.isin(y[test], y[train])]) for train, test in found]
        if any(len(np.unique(y[train])) < 2 or len(test) == 0 for train, test in found):
            raise ValueError("Expected enough examples of two classes to hold some out, but got too few.")
    return found


def make_cases(data: Data, parts: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> list[Case]:
    """Take the rows of splits; TF-IDF learns its words from the training rows alone.

    With a test table all runs have the same rows, which are made once.
    """
    if data.test is not None:
        return [make_case(data, *parts[0])] * len(parts)
    return [make_case(data, train, test) for train, test in parts]


def make_case(data: Data, train: NDArray[Any], test: NDArray[Any]) -> Case:
    """Take the rows of one split."""
    fit, score = data.train.take(train), (data.test or data.train).take(test)
    text = {name: TfidfEncoder().fit([str(value) for value in fit.X[name].unique()]) for name in data.text}
    encoded = [Rows(features(part.X, text), part.y, part.example) for part in (fit, score)]
    return Case(encoded[0], data.privileged.iloc[train].reset_index(drop=True), encoded[1])

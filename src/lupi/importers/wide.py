"""Import wide tables, with one row per example and one column per annotator."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lupi._internal.checks import check_name, split_names
from lupi.importers.base import (
    EXAMPLE,
    LABEL,
    ImportedTable,
    Importer,
    check_not_texts,
    choose_field,
    make_column,
    name_answers,
)
from lupi.tabular.formats import open_file, read_table
from lupi.tabular.frames import as_pandas, to_pandas
from lupi.tabular.targets import find_unlabelled
from lupi.tabular.values import as_text, is_number

NAMES_OF_IDS = re.compile(r"^$|^unnamed|^index$|id$|^item|^example$|^task$|^question$", re.IGNORECASE)
PARTS = re.compile(r"[ _.:-]+")
"""Separators between the name of an annotator and that of a question."""
MOST_LABELS = 100
"""Columns with more distinct values are not labels."""


class Wide(Importer):
    """Tables with one row per example and one column per annotator."""

    name = "wide"
    export = "any table with one row per example and one column per annotator"
    reads: ClassVar[Mapping[str, str]] = {
        "columns of labels": "`annotator` (the name) and the label (the cell); `--annotators` names them",
        "ann_confidence, confidence_ann, … for annotators ann, …": (
            "`confidence`, privileged; without a column *ann*, which `--annotators` names, the first of them, or "
            "that of `--label`, is the label"
        ),
        "the first column, if its name is that of ids": "the example; `--example` names another",
        "others": "inputs",
    }
    notes = (
        "which columns are annotators, their other answers and inputs",
        "cells that are empty or −1 are no labels",
    )
    refuses = ("tables in which no columns look like labels", "free text as labels")

    def read(
        self,
        path: Path,
        *,
        label: str | None = None,
        example: str | None = None,
        annotators: Sequence[str] | None = None,
    ) -> ImportedTable:
        """Read a table."""
        table, note = to_pandas(read_table(path)), open_file(path).note
        found = to_long(table, label=label, example=example, annotators=annotators, of=path)
        return found.with_notes([note] if note else [])


def to_long(
    table: Any,
    *,
    label: str | None = None,
    example: str | None = None,
    annotators: Sequence[str] | None = None,
    of: object = "the table",
) -> ImportedTable:
    """Convert a wide table to one with one row per label."""
    matrix, frame = isinstance(table, np.ndarray), pd.DataFrame(as_pandas(table))
    frame = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    names = list(frame.columns)
    if example is None and not matrix and NAMES_OF_IDS.search(names[0]):
        example = names[0]
    if example is not None:
        check_name(example, names, "example")
    cells = frame.drop(columns=[] if example is None else example)
    chosen = split_names(annotators or [], names) or (names if matrix else find_annotators(cells))
    questions = {} if matrix else find_questions(chosen, [name for name in map(str, cells) if name not in chosen])
    given, notes = choose_labels(chosen, questions, names, label, of)
    ids = frame[example].astype(str) if example is not None else pd.Series(map(str, range(len(frame))))
    used = {*given.values(), *(column for columns in questions.values() for column in columns.values())}
    inputs = cells.drop(columns=used & set(cells))
    new = name_answers(dict.fromkeys(questions), {"annotator"})
    taken = (EXAMPLE, LABEL, "annotator", *new)
    inputs = inputs.rename(columns={n: f"input_{n}" for n in inputs if n in taken})
    long = pd.concat([ids.rename(EXAMPLE), inputs], axis="columns").loc[lambda t: t.index.repeat(len(chosen))]
    long = long.reset_index(drop=True)
    long[LABEL] = stack_cells(frame, [given[name] for name in chosen])
    long["annotator"] = pd.Series(chosen * len(frame))
    for name, columns in zip(new, questions.values(), strict=True):
        long[name] = stack_cells(frame, [columns.get(who) for who in chosen])
    none = find_unlabelled(long[[LABEL]], classes=True)
    if none.all():
        raise ValueError(f"Expected {of} to have labels, but it has none.")
    check_not_texts(long[LABEL], of)
    if len(inputs.columns) or questions:
        roles = {"Annotators": chosen, "other answers": list(new), "inputs": [*map(str, inputs)]}
        listed = "; ".join(f"{role}: {', '.join(columns)}" for role, columns in roles.items() if columns)
        notes.append(f"{listed}.")
    return ImportedTable(
        frame=long[~none].reset_index(drop=True),
        target=(LABEL,),
        privileged=("annotator", *new),
        notes=[*notes, f"{none.sum():,} of {len(long):,} cells have no label."] if none.any() else notes,
    )


def choose_labels(
    annotators: Sequence[str], questions: dict[str, dict[str, str]], names: Sequence[str], label: str | None, of: object
) -> tuple[dict[str, str], list[str]]:
    """Return the column of labels of each annotator, and a note on it.

    If the annotators have no columns themselves, it is that of a question, which is no other question then.
    """
    given, notes = {name: name for name in annotators}, list[str]()
    if questions and not set(annotators) & set(names):
        target, notes = choose_field(list(questions), label, of, "questions")
        given = questions.pop(target)
    elif label is not None:
        raise ValueError(f"Expected `label` to name a question, but {annotators[:1]} are columns of labels.")
    for name in annotators:
        check_name(given.get(name, name), names, "annotators")
    if not annotators:
        raise ValueError(
            f"Expected `annotators` to name the columns of labels, since no columns of {of} look like them."
        )
    return given, notes


def find_questions(annotators: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the columns of each question to at least two annotators, such as ann_confidence and bob_confidence."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        for match in PARTS.finditer(name):
            parts = name[: match.start()], name[match.end() :]
            for who, question in (parts, parts[::-1]):
                if who in annotators and question and question not in annotators:
                    found.setdefault(question, {})[who] = name
    return {question: columns for question, columns in found.items() if len(columns) > 1}


def stack_cells(frame: pd.DataFrame, columns: Sequence[str | None]) -> "pd.Series[Any]":
    """Return the cells of columns row by row; a column that is not there has no values."""
    cells = [np.full(len(frame), None) if name is None else frame[name].to_numpy(object) for name in columns]
    known = [None if isinstance(cell, str) and not cell else cell for cell in np.stack(cells, 1).reshape(-1)]
    return make_column(known).convert_dtypes()


def find_annotators(frame: pd.DataFrame) -> list[str]:
    """Return columns that look like labels: names or integers, at least half of which other such columns have."""
    names, values = list(map(str, frame)), {}
    answers = {column for columns in find_questions(names, names).values() for column in columns.values()}
    for name in frame.columns.drop(list(answers)):
        known = frame[name].dropna()
        fractions = is_number(known) and not (known % 1 == 0).all()
        if not fractions and 0 < known.nunique() <= MOST_LABELS:
            values[str(name)] = set(map(as_text, known.unique()))
    shared = {name: set().union(*(values[other] for other in values if other != name)) for name in values}
    return [name for name, own in values.items() if 2 * len(own & shared[name]) >= len(own)]

"""Import wide tables, with one row per example and one column per annotator."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lupi._internal.checks import check_name, split_names
from lupi.importers.base import EXAMPLE, LABEL, ImportedTable, Importer
from lupi.tabular.formats import open_file
from lupi.tabular.frames import as_pandas, to_pandas
from lupi.tabular.targets import find_unlabelled
from lupi.tabular.values import as_text, is_number

NAMES_OF_IDS = re.compile(r"^$|^unnamed|^index$|id$|^item|^example$|^task$|^question$", re.IGNORECASE)
MOST_LABELS = 100
"""Columns with more distinct values are not labels."""


class Wide(Importer):
    """Tables with one row per example and one column per annotator."""

    name = "wide"
    export = "any table with one row per example and one column per annotator"
    reads: ClassVar[Mapping[str, str]] = {
        "columns of labels": "`annotator` (the name) and the label (the cell); `--annotators` names them",
        "the first column, if its name is that of ids": "the example; `--example` names another",
        "others": "inputs",
    }
    notes = ("which columns are annotators and which are inputs", "cells that are empty or −1 are no labels")
    refuses = ("tables in which no columns look like labels",)

    def read(self, path: Path, *, example: str | None = None, annotators: Sequence[str] | None = None) -> ImportedTable:
        """Read a table."""
        table = open_file(path)
        found = to_long(to_pandas(table.read(table.schema.names)), example=example, annotators=annotators, of=path)
        return found.with_notes([table.note] if table.note else [])


def to_long(
    table: Any, *, example: str | None = None, annotators: Sequence[str] | None = None, of: object = "the table"
) -> ImportedTable:
    """Convert a wide table to one with one row per label."""
    matrix, frame = isinstance(table, np.ndarray), pd.DataFrame(as_pandas(table))
    frame = frame.set_axis([str(name) for name in frame.columns], axis="columns")
    names = list(frame.columns)
    if example is None and not matrix and NAMES_OF_IDS.search(names[0]):
        example = names[0]
    if example is not None:
        check_name(example, names, "example")
    found = names if matrix else find_annotators(frame.drop(columns=[] if example is None else example))
    chosen = split_names(annotators or [], names) or found
    for name in chosen:
        check_name(name, names, "annotators")
    if not chosen:
        raise ValueError(
            f"Expected `annotators` to name the columns of labels, since no columns of {of} look like them."
        )
    ids = frame[example].astype(str) if example is not None else pd.Series(map(str, range(len(frame))))
    inputs = frame.drop(columns=[*chosen, *([example] if example is not None else [])])
    inputs = inputs.rename(columns={n: f"input_{n}" for n in inputs if n in (EXAMPLE, LABEL, "annotator")})
    long = pd.concat([ids.rename(EXAMPLE), inputs], axis="columns").loc[lambda t: t.index.repeat(len(chosen))]
    long = long.reset_index(drop=True)
    labels = frame[chosen].to_numpy(object).reshape(-1)
    long[LABEL] = pd.Series(labels, dtype=object).replace("", None).infer_objects().convert_dtypes()
    long["annotator"] = pd.Series(chosen * len(frame))
    none = find_unlabelled(long[[LABEL]], classes=True)
    if none.all():
        raise ValueError(f"Expected {of} to have labels, but it has none.")
    notes = [f"Annotators: {', '.join(chosen)}; inputs: {', '.join(map(str, inputs))}."] if len(inputs.columns) else []
    return ImportedTable(
        frame=long[~none].reset_index(drop=True),
        target=(LABEL,),
        privileged=("annotator",),
        notes=[*notes, f"{none.sum():,} of {len(long):,} cells have no label."] if none.any() else notes,
    )


def find_annotators(frame: pd.DataFrame) -> list[str]:
    """Return columns that look like labels: names or integers, at least half of which other such columns have."""
    values = {}
    for name in frame.columns:
        known = frame[name].dropna()
        fractions = is_number(known) and not (known % 1 == 0).all()
        if not fractions and 0 < known.nunique() <= MOST_LABELS:
            values[str(name)] = set(map(as_text, known.unique()))
    shared = {name: set().union(*(values[other] for other in values if other != name)) for name in values}
    return [name for name, own in values.items() if 2 * len(own & shared[name]) >= len(own)]

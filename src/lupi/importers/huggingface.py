"""Import Hugging Face datasets written by ``save_to_disk`` or ``to_parquet``, without the library itself.

See https://huggingface.co/docs/datasets/process#save.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc

from lupi.importers.base import EXAMPLE, LABEL, ImportedTable
from lupi.tabular.formats import open_file
from lupi.tabular.frames import to_pandas
from lupi.tabular.spec import check_name
from lupi.tabular.targets import find_unlabelled
from lupi.tabular.values import ID, Column

LABELS = ("label", "labels", "target", "annotation", "annotations")
KNOWN_FOR_LABELS = ("seconds", "duration", "lead_time", "time", "timestamp", "created_at", "confidence", "score")
"""Names of columns that describe a label rather than an example."""


def read_huggingface(
    path: Path, *, label: str | None = None, example: str | None = None, split: str | None = None
) -> ImportedTable:
    """Read a Hugging Face dataset. Class labels get their names, and columns of lists get one row per element.

    Columns with names typical of annotators or of facts about a label, and columns whose lists are as long as those of
    the labels, are privileged. Labels that are missing, or −1 as in many test splits, are left out.
    """
    table, features = load_dataset(path, split)
    names = table.schema.names
    chosen = label or next((name for name in LABELS if name in names), None)
    if chosen is None:
        raise ValueError(f"Expected `label` to name a column of {path}, which are {', '.join(names)}.")
    check_name(chosen, names, "label", str(path))
    example = EXAMPLE if example is None and EXAMPLE in names else example
    if example is not None:
        check_name(example, names, "example", str(path))
    frame = to_pandas(table)
    ids = frame.pop(example) if example is not None else pd.Series(range(len(frame)))
    taken = {name: f"input_{name}" for name in (EXAMPLE, LABEL) if name in frame and name != chosen}
    frame = pd.concat([ids.astype(str).rename(EXAMPLE), frame.rename(columns=taken)], axis="columns")
    nested = [field.name for field in table.schema if field.name in frame and pa.types.is_nested(field.type)]
    aligned = [name for name in nested if chosen in nested and has_lengths_of(frame[name], frame[chosen])]
    if aligned:
        frame = frame.explode(aligned, ignore_index=True)
        frame = frame.assign(**{name: frame[name].infer_objects() for name in aligned})
    nested = [name for name in nested if name not in aligned]
    frame = frame.drop(columns=nested).rename(columns={chosen: LABEL})
    frame, notes = name_classes(frame, features, chosen, aligned), []
    if nested:
        notes.append(f"Columns with lists or objects are left out: {', '.join(nested)}.")
    none = find_unlabelled(frame[[LABEL]], classes=True)
    if none.all():
        raise ValueError(f"Expected {path} to have labels, but it has none.")
    if none.any():
        notes.append(f"{none.sum():,} of {len(frame):,} rows have no label and are left out.")
    columns = [str(name) for name in frame]
    about = [name for name in columns if ID.search(name) or name.lower() in KNOWN_FOR_LABELS or name in aligned]
    privileged = tuple(name for name in about if name not in (LABEL, EXAMPLE))
    return ImportedTable(frame=frame[~none].reset_index(drop=True), target=(LABEL,), privileged=privileged, notes=notes)


def has_lengths_of(column: Column, labels: Column) -> bool:
    """Return whether the lists of a column are as long as those of the labels."""
    return all(isinstance(a, np.ndarray) and len(a) == len(b) for a, b in zip(column, labels, strict=True))


def load_dataset(path: Path, split: str | None) -> tuple[pa.Table, Mapping[str, Any]]:
    """Read the rows of a dataset, and the features that say which numbers are classes."""
    splits = path / "dataset_dict.json"
    if path.is_dir() and splits.exists():
        known = json.loads(splits.read_text())["splits"]
        if split not in known:
            raise ValueError(f"Expected `split` to be one of {', '.join(known)}, but got {split!r}.")
        path = path / str(split)
    if path.is_dir() and (path / "state.json").exists():
        state = json.loads((path / "state.json").read_text())
        parts = [read_arrow(path / file["filename"]) for file in state["_data_files"]]
        info = json.loads((path / "dataset_info.json").read_text())
        return pa.concat_tables(parts), info.get("features") or {}
    opened = open_file(path)
    table = opened.read(opened.schema.names)
    stored = (opened.schema.metadata or {}).get(b"huggingface")
    return table, json.loads(stored)["info"]["features"] if stored else {}


def read_arrow(path: Path) -> pa.Table:
    """Read a file in Arrow's stream format and validate it, since an invalid file could crash the process."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_stream(source).read_all()
    table.validate(full=True)
    return table


def name_classes(frame: pd.DataFrame, features: Mapping[str, Any], label: str, aligned: list[str]) -> pd.DataFrame:
    """Replace the numbers of class labels with their names; −1 becomes a missing label."""
    for name, feature in features.items():
        column = LABEL if name == label else name
        inner = feature.get("feature", feature) if isinstance(feature, dict) and name in aligned else feature
        if column in frame and isinstance(inner, dict) and inner.get("_type") == "ClassLabel":
            classes = dict(enumerate(inner["names"]))
            frame[column] = frame[column].map(lambda code, classes=classes: classes.get(code), na_action="ignore")
    return frame

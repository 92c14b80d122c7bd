"""Import Hugging Face datasets written by ``save_to_disk`` or ``to_parquet``, without the library itself.

See https://huggingface.co/docs/datasets/process#save.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc

from lupi._internal.checks import check_name
from lupi._internal.files import resolve
from lupi.importers.base import EXAMPLE, LABEL, ImportedTable, Importer, check_not_texts, find_answers
from lupi.tabular.formats import read_table
from lupi.tabular.frames import to_pandas
from lupi.tabular.targets import find_unlabelled
from lupi.tabular.values import ID, Column

LABELS = ("label", "labels", "target", "annotation", "annotations")
KNOWN_FOR_LABELS = ("seconds", "duration", "lead_time", "time", "timestamp", "created_at", "confidence", "score")
"""Names of columns that describe a label rather than an example."""
THINGS = "example|item|task|question|doc|document|text|sample|instance|post|comment|tweet|sentence|image|row"
NAMES_OF_EXAMPLES = re.compile(rf"^({THINGS})?[_ ]?(id|idx|uid)$|^(example|item|task)$", re.IGNORECASE)
TOKENS = ("token", "tokens", "word", "words", "pieces", "characters")
TAGS = re.compile(r"[BI]-\w+$")
"""Names of classes of tokens, such as B-PER."""


class HuggingFace(Importer):
    """Datasets with one row per label, or with lists of labels."""

    name = "huggingface"
    export = "a dataset that `save_to_disk` wrote, or Parquet, JSON Lines or CSV"
    reads: ClassVar[Mapping[str, str]] = {
        "label, labels, target, annotation, annotations": (
            "the label, class labels by name; lists become one row per element; `--label` names another column"
        ),
        "example, id, item_id, …": "the example; `--example` names another column",
        "annotator, worker_id, seconds, confidence, …": "privileged, by name",
        "lists as long as those of labels, columns that differ between rows of one example": "privileged",
        "others": "inputs; `--split` names the split",
    }
    notes = (
        "rows without a label, or with −1, are left out",
        "columns of other lists or objects are left out",
        "which column holds the examples, if it is recognized",
        "without such a column, rows that repeat the inputs of others",
    )
    refuses = (
        "labels of tokens, such as named entities",
        "free text as labels",
        "datasets without inputs",
        "files outside the dataset's folder",
    )

    def read(
        self, path: Path, *, label: str | None = None, example: str | None = None, split: str | None = None
    ) -> ImportedTable:
        """Read a dataset."""
        table, features = load_dataset(path, split)
        names = table.schema.names
        chosen = label or next((name for name in LABELS if name in names), None)
        if chosen is None:
            raise ValueError(f"Expected `label` to name a column of {path}, which are {', '.join(names)}.")
        check_name(chosen, names, "label", str(path))
        notes = []
        if example is None:
            example = next((name for name in names if name != chosen and NAMES_OF_EXAMPLES.match(name)), None)
            if example not in (None, EXAMPLE):
                notes.append(f"Examples: {example}, by its name; `example` names another column.")
        if example is not None:
            check_name(example, names, "example", str(path))
        frame = to_pandas(table)
        ids = frame.pop(example) if example is not None else pd.Series(range(len(frame)))
        taken = {name: f"input_{name}" for name in (EXAMPLE, LABEL) if name in frame and name != chosen}
        frame = pd.concat([ids.astype(str).rename(EXAMPLE), frame.rename(columns=taken)], axis="columns")
        nested = [field.name for field in table.schema if field.name in frame and pa.types.is_nested(field.type)]
        aligned = [name for name in nested if chosen in nested and has_lengths_of(frame[name], frame[chosen])]
        check_tokens(features, chosen, aligned, path)
        if aligned:
            frame = frame.explode(aligned, ignore_index=True)
            frame = frame.assign(**{name: frame[name].infer_objects() for name in aligned})
        nested = [name for name in nested if name not in aligned]
        frame = frame.drop(columns=nested).rename(columns={chosen: LABEL})
        frame = name_classes(frame, features, chosen, aligned)
        if nested:
            notes.append(f"Columns with lists or objects are left out: {', '.join(nested)}.")
        none = find_unlabelled(frame[[LABEL]], classes=True)
        if none.all():
            raise ValueError(f"Expected {path} to have labels, but it has none.")
        check_not_texts(frame[LABEL], path)
        if none.any():
            notes.append(f"{none.sum():,} of {len(frame):,} rows have no label and are left out.")
        others = [str(name) for name in frame if name not in (LABEL, EXAMPLE)]
        about = [name for name in others if ID.search(name) or name.lower() in KNOWN_FOR_LABELS or name in aligned]
        answers, answered = find_answers(frame[[name for name in others if name not in about]], frame[EXAMPLE])
        privileged = tuple(name for name in others if name in (*about, *answers))
        notes += answered
        inputs = [name for name in others if name not in privileged]
        if not inputs:
            raise ValueError(
                f"Expected {path} to have inputs, but all columns are about labels: {', '.join(map(str, frame))}."
            )
        if example is None and not aligned and (repeated := frame.duplicated(inputs).sum()):
            notes.append(f"{repeated:,} rows repeat the inputs of others: `example` names the column of their ids.")
        frame = frame[~none].reset_index(drop=True)
        return ImportedTable(frame=frame, target=(LABEL,), privileged=privileged, notes=notes)


def check_tokens(features: Mapping[str, Any], label: str, aligned: Sequence[str], path: Path) -> None:
    """Raise a `ValueError` if labels are those of tokens."""
    inner = (features.get(label) or {}).get("feature") if isinstance(features.get(label), dict) else None
    names = inner.get("names") if isinstance(inner, dict) else None
    of_tokens = any(TAGS.match(str(name)) for name in names or ())
    tokens = [name for name in aligned if name.lower() in TOKENS]
    if label in aligned and (tokens or of_tokens):
        what = f"the tokens of {tokens[0]!r}" if tokens else "tokens"
        raise ValueError(f"Expected labels of whole examples, but {label!r} of {path} labels {what}.")


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
        path = path / check_file(str(split), path)
    if path.is_dir() and (path / "state.json").exists():
        state = json.loads((path / "state.json").read_text())
        parts = [read_arrow(path / check_file(file["filename"], path)) for file in state["_data_files"]]
        info = json.loads((path / "dataset_info.json").read_text())
        return pa.concat_tables(parts), info.get("features") or {}
    table = read_table(path)
    stored = (table.schema.metadata or {}).get(b"huggingface")
    return table, json.loads(stored)["info"]["features"] if stored else {}


def check_file(name: str, folder: Path) -> str:
    """Return the name of a file that a dataset lists; raise a `ValueError` if it is not in the dataset's folder."""
    inside = resolve(folder / name)
    if Path(name).name != name or name in ("", "..") or not inside.is_relative_to(resolve(folder)):
        raise ValueError(f"Expected the files of {folder} to be in this folder, but it names {name!r}.")
    return name


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

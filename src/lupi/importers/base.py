"""The common part of importers: make a table with one row per label from labels and the facts about them."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from lupi._internal.files import claim_output, explain_os_errors, replace_file
from lupi.tabular.values import as_text, is_missing

AGENT, SUSPICION = "lupi", "lupi_wrong"
"""Name of the model in pre-annotations, and of the field by which labelling tools filter suspicious labels."""
EXAMPLE, LABEL, GOLD = "example", "label", "gold"
"""Names of the columns of ids, labels and true labels."""
MANY_CLASSES, WORDS_OF_TEXT = 100, 3
"""Answers that mostly differ are free text if there are more of them, or if most have as many words."""


@dataclass(frozen=True, kw_only=True)
class PreAnnotation:
    """What to add to an example of an export."""

    value: Any = None
    """The predicted label, or a list of several."""
    score: float | None = None
    """Its probability."""
    wrong: float | None = None
    """The probability that the most suspicious label of the example is wrong."""

    def __or__(self, other: "PreAnnotation") -> "PreAnnotation":
        """Return both, the other first."""
        known = {name: value for name, value in vars(other).items() if value is not None}
        return replace(self, **known)


class Importer(ABC):
    """An importer of the exports of a labelling tool.

    Its attributes say what becomes of each part of an export; docs/importing.md shows them.
    """

    name: ClassVar[str]
    """Name of the tool in `read_export` and `lupi import`."""
    export: ClassVar[str]
    """What the tool exports."""
    reads: ClassVar[Mapping[str, str]]
    """What becomes of the fields that are read."""
    ignores: ClassVar[Sequence[str]] = ()
    """Fields that the tool keeps for itself, which are neither read nor noted. Any other field is named in a note."""
    notes: ClassVar[Sequence[str]] = ()
    """What is left out or changed, with a note."""
    refuses: ClassVar[Sequence[str]] = ()
    """What raises an error that gives the reason."""

    @abstractmethod
    def read(self, path: Path) -> "ImportedTable":
        """Read an export. Subclasses may take options by keyword."""

    def add(
        self,
        path: Path,
        found: Mapping[str, PreAnnotation],  # noqa: ARG002 - some tools take it
        *,
        label: str | None = None,  # noqa: ARG002
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the records of an export with what was found about its examples, and the ids of all examples."""
        raise ValueError(f"Expected `add` for label-studio or argilla, but got {path} of {self.name!r}.")

    def note_unread(self, records: Iterable[Mapping[str, Any]], read: Iterable[str], what: str) -> list[str]:
        """Return a note on the fields that are neither read nor ignored, unless they are empty."""
        known = {*read, *self.ignores}
        found = {name for record in records for name, value in record.items() if value not in (None, "", [], {})}
        return [f"Fields of {what} that are not read: {', '.join(left)}."] if (left := sorted(found - known)) else []


@dataclass(frozen=True, kw_only=True)
class ImportedTable:
    """A table with one row per label, and the roles of its columns. Columns without a role are inputs.

    Parameters
    ----------
    frame : DataFrame
        The table.
    target : tuple of str
        The column of labels or, if annotators could give several labels, one column of 0 and 1 per label.
    privileged : tuple of str
        The privileged columns: who gave a label, when, in how much time, and what a model had predicted.
    example : str
        The column of ids. Rows with equal ids are labels of the same example.
    gold : str or None
        The column of true labels.
    notes : list of str
        Notes on what was left out or renamed.
    """

    frame: pd.DataFrame
    target: tuple[str, ...]
    privileged: tuple[str, ...]
    example: str = EXAMPLE
    gold: str | None = None
    notes: list[str] = field(default_factory=list)

    def with_notes(self, notes: Sequence[str]) -> "ImportedTable":
        """Return the same table with more notes."""
        return replace(self, notes=[*self.notes, *notes])

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the table to a file.

        Parameters
        ----------
        path : str or Path
            The file, .parquet or .csv.
        overwrite : bool
            Whether to replace an existing file.
        """
        path = Path(path)
        writers: dict[str, Any] = {".parquet": self.frame.to_parquet, ".csv": self.frame.to_csv}
        if path.suffix.lower() not in writers:
            raise ValueError(f"Expected `output` to be a .parquet or .csv file, but got {path}.")
        with claim_output(path, overwrite=overwrite), explain_os_errors(path), replace_file(path) as partial:
            writers[path.suffix.lower()](partial, index=False)


@dataclass(frozen=True, kw_only=True)
class LabelRow:
    """One label with its example, inputs and privileged information. Without ids, equal inputs are one example."""

    example: Any
    inputs: Mapping[str, Any]
    label: Any
    privileged: Mapping[str, Any]
    gold: Any = None


def make_table(
    rows: Sequence[LabelRow], path: object, left_out: Mapping[str, int] | None = None, *, may_be_none: bool = False
) -> ImportedTable:
    """Make a table from labels, without unlabelled rows and empty columns.

    If `may_be_none`, an empty list among lists of several labels is a label: none of them applies.
    """
    none = may_be_none and any(isinstance(row.label, list) and len(row.label) > 1 for row in rows)
    labelled = [row for row in rows if not is_empty(row.label) or (none and row.label == [])]
    counts = {**(left_out or {}), "empty": len(rows) - len(labelled)}
    notes = [f"{count:,} {reason} labels are left out." for reason, count in counts.items() if count]
    if not labelled:
        raise ValueError(f"Expected {path} to have labels, but it has none{': ' + ' '.join(notes) if notes else '.'}")
    labels = encode_labels([row.label for row in labelled], path)
    privileged = make_columns([row.privileged for row in labelled])
    privileged = privileged.dropna(axis="columns", how="all")
    taken = {EXAMPLE, GOLD, *map(str, labels), *map(str, privileged)}
    inputs, more = clean_fields([row.inputs for row in labelled], taken)
    example, unnamed = name_examples(labelled)
    answers, answered = find_answers(inputs, example[EXAMPLE])
    privileged, inputs = pd.concat([privileged, inputs[answers]], axis="columns"), inputs.drop(columns=answers)
    more += answered
    gold = make_columns([{GOLD: first_label(row.gold)} for row in labelled]).dropna(axis="columns", how="all")
    if GOLD in gold and (len(labels.columns) > 1 or is_quantity(labels.iloc[:, 0])):
        gold = gold.drop(columns=GOLD)
        more.append("True labels are left out, since they must be classes of a single target.")
    return ImportedTable(
        frame=pd.concat([example, inputs, labels, privileged, gold], axis="columns"),
        target=tuple(map(str, labels)),
        privileged=tuple(map(str, privileged)),
        gold=GOLD if GOLD in gold else None,
        notes=[*notes, *unnamed, *more],
    )


def name_examples(rows: Sequence[LabelRow]) -> tuple[pd.DataFrame, list[str]]:
    """Return the column of ids, and a note if some examples have none: equal inputs get the same number."""
    numbers: dict[str, int] = {}
    ids = []
    for row in rows:
        if row.example is not None:
            ids.append(str(row.example))
            continue
        content = json.dumps(row.inputs, sort_keys=True, default=str)
        ids.append(f"unnamed {numbers.setdefault(content, len(numbers))}" if content != "{}" else f"row {len(ids)}")
    missing = sum(row.example is None for row in rows)
    notes = [f"{missing:,} labels are of examples without id; those with equal inputs are one example."]
    return pd.DataFrame({EXAMPLE: ids}), notes if missing else []


def find_answers(inputs: pd.DataFrame, example: "pd.Series[Any]") -> tuple[list[str], list[str]]:
    """Return the columns that differ between labels of one example, so annotators gave them, and a note on them."""
    groups = inputs.groupby(example.to_numpy())
    found = [name for name in map(str, inputs) if groups[name].nunique().max() > 1]
    if not found or len(found) == len(inputs.columns):  # without inputs, ids are rather not those of examples
        return [], []
    return found, [f"Privileged, since they differ between labels of one example: {', '.join(found)}."]


def name_answers(answers: Mapping[str, Any], taken: Iterable[str] = ()) -> dict[str, Any]:
    """Return an annotator's answers to other questions as privileged columns; several labels become one text."""
    known = {EXAMPLE, LABEL, GOLD, *taken}
    return {
        f"answer_{name}" if name in known else name: "; ".join(map(str, value)) if isinstance(value, list) else value
        for name, value in answers.items()
    }


def is_quantity(labels: "pd.Series[Any]") -> bool:
    """Return whether labels are quantities rather than classes: real numbers, or many integers."""
    return labels.dtype.kind == "f" or (labels.dtype.kind in "iu" and labels.nunique() > MANY_CLASSES)


def is_empty(label: Any) -> bool:
    """Return whether a label is missing, an empty string or an empty list."""
    return label is None or label == "" or label == [] or (isinstance(label, float) and np.isnan(label))


def first_label(label: Any) -> Any:
    """Return the first of a list of labels; return any other label unchanged."""
    return (label[0] if label else None) if isinstance(label, list) else label


def encode_labels(labels: Sequence[Any], path: object) -> pd.DataFrame:
    """Return a column of labels or, if some label is a list of several, a column of 0 and 1 for each name.

    Free text and rankings are refused.
    """
    lists = [label if isinstance(label, list) else [label] for label in labels]
    for names in lists:
        if any(isinstance(name, list | dict) for name in names):
            raise ValueError(f"Expected labels of whole examples, but got {names[0]!r}, which is a part of one.")
    check_not_texts([names[0] for names in lists if len(names) == 1], path)
    if len(lists) > 1 and len(lists[0]) > 1 and len({frozenset(map(str, names)) for names in lists}) == 1:
        raise ValueError(
            f"Expected the labels of {path} to be choices, but each has all of {', '.join(map(str, lists[0]))}, as a "
            "ranking has."
        )
    if all(len(names) == 1 for names in lists):
        return make_columns([{LABEL: names[0]} for names in lists])
    known = sorted({str(name) for names in lists for name in names})
    return pd.DataFrame({f"{LABEL}_{name}": [int(name in map(str, names)) for names in lists] for name in known})


def check_not_texts(labels: Iterable[Any], path: object) -> None:
    """Raise a `ValueError` if labels are free text: strings of which most are distinct, and long or many."""
    texts = [label for label in labels if isinstance(label, str)]
    distinct = set(texts)
    long = sum(len(text.split()) >= WORDS_OF_TEXT for text in distinct)
    several, vary = len(distinct) > 2, 2 * len(distinct) > len(texts)
    if several and vary and (len(distinct) > MANY_CLASSES or 2 * long > len(distinct)):
        got = f"free text such as {texts[0][:50]!r}"
        raise ValueError(f"Expected the labels of {path} to be classes or numbers, but they are {got}.")


def clean_fields(records: Sequence[Mapping[str, Any]], taken: set[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the fields of examples as columns, and notes. Nested fields are left out, and names in use are changed."""
    notes, names = [], list(dict.fromkeys(name for record in records for name in record))
    nested = {
        name for name in names if any(isinstance(record.get(name), list | dict | np.ndarray) for record in records)
    }
    if nested:
        notes.append(f"Fields with lists or objects are left out: {', '.join(sorted(nested))}.")
    new = {name: f"input_{name}" if name in taken else name for name in names if name not in nested}
    notes += [f"Input field {old!r} is now {name!r}." for old, name in new.items() if old != name]
    columns = make_columns([{name: record.get(old) for old, name in new.items()} for record in records])
    return columns.dropna(axis="columns", how="all"), notes


def make_columns(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return records as columns of one type each; if types differ, values become strings."""
    names = list(dict.fromkeys(name for record in records for name in record))
    columns = {name: make_column([record.get(name) for record in records]) for name in names}
    return pd.DataFrame(columns, index=range(len(records)))


def make_column(values: Sequence[Any]) -> "pd.Series[Any]":
    """Return values as a column of one type; if types differ, values become strings."""
    kinds = {type(value) for value in values if not is_missing(value)}
    if len(kinds) > 1 and not kinds <= {int, float}:
        values = [None if is_missing(value) else as_text(value) for value in values]
    return pd.Series(values, dtype=object).infer_objects()


def to_timestamp(value: Any) -> Any:
    """Return a time as a timestamp in UTC: an ISO 8601 string, or seconds since 1970."""
    return None if value is None else pd.to_datetime(value, unit=None if isinstance(value, str) else "s", utc=True)


def choose_field(fields: Sequence[str], label: str | None, path: object, what: str) -> tuple[str, list[str]]:
    """Return the field that holds the labels, the one that the user names or the first, and a note on the choice."""
    known = list(dict.fromkeys(fields))
    if not known:
        raise ValueError(f"Expected {path} to have labels, but it has none.")
    if label is None:
        others = ", ".join(known[1:])
        return known[0], [f"Labels: {known[0]}, the first of the {what}; `label` can name {others}."] if others else []
    if label not in known:
        listed = ", ".join(map(repr, sorted(known)))
        raise ValueError(f"Expected `label` to be one of the {what} {listed}, but got {label!r}.")
    return label, []

"""Import exports of doccano: JSON Lines, JSON or CSV, one file per annotator.

See https://doccano.github.io/doccano and `backend/data_export` in its repository.
"""

import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from lupi.importers.base import ImportedTable, Importer, LabelRow, choose_field, make_table, to_timestamp
from lupi.tabular.formats import read_table
from lupi.tabular.formats.json_files import read_records

LABELS = ("label", "labels", "cats", "annotations")
"""Names of the field of labels in different versions and projects of doccano."""
SMALL_EXPORT, MOST_COMPRESSION = 2**24, 100
"""Bytes that any .zip file may unpack to, and by which factor a larger one may grow."""
TOGETHER = "all"
"""Name of the file of a project whose annotators share their labels, so that annotators are unknown."""


class Doccano(Importer):
    """Categories, from one file per annotator."""

    name = "doccano"
    export = "JSON Lines, JSON or CSV: the .zip file, its folder or one file"
    reads: ClassVar[Mapping[str, str]] = {
        "file name": "`annotator`, unless annotators share their labels (`all.jsonl`)",
        "id": "the example",
        "label, labels, cats, annotations": "the label, or several; `--label` names another field",
        "Comments": "`comment`",
        "annotations.user, created_at": "`annotator` and `timestamp`, in doccano 1.0",
        "meta, others": "inputs; privileged, if they differ between annotators of an example, as a confidence",
    }
    ignores = ("annotation_approver",)
    notes = ("examples without a label are left out", "without a file per annotator, annotators are unknown")
    refuses = (
        "texts as labels, as of translation and summarization projects",
        "spans and relations",
        "a .zip file that would unpack to more than 100 times its size",
    )

    def read(self, path: Path, *, label: str | None = None) -> ImportedTable:
        """Read an export."""
        if path.suffix.lower() != ".zip":
            return read_files(path, label, path)
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as packed:
            size = sum(member.file_size for member in packed.infolist())
            if size > max(SMALL_EXPORT, MOST_COMPRESSION * path.stat().st_size):
                raise ValueError(f"Expected {path} to be an export, but it would unpack to {size:,} bytes.")
            packed.extractall(folder)
            return read_files(Path(folder), label, path)


def read_files(place: Path, label: str | None, path: Path) -> ImportedTable:
    """Read a file, or all files of a folder."""
    kinds = (".jsonl", ".json", ".csv")
    files = sorted(one for one in place.rglob("*") if one.suffix.lower() in kinds) if place.is_dir() else [place]
    rows = []
    for file in files:
        records = read_file(file)
        names = [name for record in records for name in record]
        known = [name for name in LABELS if name in names]
        chosen, _ = choose_field(names if label else known[:1], label, file, "fields")
        who = None if file.stem == TOGETHER else file.stem
        for record in records:
            rows += read_record(record, chosen, who)
    table = make_table(rows, path)
    if "annotator" not in table.privileged:
        table.notes.append("The export does not say who gave a label, since its annotators share their labels.")
    return table


def read_file(file: Path) -> list[dict[str, Any]]:
    """Read the records of a file; in CSV, labels are joined by ``#``."""
    if file.suffix.lower() != ".csv":
        return read_records(file)
    return [
        record | {name: str(record[name]).split("#") for name in LABELS if record.get(name) is not None}
        for record in read_table(file).to_pylist()
    ]


def read_record(record: Mapping[str, Any], label: str, who: str | None) -> list[LabelRow]:
    """Return the labels of a record: one, or, in exports of doccano 1.0, one per annotation with its user."""
    own = {"id", "Comments", "comments", "annotation_approver", "meta", label}
    meta = record.get("meta")
    inputs = {name: value for name, value in record.items() if name not in own}
    inputs |= meta if isinstance(meta, dict) else {}
    comments = record.get("Comments") or record.get("comments") or []
    found = record.get(label)
    shared: Any = {"example": record.get("id"), "inputs": inputs}
    if isinstance(found, list) and found and all(isinstance(one, dict) and "user" in one for one in found):
        return [
            LabelRow(
                **shared,
                label=one.get("label"),
                privileged={"annotator": str(one["user"]), "timestamp": to_timestamp(one.get("created_at"))},
            )
            for one in found
        ]
    comment = "\n".join(map(str, comments)) if isinstance(comments, list) else str(comments)
    return [LabelRow(**shared, label=found, privileged={"annotator": who, "comment": comment or None})]

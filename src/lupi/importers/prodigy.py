"""Import exports of Prodigy, the JSON Lines written by ``prodigy db-out``.

See https://prodi.gy/docs/api-interfaces.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lupi.importers.base import ImportedTable, LabelRow, choose_field, make_table, to_seconds
from lupi.tabular.formats.json_files import read_records

OWN = {"label", "answer", "accept", "options", "score", "meta", "config", "spans", "tokens", "versions", "sessions"}
"""Keys of a task that are not inputs, in addition to those that begin with an underscore."""


def read_prodigy(path: Path, *, label: str | None = None) -> ImportedTable:
    """Read annotations of Prodigy: choices, or one label that annotators accept or reject.

    Ignored tasks and rejected choices are left out. Rows have `annotator`, `timestamp` and, if a model in the loop had
    scored the task, `prediction_score`.
    """
    tasks = read_records(path)
    for number, task in enumerate(tasks):
        if "answer" not in task:
            raise ValueError(f"Expected {path} to be annotations of Prodigy, but line {number + 1} has no answer.")
    choices = any(isinstance(task.get("accept"), list) for task in tasks)
    if not choices:
        names = [task["label"] for task in tasks if isinstance(task.get("label"), str)]
        if not names:
            raise ValueError(f"Expected tasks of {path} to have choices or one label each, but they have neither.")
        label = choose_field(names, label, path, "labels")
    rows, left_out = [], Counter[str]()
    for task in tasks:
        answer = task["answer"]
        if answer == "ignore" or (choices and answer != "accept"):
            left_out["ignored" if answer == "ignore" else "rejected"] += 1
        elif choices or task.get("label") == label:
            rows.append(read_task(task, task.get("accept") if choices else answer))
    return make_table(rows, path, left_out)


def read_task(task: Mapping[str, Any], label: Any) -> LabelRow:
    """Return a task with its label."""
    meta = task.get("meta") if isinstance(task.get("meta"), dict) else {}
    who = task.get("_annotator_id") or task.get("_session_id")
    return LabelRow(
        example=task.get("_input_hash"),
        inputs={name: value for name, value in task.items() if name not in OWN and not name.startswith("_")},
        label=label,
        privileged={
            "annotator": None if who is None else str(who),
            "timestamp": to_seconds(task.get("_timestamp")),
            "prediction_score": task.get("score", (meta or {}).get("score")),
        },
    )

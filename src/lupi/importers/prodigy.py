"""Import exports of Prodigy, the JSON Lines written by ``prodigy db-out``.

See https://prodi.gy/docs/api-interfaces.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from lupi.importers.base import ImportedTable, Importer, LabelRow, choose_field, make_table, name_answers, to_timestamp
from lupi.tabular.formats.json_files import read_records


class Prodigy(Importer):
    """Choices, or one label that annotators accept or reject."""

    name = "prodigy"
    export = "the JSON Lines of [`prodigy db-out`](https://prodi.gy/docs/api-interfaces)"
    reads: ClassVar[Mapping[str, str]] = {
        "accept": "the label, or several; nothing chosen among several is a label too",
        "label, answer": (
            "the label, accepted or rejected, if it is the first one or that of `--label`; what the same annotator "
            "says of other labels of the input is privileged"
        ),
        "_input_hash": "the example",
        "_annotator_id, _session_id": "`annotator`",
        "_timestamp": "`timestamp`",
        "score, meta.score": "`prediction_score`, if a model in the loop had scored the task",
        "others": "inputs; privileged, if they differ between annotators of an input, as `user_input` or a confidence",
    }
    ignores = ("options", "config", "versions", "sessions", "_task_hash", "_view_id", "_is_binary")
    notes = (
        "ignored tasks, rejected choices and choices without a choice are left out",
        "`meta`, `spans`, `tokens` and other fields with an underscore are not read",
    )
    refuses = (
        "tasks without an answer",
        "tasks with neither choices nor a label, such as spans",
        "free text as labels",
    )

    def read(self, path: Path, *, label: str | None = None) -> ImportedTable:
        """Read an export."""
        tasks = read_records(path)
        for number, task in enumerate(tasks):
            if "answer" not in task:
                raise ValueError(f"Expected {path} to be annotations of Prodigy, but line {number + 1} has no answer.")
        choices, notes = any(isinstance(task.get("accept"), list) for task in tasks), list[str]()
        if not choices:
            names = [task["label"] for task in tasks if isinstance(task.get("label"), str)]
            if not names:
                raise ValueError(f"Expected tasks of {path} to have choices or one label each, but they have neither.")
            label, notes = choose_field(names, label, path, "labels")
        rows, left_out, answers = [], Counter[str](), {} if choices else list_answers(tasks)
        for task in tasks:
            answer = task["answer"]
            if answer == "ignore" or (choices and answer != "accept"):
                left_out["ignored" if answer == "ignore" else "rejected"] += 1
            elif choices or task.get("label") == label:
                others = {name: value for name, value in answers.get(name_session(task), {}).items() if name != label}
                rows.append(read_task(task, task.get("accept") if choices else answer, others))
            elif label not in answers.get(name_session(task), {}):
                left_out["other"] += 1
        table = make_table(rows, path, left_out, may_be_none=True).with_notes(notes)
        own = {"accept", "label", "answer", "score", "_input_hash", "_annotator_id", "_session_id", "_timestamp"}
        inputs = {name for task in tasks for name in task if is_input(name)}
        facts = [task | {"meta": {k: v for k, v in meta_of(task).items() if k != "score"}} for task in tasks]
        return table.with_notes(self.note_unread(facts, own | inputs, "tasks"))


def is_input(name: str) -> bool:
    """Return whether a field of a task is an input."""
    own = {"label", "answer", "accept", "options", "score", "meta", "config", "spans", "tokens", "versions", "sessions"}
    return name not in own and not name.startswith("_")


def meta_of(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a task."""
    meta = task.get("meta")
    return meta if isinstance(meta, dict) else {}


def name_session(task: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the input and the annotator of a task."""
    return task.get("_input_hash"), task.get("_annotator_id") or task.get("_session_id")


def list_answers(tasks: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, Any], dict[str, str]]:
    """Return what each annotator says of each label of an input."""
    answers: dict[tuple[Any, Any], dict[str, str]] = {}
    for task in tasks:
        if None not in name_session(task) and isinstance(task.get("label"), str) and task["answer"] != "ignore":
            answers.setdefault(name_session(task), {})[task["label"]] = task["answer"]
    return answers


def read_task(task: Mapping[str, Any], label: Any, others: Mapping[str, Any]) -> LabelRow:
    """Return a task with its label, and the annotator's answers on other labels."""
    example, who = name_session(task)
    known = {
        "annotator": None if who is None else str(who),
        "timestamp": to_timestamp(task.get("_timestamp")),
        "prediction_score": task.get("score", meta_of(task).get("score")),
    }
    return LabelRow(
        example=example,
        inputs={name: value for name, value in task.items() if is_input(name)},
        label=label,
        privileged=known | name_answers(others, known),
    )

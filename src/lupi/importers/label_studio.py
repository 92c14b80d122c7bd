"""Import exports of Label Studio: JSON, with annotations and predictions, and JSON-MIN.

See https://labelstud.io/guide/task_format.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lupi.importers.base import ImportedTable, LabelRow, choose_field, make_table, to_seconds
from lupi.tabular.formats.json_files import read_records

OF_EXAMPLES = ("choices", "rating", "number", "taxonomy", "pairwise", "datetime")
"""Types of results that label a whole task; others, such as rectangles, label parts of it."""
MINIMAL = {"annotation_id", "annotator", "lead_time"}
"""Keys that JSON-MIN adds to the data of a task."""


def read_label_studio(path: Path, *, label: str | None = None) -> ImportedTable:
    """Read an export of Label Studio.

    Every annotation that was not cancelled is a row with `annotator`, `seconds` (the lead time) and `timestamp`. A
    prediction becomes `prediction`, `prediction_score` and `prediction_version`; if tasks have several, each model
    version has separate columns. An annotation marked as ground truth is the `gold` label of its task.
    """
    tasks = read_records(path)
    if tasks and tasks[0].keys() >= MINIMAL:
        return read_minimal(tasks, label, path)
    for number, task in enumerate(tasks):
        if not isinstance(task.get("data"), dict) or not isinstance(task.get("annotations"), list):
            raise ValueError(f"Expected {path} to be an export of Label Studio, but task {number} has no annotations.")
    fields = [
        result["from_name"]
        for task in tasks
        for annotation in task["annotations"]
        for result in annotation.get("result") or []
        if result.get("type") in OF_EXAMPLES and result.get("from_name")
    ]
    if not fields and any(annotation.get("result") for task in tasks for annotation in task["annotations"]):
        raise ValueError(f"Expected {path} to label whole tasks, by one of {', '.join(OF_EXAMPLES)}, but it does not.")
    chosen = choose_field(fields, label, path, "control tags")
    several = any(len(task.get("predictions") or []) > 1 for task in tasks)
    rows, left_out = [], Counter[str]()
    for task in tasks:
        predicted = read_predictions(task.get("predictions") or [], chosen, several)
        trusted = [one for one in task["annotations"] if one.get("ground_truth") and not one.get("was_cancelled")]
        for annotation in task["annotations"]:
            if annotation.get("was_cancelled"):
                left_out["cancelled"] += 1
                continue
            known = {
                "annotator": name_user(annotation.get("completed_by")),
                "seconds": annotation.get("lead_time"),
                "timestamp": to_seconds(annotation.get("created_at")),
            }
            rows.append(
                LabelRow(
                    example=task.get("id"),
                    inputs=task["data"],
                    label=read_result(annotation.get("result") or [], chosen),
                    privileged=known | predicted,
                    gold=read_result(trusted[0].get("result") or [], chosen) if trusted else None,
                )
            )
    return make_table(rows, path, left_out)


def read_result(results: Sequence[Mapping[str, Any]], name: str) -> Any:
    """Return the label that a control tag gives a task; None if it gives none."""
    for result in results:
        kind = result.get("type")
        if result.get("from_name") == name and kind in OF_EXAMPLES:
            value = result.get("value", {}).get("selected" if kind == "pairwise" else kind)
            return [" / ".join(path) for path in value] if kind == "taxonomy" and value else value
    return None


def read_predictions(predictions: Sequence[Mapping[str, Any]], name: str, several: bool) -> dict[str, Any]:
    """Return the predictions of models for a task; with `several`, columns are named after the model version."""
    found: dict[str, Any] = {}
    for prediction in predictions:
        label = read_result(prediction.get("result") or [], name)
        version = prediction.get("model_version")
        end = f" ({version})" if several else ""
        found[f"prediction{end}"] = "; ".join(map(str, label)) if isinstance(label, list) else label
        found[f"prediction_score{end}"] = prediction.get("score")
        if not several:
            found["prediction_version"] = version
    return found


def name_user(user: Any) -> str | None:
    """Return the name of an annotator, given as a number, an email address or an object with both."""
    if isinstance(user, dict):
        user = user.get("email") or user.get("id")
    return None if user is None else str(user)


def read_minimal(records: Sequence[Mapping[str, Any]], label: str | None, path: Path) -> ImportedTable:
    """Read JSON-MIN. Its records mix the data of a task with its labels, so the user must name the label."""
    own = {*MINIMAL, "id", "created_at", "updated_at", "agreement"}
    fields = [name for record in records for name in record if name not in own]
    if label is None:
        listed = ", ".join(map(repr, sorted(set(fields))))
        raise ValueError(f"Expected `label` to name one of {listed}, since JSON-MIN does not say which one it is.")
    choose_field(fields, label, path, "fields")
    rows = []
    for record in records:
        value = record.get(label)
        rows.append(
            LabelRow(
                example=record.get("id"),
                inputs={name: value for name, value in record.items() if name not in {*own, label}},
                label=value.get("choices") if isinstance(value, dict) else value,
                privileged={
                    "annotator": name_user(record.get("annotator")),
                    "seconds": record.get("lead_time"),
                    "timestamp": to_seconds(record.get("created_at")),
                },
            )
        )
    return make_table(rows, path)

"""Import exports of Label Studio: JSON, with annotations and predictions, and JSON-MIN.

See https://labelstud.io/guide/task_format.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from lupi.importers.base import (
    AGENT,
    SUSPICION,
    ImportedTable,
    Importer,
    LabelRow,
    PreAnnotation,
    choose_field,
    make_table,
    name_answers,
    to_timestamp,
)
from lupi.tabular.formats.json_files import read_records

OF_EXAMPLES = ("choices", "rating", "number", "taxonomy", "pairwise", "datetime")
"""Types of results that label a whole task; others, such as rectangles, label parts of it."""
KEYS = {"pairwise": "selected", "textarea": "text"}
"""Keys of the values of results, where they differ from the type."""
BOOKKEEPING = (
    *("agreement", "allow_skip", "annotation_id", "annotations_ids", "annotations_results", "annotators"),
    *("avg_lead_time", "bulk_created", "cancelled_annotations", "comment_authors", "comment_count", "completed_at"),
    *("created_at", "draft_created_at", "file_upload", "import_id", "inner_id", "is_labeled", "last_action"),
    *("last_comment_updated_at", "last_created_by", "overlap", "parent_annotation", "parent_prediction"),
    *("precomputed_agreement", "predictions_model_versions", "predictions_results", "predictions_score", "project"),
    *("result_count", "storage_filename", "task", "total_annotations", "total_predictions", "unique_id"),
    *("unresolved_comment_count", "updated_at", "updated_by"),
)
"""Keys of tasks and annotations that say nothing about a label."""
MINIMAL = {"annotation_id", "annotator", "lead_time"}
"""Keys that JSON-MIN adds to the data of a task."""


class LabelStudio(Importer):
    """Annotations of whole tasks, with predictions and ground truth."""

    name = "label-studio"
    export = "[JSON](https://labelstud.io/guide/task_format) with annotations and predictions, or JSON-MIN"
    reads: ClassVar[Mapping[str, str]] = {
        "id, data": "the example and its inputs",
        "annotations.result": (
            "the label: choices, ratings, numbers, taxonomies, pairwise or dates of a whole task, by the first control "
            "tag or that of `--label`, which JSON-MIN always needs; other control tags, texts too, are privileged"
        ),
        "annotations.completed_by": "`annotator`",
        "annotations.lead_time": "`seconds`",
        "annotations.created_at": "`timestamp`",
        "annotations.ground_truth": "`gold`, if labels are classes: name it in `--gold` or `--ignore`",
        "predictions": (
            "`prediction`, `prediction_score` and `prediction_version`; if tasks have several, each model version has "
            "columns of its own"
        ),
    }
    ignores = BOOKKEEPING
    notes = (
        "cancelled and empty annotations are left out",
        "which control tag holds the labels, if there are several",
        "other control tags that label parts of a task are not read, nor are drafts and metadata",
    )
    refuses = (
        "choices for regions or items of a task",
        "boxes, spans and other labels of parts of a task",
        "free text as labels",
    )

    def add(
        self, path: Path, found: Mapping[str, PreAnnotation], *, label: str | None = None
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Return tasks with predictions, and the field `lupi_wrong` of their data to filter by."""
        tasks = read_records(path)
        check_tasks(tasks, path)
        results = [result for task in tasks for one in task["annotations"] for result in one.get("result") or []]
        shown = {one["from_name"]: one for one in results if one.get("type") in OF_EXAMPLES and one.get("from_name")}
        chosen, _ = choose_field(list(shown), label, path, "control tags")
        records = []
        for task in tasks:
            more, task = found.get(str(task.get("id")), PreAnnotation()), dict(task)
            if more.wrong is not None:
                task["data"] = {**task["data"], SUSPICION: more.wrong}
            if more.value is not None:
                others = [one for one in task.get("predictions") or [] if one.get("model_version") != AGENT]
                task["predictions"] = [*others, pre_annotate(shown[chosen], more)]
            records.append(task)
        return records, [str(task.get("id")) for task in tasks]

    def read(self, path: Path, *, label: str | None = None) -> ImportedTable:
        """Read an export."""
        tasks = read_records(path)
        if tasks and tasks[0].keys() >= MINIMAL:
            return read_minimal(tasks, label, path)
        check_tasks(tasks, path)
        annotations = [one for task in tasks for one in task["annotations"]]
        results = [result for one in annotations for result in one.get("result") or []]
        fields = [one["from_name"] for one in results if one.get("type") in OF_EXAMPLES and one.get("from_name")]
        if not fields and results:
            what = f"to label whole tasks, by one of {', '.join(OF_EXAMPLES)}"
            raise ValueError(f"Expected {path} {what}, but it does not.")
        chosen, notes = choose_field(fields, label, path, "control tags")
        others = dict.fromkeys(str(one["from_name"]) for one in results if one.get("from_name") not in (chosen, None))
        unread = {name for name in others if any(is_of_parts(one.get("result") or [], name) for one in annotations)}
        several = any(len(task.get("predictions") or []) > 1 for task in tasks)
        rows, left_out = [], Counter[str]()
        for task in tasks:
            predicted = read_predictions(task.get("predictions") or [], chosen, several)
            trusted = [one for one in task["annotations"] if one.get("ground_truth") and not one.get("was_cancelled")]
            for annotation in task["annotations"]:
                if annotation.get("was_cancelled"):
                    left_out["cancelled"] += 1
                    continue
                known = read_facts(annotation, annotation.get("completed_by"))
                given = annotation.get("result") or []
                answers = {name: read_result(given, name) for name in others if name not in unread}
                rows.append(
                    LabelRow(
                        example=task.get("id"),
                        inputs=task["data"],
                        label=read_result(given, chosen),
                        privileged=known | name_answers(answers, {*known, *predicted}) | predicted,
                        gold=read_result(trusted[0].get("result") or [], chosen) if trusted else None,
                    )
                )
        notes += [f"Control tags that are not read: {', '.join(sorted(unread))}."] if unread else []
        notes += self.note_unread(tasks, ("id", "data", "annotations", "predictions"), "tasks")
        own = ("id", "result", "completed_by", "lead_time", "created_at", "ground_truth", "was_cancelled", "prediction")
        return make_table(rows, path, left_out).with_notes([*notes, *self.note_unread(annotations, own, "annotations")])


def check_tasks(tasks: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Raise a `ValueError` unless all tasks have data and annotations."""
    for number, task in enumerate(tasks):
        if not isinstance(task.get("data"), dict) or not isinstance(task.get("annotations"), list):
            what = f"task {number} has no annotations"
            raise ValueError(f"Expected {path} to be an export of Label Studio, but {what}.")


def pre_annotate(shown: Mapping[str, Any], more: PreAnnotation) -> dict[str, Any]:
    """Return a prediction by the control tag of a result."""
    kind, value = str(shown["type"]), more.value
    if kind in ("choices", "taxonomy"):
        names = [str(one) for one in (value if isinstance(value, list) else [value])]
        value = [name.split(" / ") for name in names] if kind == "taxonomy" else names
    elif kind == "rating":
        value = round(float(value))
    result = {name: shown.get(name) for name in ("from_name", "to_name", "type")}
    result |= {"id": AGENT, "value": {KEYS.get(kind, kind): value}}
    return {"model_version": AGENT, "result": [result]} | ({} if more.score is None else {"score": more.score})


def find_places(result: Mapping[str, Any]) -> list[str]:
    """Return the keys of a result that name a part of a task."""
    value, key = result.get("value") or {}, KEYS.get(str(result.get("type")), result.get("type"))
    return sorted(value.keys() - {key}) or [one for one in ("item_index",) if one in result]


def is_of_parts(results: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Return whether a control tag labels parts of a task, rather than giving the task a label or a text."""
    own = [one for one in results if one.get("from_name") == name]
    return len(own) > 1 or any(one.get("type") not in (*OF_EXAMPLES, "textarea") or find_places(one) for one in own)


def read_result(results: Sequence[Mapping[str, Any]], name: str) -> Any:
    """Return the label, or the text, that a control tag gives a task; None if it gives none."""
    label = None
    for result in results:
        kind = str(result.get("type"))
        if result.get("from_name") == name and kind in (*OF_EXAMPLES, "textarea"):
            places = find_places(result)
            if places or label is not None:
                where = f" ({', '.join(places)})" if places else ""
                raise ValueError(f"Expected control tag {name!r} to label whole tasks, but it labels parts{where}.")
            label = (result.get("value") or {}).get(KEYS.get(kind, kind))
            label = [" / ".join(path) for path in label] if kind == "taxonomy" and label else label
    return label


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


def read_facts(annotation: Mapping[str, Any], user: Any) -> dict[str, Any]:
    """Return who gave a label, when and in how much time; a user is a number, an email address or an object of both."""
    if isinstance(user, dict):
        user = user.get("email") or user.get("id")
    return {
        "annotator": None if user is None else str(user),
        "seconds": annotation.get("lead_time"),
        "timestamp": to_timestamp(annotation.get("created_at")),
    }


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
        if isinstance(value, dict) and set(value) != {"choices"}:
            raise ValueError(f"Expected `label` to be a field of whole tasks, but {label!r} has {', '.join(value)}.")
        rows.append(
            LabelRow(
                example=record.get("id"),
                inputs=name_answers({name: read_choices(record[name]) for name in record if name not in {*own, label}}),
                label=read_choices(value),
                privileged=read_facts(record, record.get("annotator")),
            )
        )
    return make_table(rows, path)


def read_choices(value: Any) -> Any:
    """Return the choices of a field of JSON-MIN that has several; return any other value unchanged."""
    return value["choices"] if isinstance(value, dict) and set(value) == {"choices"} else value

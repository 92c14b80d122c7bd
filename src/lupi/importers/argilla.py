"""Import exports of Argilla: records as JSON, nested or flattened, and datasets of Argilla 1.

See https://docs.argilla.io/latest/how_to_guides/import_export.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

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
)
from lupi.tabular.formats import read_table
from lupi.tabular.formats.json_files import read_records

SUBMITTED = ("submitted", None)
"""Status of submitted responses; others are drafts or were discarded."""
UNSUPPORTED = ("text", "ranking", "span")
"""Types of questions whose answers are no labels of records."""


class Record(NamedTuple):
    """A record: its fields, the responses to each question, and the suggestions."""

    id: Any
    fields: Mapping[str, Any]
    responses: Mapping[str, list[Mapping[str, Any]]]
    suggestions: Mapping[str, Mapping[str, Any]]


class Argilla(Importer):
    """Submitted responses to a question, with suggestions."""

    name = "argilla"
    export = (
        "[`records.to_json`, `to_disk`, `to_datasets`](https://docs.argilla.io/latest/how_to_guides/import_export), "
        "and datasets of Argilla 1"
    )
    reads: ClassVar[Mapping[str, str]] = {
        "id": "the example",
        "fields, metadata": "inputs",
        "responses": (
            "the label: one, several or none of several labels, or a rating, of the first question or that of "
            "`--label`; the same user's answers to other questions, texts too, are privileged"
        ),
        "responses.user_id": "`annotator`",
        "suggestions": "`prediction`, `prediction_score` and `prediction_version` (the agent)",
    }
    ignores = ("external_id", "status", "_server_id", "_status", "inserted_at", "updated_at", "fields")
    notes = (
        "drafts and discarded responses are left out",
        "which question holds the labels, if there are several",
        "rankings and spans as answers to other questions, and vectors, are not read",
    )
    refuses = ("answers in free text", "rankings", "spans")

    def add(
        self, path: Path, found: Mapping[str, PreAnnotation], *, label: str | None = None
    ) -> tuple[list[dict[str, Any]], list[str]]:
        """Return records with suggestions, and the metadata `lupi_wrong` to filter by."""
        records = load_records(path)
        for number, record in enumerate(records):
            if not isinstance(record.get("fields"), dict):
                what = f"to have records as `to_json` and `to_disk` write them, but record {number} has no fields"
                raise ValueError(f"Expected {path} {what}.")
        given = {name: one for record in records for name, one in (record.get("responses") or {}).items() if one}
        chosen, _ = choose_field(list(given), label, path, "questions")
        for record in records:
            more = found.get(str(record.get("id")), PreAnnotation())
            if more.wrong is not None:
                record["metadata"] = {**(record.get("metadata") or {}), SUSPICION: more.wrong}
            if more.value is not None:
                suggestion = {"value": convert(more.value, given[chosen][0].get("value")), "agent": AGENT}
                suggestion |= {} if more.score is None else {"score": more.score}
                record["suggestions"] = {**(record.get("suggestions") or {}), chosen: suggestion}
        return records, [str(record.get("id")) for record in records]

    def read(self, path: Path, *, label: str | None = None) -> ImportedTable:
        """Read an export."""
        found = load_records(path)
        records = [parse_record(record) for record in found]
        answered = [name for record in records for name, responses in record.responses.items() if responses]
        kinds = find_question_types(path)
        first = [name for name in answered if kinds.get(name) not in UNSUPPORTED] if label is None else []
        chosen, notes = choose_field(first or answered, label, path, "questions")
        others = dict.fromkeys(name for name in answered if name != chosen)
        unread = {name for name in others for one in records if has_objects(one.responses.get(name, []))}
        if (kind := kinds.get(chosen)) in UNSUPPORTED:
            raise ValueError(f"Expected question {chosen!r} to ask for labels or a rating, but it asks for {kind}.")
        rows, left_out = [], Counter[str]()
        for record in records:
            suggested = record.suggestions.get(chosen) or {}
            value = suggested.get("value")
            for response in record.responses.get(chosen, []):
                if response.get("status") not in SUBMITTED:
                    left_out[str(response["status"])] += 1
                    continue
                user = response.get("user_id")
                known = {
                    "annotator": None if user is None else str(user),
                    "prediction": "; ".join(map(str, value)) if isinstance(value, list) else value,
                    "prediction_score": average(suggested.get("score")),
                    "prediction_version": suggested.get("agent"),
                }
                answer = response.get("value")
                if isinstance(answer, list) and any(isinstance(one, dict) and "rank" in one for one in answer):
                    raise ValueError(f"Expected question {chosen!r} to ask for labels, but it asks for ranking.")
                read = [name for name in others if name not in unread]
                answers = {name: find_answer(record.responses.get(name, []), user) for name in read}
                known |= name_answers(answers, known)
                rows.append(LabelRow(example=record.id, inputs=record.fields, label=answer, privileged=known))
        notes += [f"Questions that are not read: {', '.join(sorted(unread))}."] if unread else []
        if any(record.get("vectors") for record in found):
            notes.append("Fields of records that are not read: vectors.")
        return make_table(rows, path, left_out, may_be_none=True).with_notes(notes)


def convert(value: Any, answer: Any) -> Any:
    """Return a predicted label in the form of an answer: a list of labels, a rating or a label."""
    if isinstance(answer, list):
        return [str(one) for one in (value if isinstance(value, list) else [value])]
    return round(float(value)) if isinstance(answer, int | float) else str(value)


def find_answer(responses: list[Mapping[str, Any]], user: Any) -> Any:
    """Return what a user has answered to a question; None if nothing was submitted, or nobody knows who answers."""
    given = [one for one in responses if one.get("user_id") == user and one.get("status") in SUBMITTED]
    return given[0].get("value") if given and user is not None else None


def has_objects(responses: list[Mapping[str, Any]]) -> bool:
    """Return whether some of the responses to a question are rankings or spans."""
    values = [one.get("value") for one in responses]
    return any(isinstance(part, dict) for value in values for part in (value if isinstance(value, list) else [value]))


def find_question_types(path: Path) -> dict[str, str]:
    """Return the types of questions, which the folder that ``to_disk`` writes has in its settings."""
    for file in (path / ".argilla" / "settings.json", path / "settings.json"):
        if file.is_file():
            questions = json.loads(file.read_bytes()).get("questions") or []
            return {one["name"]: str((one.get("settings") or {}).get("type")) for one in questions}
    return {}


def load_records(path: Path) -> list[dict[str, Any]]:
    """Read the records of a file, or of the folder that ``to_disk`` writes."""
    if path.is_dir() and (path / "records.json").exists():
        path = path / "records.json"
    if path.is_file() and path.suffix.lower() in (".json", ".jsonl"):
        return read_records(path)
    return read_table(path).to_pylist()  # type: ignore[no-any-return]


def parse_record(record: Mapping[str, Any]) -> Record:
    """Recognise the form of a record: nested, flattened, or of Argilla 1."""
    if isinstance(record.get("fields"), dict):
        fields = {**record["fields"], **(record.get("metadata") or {})}
        responses = {name: list(found or []) for name, found in (record.get("responses") or {}).items()}
        return Record(record.get("id"), fields, responses, record.get("suggestions") or {})
    flat = [name.removesuffix(".responses") for name in record if name.endswith(".responses")]
    old = [name for name, value in record.items() if is_old_question(value) or f"{name}-suggestion" in record]
    own = {"id", "vectors", "external_id", "status", "_server_id", "_status", "metadata", "inserted_at", "updated_at"}
    own |= {name for name in record for question in flat if name.startswith(f"{question}.")}
    own |= {f"{question}{end}" for question in old for end in ("", "-suggestion", "-suggestion-metadata")}
    fields = {name: value for name, value in record.items() if name not in own} | parse_metadata(record.get("metadata"))
    responses = {name: list(flat_responses(record, name)) for name in flat}
    responses |= {name: list(old_responses(record.get(name))) for name in old}
    suggestions = {
        name: {
            "value": record.get(f"{name}.suggestion"),
            "score": record.get(f"{name}.suggestion.score"),
            "agent": record.get(f"{name}.suggestion.agent"),
        }
        for name in flat
    }
    for name in old:
        about = record.get(f"{name}-suggestion-metadata") or {}
        suggestions[name] = {**about, "value": record.get(f"{name}-suggestion")}
    return Record(record.get("id") or record.get("external_id"), fields, responses, suggestions)


def flat_responses(record: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Return the responses of a flattened record, stored as lists of values, users and states."""
    values = record.get(f"{name}.responses") or []
    users, states = (record.get(f"{name}.responses.{key}") or [None] * len(values) for key in ("users", "status"))
    for value, user, state in zip(values, users, states, strict=True):
        yield {"value": value, "user_id": user, "status": state}


def is_old_question(value: Any) -> bool:
    """Return whether a value holds responses of Argilla 1: objects with a user, or an object of lists."""
    one = value[0] if isinstance(value, list) and value else value
    return isinstance(one, dict) and {"user_id", "value"} <= one.keys()


def old_responses(value: Any) -> Iterator[Mapping[str, Any]]:
    """Return the responses of Argilla 1."""
    if isinstance(value, dict):
        yield from (dict(zip(value, response, strict=True)) for response in zip(*value.values(), strict=True))
    else:
        yield from value or []


def parse_metadata(metadata: Any) -> dict[str, Any]:
    """Return the metadata of Argilla 1, which is an object or a string of JSON."""
    try:
        found = json.loads(metadata) if isinstance(metadata, str) else metadata
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def average(score: Any) -> Any:
    """Return the mean score of a list of labels; return any other score unchanged."""
    return sum(score) / len(score) if isinstance(score, list) and score else score or None

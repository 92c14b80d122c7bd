"""Exports of labelling tools with other tasks than choices: spans, regions, rankings, texts, skipped, without ids."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from tests.faults.tables import write_as
from tests.faults.values import hostile_text

WHO = ("ann", "bob", "eve")
CLASSES = ("yes", "no", "N/A", 'say "maybe"')
SHAPES: dict[str, Callable[[Random], Any]] = {
    "choices": lambda rng: [rng.choice(CLASSES)],
    "several": lambda rng: sorted(rng.sample(CLASSES, rng.randrange(4))),
    "rating": lambda rng: rng.randrange(1, 6),
    "number": lambda rng: rng.choice([0.5, 1.5, 2.25, 3.125]),
    "text": lambda rng: f"It says {rng.random()} in the film",
    "ranking": lambda rng: rng.sample(CLASSES, 4),
    "spans": lambda rng: [[rng.randrange(3), rng.randrange(4, 9), rng.choice(["PER", "LOC"])]],
    "regions": lambda rng: [rng.choice(CLASSES)],
}
"""What an annotator answers, by the shape of the task. Labels of whole examples are the first four."""
WHOLE = ("choices", "several", "rating", "number")


@dataclass
class Export:
    """An export, and what somebody who counts by hand finds in it.

    Parameters
    ----------
    path : str
        The file or folder.
    options : dict of str to list of str
        Arguments that `lupi import` needs.
    answers : int
        Number of answers; each must be a row, or be counted in a note.
    labels : Counter, optional
        How often each annotator gave each label, where labels are of whole examples.
    """

    path: str
    options: dict[str, list[str]] = field(default_factory=dict)
    answers: int = 0
    labels: Counter[tuple[str, str]] | None = None


@dataclass
class Answer:
    """An answer: the number of its example, who gave it, what it is, and whether it was skipped."""

    example: int
    who: str
    value: Any
    skipped: bool


def draw_answers(rng: Random, shape: str) -> list[Answer]:
    """Draw the answers of three annotators to some examples; some are skipped, some examples have one answer."""
    skips = rng.choice([0.0, 0.0, 0.2])
    return [
        Answer(example, who, SHAPES[shape](rng), rng.random() < skips)
        for example in range(rng.choice([3, 12]))
        for who in WHO
        if who == "ann" or rng.random() < 0.8
    ]


def count_labels(answers: list[Answer], shape: str) -> Counter[tuple[str, str]] | None:
    """Count the labels of each annotator that an import must have; none in a list of several is a label."""
    if shape not in WHOLE:
        return None
    kept = [answer for answer in answers if not answer.skipped]
    if shape == "several" and not any(len(answer.value) > 1 for answer in kept):
        kept = [answer for answer in kept if answer.value]  # choices, as far as one can tell
    return Counter((answer.who, write_label(answer.value)) for answer in kept)


def write_label(value: Any) -> str:
    """Return a label as a text."""
    return " + ".join(map(str, value)) if isinstance(value, list) else f"{value:g}"


def text_of(example: int, rng: Random) -> str:
    """Return the text of an example."""
    return f"film {example} is {'lovely' if example % 2 else 'awful'}" + (
        hostile_text(rng) if rng.random() < 0.1 else ""
    )


def name_ids(answers: list[Answer], rng: Random) -> dict[int, Any]:
    """Return the ids of examples: numbers, texts, numbers beyond the exact ones, or none."""
    draw = rng.choice([lambda i: i, lambda i: f"film-{i}", lambda i: 2**53 + i, lambda _: None])
    return {answer.example: draw(answer.example) for answer in answers}


# ------------------------------------------------------------------------------ tools


def label_studio(folder: Path, rng: Random, shape: str) -> Export:
    """Write what Label Studio exports as JSON."""
    answers = draw_answers(rng, shape)
    kind = {"several": "choices", "text": "textarea", "ranking": "ranker", "spans": "labels", "regions": "choices"}
    name = kind.get(shape, shape)
    numbers, ids, texts = {}, name_ids(answers, rng), {}
    tasks: dict[int, dict[str, Any]] = {}
    for answer in answers:
        value: dict[str, Any] = {name: answer.value}
        if shape in ("regions", "spans"):
            value |= {"start": 0, "end": 4, name: ["PER"] if shape == "spans" else answer.value}
        result = {"from_name": "tag", "to_name": "text", "type": name, "value": value}
        texts.setdefault(answer.example, text_of(answer.example, rng))
        task = tasks.setdefault(
            answer.example, {"id": ids[answer.example], "data": {"text": texts[answer.example]}, "annotations": []}
        )
        numbers.setdefault(answer.who, len(numbers) + 1)
        more = [{**result, "from_name": "other", "type": "choices", "value": {"choices": ["x"]}}]
        found = [result] if answer.value != [] else []
        task["annotations"].append(
            {
                "result": found * (2 if shape == "regions" else 1) + more * (rng.random() < 0.1),
                "completed_by": {"email": answer.who} if rng.random() < 0.5 else answer.who,
                "was_cancelled": answer.skipped,
                "lead_time": 1.5,
                "created_at": "2024-05-01T10:00:00.5+02:00",
            }
        )
    labels = count_labels(answers, shape)
    if labels is not None:  # an annotation without a choice is no label here
        labels = Counter({key: count for key, count in labels.items() if key[1] != ""})
    (folder / "export.json").write_text(json.dumps(list(tasks.values())))
    return Export("export.json", {"label": ["tag"]}, len(answers), labels)


def argilla(folder: Path, rng: Random, shape: str) -> Export:
    """Write what `records.to_json` of Argilla writes."""
    answers, records = draw_answers(rng, shape), dict[int, dict[str, Any]]()
    ids = name_ids(answers, rng)
    for answer in answers:
        fields = {"text": text_of(answer.example, rng)}
        empty = {"id": ids[answer.example], "fields": fields, "responses": {"tag": []}, "suggestions": {}}
        record = records.setdefault(answer.example, empty)
        value = answer.value[0] if shape in ("choices", "regions") else answer.value
        if shape == "ranking" and rng.random() < 0.5:
            value = [{"value": name, "rank": place} for place, name in enumerate(value)]
        if shape == "spans":
            value = [{"start": 0, "end": 4, "label": "PER"}]
        status = rng.choice(["draft", "discarded"]) if answer.skipped else "submitted"
        record["responses"]["tag"].append({"value": value, "user_id": answer.who, "status": status})
    (folder / "records.json").write_text(json.dumps(list(records.values())))
    return Export("records.json", {}, len(answers), count_labels(answers, shape))


def prodigy(folder: Path, rng: Random, shape: str) -> Export:
    """Write what `prodigy db-out` writes."""
    answers, lines = draw_answers(rng, shape), []
    ids = name_ids(answers, rng)
    for answer in answers:
        task: dict[str, Any] = {"text": text_of(answer.example, rng), "_input_hash": ids[answer.example]}
        task |= {"_annotator_id": answer.who, "answer": "ignore" if answer.skipped else "accept"}
        if shape in ("choices", "several", "ranking"):
            task["accept"] = answer.value
        elif shape == "text":
            task["user_input"] = answer.value
        else:
            task["spans"] = [{"start": 0, "end": 4, "label": "PER"}]
        lines.append(json.dumps(task))
    (folder / "db.jsonl").write_text("\n".join(lines))
    labels = count_labels(answers, shape) if shape in ("choices", "several") else None
    return Export("db.jsonl", {}, len(answers), labels)


def doccano(folder: Path, rng: Random, shape: str) -> Export:
    """Write what doccano exports: a file per annotator."""
    answers = [answer for answer in draw_answers(rng, shape) if shape != "ranking"]
    ids = name_ids(answers, rng)
    (folder / "doccano").mkdir()
    for who in WHO:
        lines = []
        for answer in answers:
            value = [] if answer.skipped else answer.value if isinstance(answer.value, list) else [answer.value]
            if answer.who == who:
                record = {"id": ids[answer.example], "text": text_of(answer.example, rng), "label": value}
                lines.append(json.dumps(record | {"Comments": ["hm"] * (rng.random() < 0.1)}))
        (folder / "doccano" / f"{who}.jsonl").write_text("\n".join([*lines, ""]))
    labels = count_labels(answers, shape)
    if labels is not None:
        labels = Counter({key: count for key, count in labels.items() if key[1] != ""})
    return Export("doccano", {}, len(answers), labels)


def wide(folder: Path, rng: Random, shape: str) -> Export:
    """Write a table with a column of labels per annotator, in any format."""
    shape = shape if shape in ("choices", "rating") else "choices"
    answers = draw_answers(rng, shape)
    ids = name_ids(answers, rng)
    examples = list(dict.fromkeys(answer.example for answer in answers))
    cells = {(answer.example, answer.who): answer for answer in answers if not answer.skipped}
    columns: list[tuple[str, Any]] = [
        ("id", [ids[example] if ids[example] is not None else example for example in examples])
    ]
    for who in WHO:
        given = [cells.get((example, who)) for example in examples]
        columns.append((who, [None if one is None else read_cell(one.value) for one in given]))
    columns.append(("size", [rng.random() for _ in examples]))
    kind = rng.choice(["csv", "tsv", "xlsx", "jsonl", "parquet"])
    (folder / f"wide.{kind}").write_bytes(write_as(kind, columns, rng))
    labels = Counter((one.who, write_label(one.value)) for one in cells.values())
    return Export(f"wide.{kind}", {"annotators": [",".join(WHO)]}, len(examples) * len(WHO), labels)


def read_cell(value: Any) -> Any:
    """Return a label as a cell."""
    return value[0] if isinstance(value, list) else value


def huggingface(folder: Path, rng: Random, shape: str) -> Export:
    """Write a dataset as Parquet or JSON Lines: one row per label, lists of labels, or labels of tokens."""
    answers = draw_answers(rng, shape)
    ids = name_ids(answers, rng)
    rows: list[dict[str, Any]] = []
    for answer in answers:
        value = read_cell(answer.value) if shape in ("choices", "regions") else answer.value
        if shape == "spans":
            row = {"tokens": ["a", "b"], "labels": ["B-PER", "O"]}
        else:
            row = {"text": text_of(answer.example, rng), "label": None if answer.skipped else value}
        rows.append({"id": str(ids[answer.example]), "annotator": answer.who, **row})
    if rng.random() < 0.5:
        (folder / "data.jsonl").write_text("\n".join(map(json.dumps, rows)))
        name = "data.jsonl"
    else:
        name = "data.parquet"
        pa.parquet.write_table(pa.Table.from_pylist(rows), folder / name)
    labels = count_labels(answers, shape) if shape in ("choices", "rating", "number") else None
    elements = sum(len(row["label"]) or 1 if isinstance(row.get("label"), list) else 1 for row in rows)
    return Export(name, {}, elements, labels)


def judges(folder: Path, rng: Random, shape: str) -> Export:
    """Write a log of judges: verdicts, their log-probabilities, or scores."""
    shape = shape if shape in ("choices", "rating", "number") else "choices"
    answers, field = draw_answers(rng, shape), "verdict" if shape == "choices" else "score"
    ids, texts, lines = name_ids(answers, rng), dict[int, str](), list[dict[str, Any]]()
    logprobs = shape == "choices" and rng.random() < 0.3
    for answer in answers:
        value = None if answer.skipped else read_cell(answer.value)
        line: dict[str, Any] = {"judge": answer.who, "text": texts.setdefault(answer.example, text_of(0, rng))}
        line |= {"item": ids[answer.example]} if ids[answer.example] is not None else {}
        line[field] = value
        if logprobs:
            del line[field]
            line["logprobs"] = {} if value is None else {one: -0.1 if one == value else -2.5 for one in CLASSES}
        line |= {"reason": "It says so.", "tokens": [1, 2]} if rng.random() < 0.1 else {}
        lines.append(line)
    name = rng.choice(["log.jsonl", "log.json"])
    (folder / name).write_text(json.dumps(lines) if name == "log.json" else "\n".join(map(json.dumps, lines)))
    return Export(name, {}, len(answers), count_labels(answers, shape))


TOOLS = {
    "judges": judges,
    "label-studio": label_studio,
    "argilla": argilla,
    "prodigy": prodigy,
    "doccano": doccano,
    "wide": wide,
    "huggingface": huggingface,
}

"""Import logs of LLM judges: JSON Lines with one judgement per line."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from lupi._internal.checks import is_number
from lupi.importers.base import ImportedTable, Importer, LabelRow, make_table, to_timestamp
from lupi.tabular.formats.json_files import read_records

FIELDS: Mapping[str, Sequence[str]] = {
    "item": ("item", "item_id", "example", "example_id", "id"),
    "judge": ("judge", "judge_model", "model", "annotator"),
    "version": ("prompt_version", "prompt_id", "version"),
    "verdict": ("verdict", "label"),
    "logprobs": ("logprobs", "log_probabilities"),
    "score": ("score", "rating"),
    "gold": ("gold", "human"),
    "seconds": ("seconds", "latency"),
    "timestamp": ("timestamp", "created_at", "created"),
    "input": ("input", "inputs"),
}
"""Names of each field; the first one that a line has is read."""
FACTS = ("confidence", "logprob", "temperature", "tokens", "position", "cost")
"""More facts about a judgement, which are read under their own names."""
REASONS = ("reason", "reasoning", "explanation", "rationale", "raw", "output", "completion", "response_text", "prompt")
"""What a judge wrote or was told. It gives the verdict away, so it is not read."""


class Judges(Importer):
    """Verdicts, scores or log-probabilities of LLM judges."""

    name = "judges"
    export = "JSON Lines with one judgement per line, or a JSON list of them"
    reads: ClassVar[Mapping[str, str]] = {
        "item, item_id, example, example_id, id": "the example",
        "judge, judge_model, model, annotator": "`annotator`",
        "prompt_version, prompt_id, version": "part of `annotator`: another prompt is another annotator, `judge/v2`",
        "verdict, label": "the label; `--label` names another field, such as `score`",
        "logprobs": "an object of verdicts and their log-probabilities: `logprob` is that of the label, and the most "
        "probable verdict is the label if there is no other",
        "score, rating": "`score`; the label if there is neither verdict nor log-probability",
        "confidence, logprob, temperature, tokens, position, cost": "privileged columns of these names",
        "seconds, latency": "`seconds`",
        "timestamp, created_at, created": "`timestamp`",
        "gold, human": "`gold`",
        "input": "inputs, if it is an object; an input otherwise",
        "others": "inputs, if they are equal in all judgements of an item",
    }
    notes = (
        "judgements without a verdict are left out",
        "fields that differ between judgements of an item, and what a judge wrote, such as `reason`, are not read",
    )
    refuses = (
        "lines without a judge",
        "logs with neither verdicts nor log-probabilities nor scores",
        "free text as verdicts",
    )

    def read(self, path: Path, *, label: str | None = None) -> ImportedTable:
        """Read a log; `label` names the field of labels."""
        lines = read_records(path)
        for number, line in enumerate(lines):
            if find(line, "judge") is None:
                raise ValueError(f"Expected lines of {path} to name their `judge`, but line {number + 1} does not.")
        names = set[str]().union(*lines)
        if label is not None and label not in names:
            raise ValueError(f"Expected `label` to be one of the fields {', '.join(sorted(names))}, but got {label!r}.")
        label = label or choose_label(lines, path)
        known = {label, *FACTS, *(name for each in FIELDS.values() for name in each)}
        inputs = find_inputs(lines, known)
        table = make_table([read_line(line, label, inputs) for line in lines], path)
        return table.with_notes(self.note_unread(lines, known.union(inputs), "judgements"))


def find(line: Mapping[str, Any], field: str) -> Any:
    """Return the value of a field under the first of its names that the line has, or None."""
    return next((line[name] for name in FIELDS[field] if line.get(name) is not None), None)


def choose_label(lines: Sequence[Mapping[str, Any]], path: Path) -> str:
    """Return the name of the field that holds the labels."""
    for field in ("verdict", "logprobs", "score"):
        for name in FIELDS[field]:
            if any(line.get(name) is not None for line in lines):
                return name
    raise ValueError(f"Expected {path} to have a `verdict`, `logprobs` or a `score` in its lines, but it has none.")


def find_inputs(lines: Sequence[Mapping[str, Any]], known: set[str]) -> list[str]:
    """Return the other fields that are equal in all judgements of an item, except what judges wrote."""
    first: dict[Any, Mapping[str, Any]] = {}
    names = [name for name in dict.fromkeys(name for line in lines for name in line) if name not in known]
    varying = {name for name in names if name in REASONS}
    for number, line in enumerate(lines):
        item = find(line, "item")
        one = first.setdefault(number if item is None else str(item), line)
        varying |= {name for name in names if line.get(name) != one.get(name)}
    return [name for name in names if name not in varying]


def read_line(line: Mapping[str, Any], label: str, inputs: Sequence[str]) -> LabelRow:
    """Return a judgement as a label."""
    logprobs, given, version = find(line, "logprobs"), line.get(label), find(line, "version")
    logprobs = {str(k): v for k, v in logprobs.items() if is_number(v)} if isinstance(logprobs, dict) else {}
    if label in FIELDS["logprobs"] or (given is None and label in FIELDS["verdict"] and logprobs):
        given = max(logprobs, key=lambda name: logprobs[name]) if logprobs else None
    facts = {name: line.get(name) for name in FACTS}
    if facts["logprob"] is None:
        facts["logprob"] = logprobs.get(str(given))
    judge, score, content = find(line, "judge"), find(line, "score"), find(line, "input")
    more = content if isinstance(content, dict) else {} if content is None else {"input": content}
    return LabelRow(
        example=find(line, "item"),
        inputs={**{name: line.get(name) for name in inputs}, **more},
        label=given,
        privileged={
            "annotator": str(judge) if version is None else f"{judge}/{version}",
            "score": None if label in FIELDS["score"] else score,
            **facts,
            "seconds": find(line, "seconds"),
            "timestamp": to_timestamp(find(line, "timestamp")),
        },
        gold=find(line, "gold"),
    )

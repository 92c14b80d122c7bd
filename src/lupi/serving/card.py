"""The model card: what a model was trained on, for the people who use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lupi.tabular import Schema


def write_card(schema: Schema, facts: Mapping[str, Any]) -> str:
    """Return a model card in Markdown.

    Parameters
    ----------
    schema : Schema
        Columns, roles and kinds.
    facts : mapping
        The method, whether its predictor ships privileged information, and the record of the training.
    """
    roles, record = schema.roles, facts["record"]
    kinds: dict[str, list[str]] = {}
    for name, column in schema.inputs.items():
        kinds.setdefault(column.kind, []).append(name)
    classes = record["classes"]
    contains = "contains" if facts["ships_privileged"] else "contains no"
    folder = (
        "This folder also holds the rest of the network and the names of privileged categories, such as annotators; "
        "an exported ONNX file does not."
        if schema.privileged
        else "The method does not use privileged columns."
    )
    lines = [
        f"# Model of {list_names(roles.target)}",
        "",
        f"Trained with lupi {record['versions']['lupi']} on {record['rows']:,} annotations of "
        f"{record['examples']:,} examples in `{record['table']}`.",
        "",
        f"- Task: {schema.task}{f' of {len(classes)} classes: {list_names(classes)}' if classes else ''}.",
        f"- Method: `{facts['method']}`, {record['epochs']} epochs, seed {record['seed']}.",
        f"- Target: {list_names(roles.target)}.",
        *(f"- Inputs, {kind}: {list_names(names)}." for kind, names in kinds.items()),
        f"- Privileged, known in training only: {list_names(roles.privileged)}.",
        f"- Example: {list_names([roles.example] if roles.example else [])}.",
        f"- Not used: {list_names(roles.ignored)}.",
        *([f"- Text encoder: {record['text_encoder']}."] if "text" in kinds else []),
        "",
        "## Privileged information",
        f"The predictor {contains} values of the privileged information. {folder}",
        "",
        "## Labels",
        "Training used no true labels: the target is the only column of labels, unless a note below says that an input "
        "sounds like one. This card does not say how good the model is: measure it on true labels.",
        *(f"- {note}" for note in record["notes"]),
        "",
        "## Use",
        "On the command line:",
        "",
        "    lupi predict FOLDER TABLE -o predictions.parquet",
        "",
        "In Python, with a DataFrame:",
        "",
        "    import lupi",
        '    lupi.load("FOLDER").predict(table)',
        "",
        "The table needs the input columns only. Loading runs no code from this folder.",
        "",
        "## Reproduce",
        *([f"    {record['command']}", ""] if record["command"] else []),
        ", ".join(f"{name} {version}" for name, version in record["versions"].items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def list_names(names: Sequence[str], limit: int = 20) -> str:
    """Return names as a list in Markdown, of which only the first `limit` are shown.

    Examples
    --------
    >>> list_names(["age", "city"])
    '`age`, `city`'
    >>> list_names([])
    'none'
    """
    shown = ", ".join(f"`{name}`" for name in names[:limit])
    return (shown + (f" and {len(names) - limit} more" if len(names) > limit else "")) or "none"

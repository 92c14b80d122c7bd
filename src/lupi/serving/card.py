"""The model card: what a model folder was trained on, for the people who will use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lupi.tabular.tables import Schema


def card(schema: Schema, facts: Mapping[str, Any], training: Mapping[str, Any]) -> str:
    """Write a model card in Markdown.

    Parameters
    ----------
    schema : Schema
        Columns, roles and kinds.
    facts : mapping
        What `model.json` holds: method, likelihood, whether the predictor ships privileged information.
    training : mapping
        Table, rows, examples, classes, seed, versions and command line.
    """
    roles = schema.roles
    kinds: dict[str, list[str]] = {}
    for name, column in schema.inputs.items():
        kinds.setdefault(column.kind, []).append(name)
    used = bool(schema.privileged)
    ships = "values of" if facts["ships_privileged"] else "no values of"
    folder = (
        "This folder also holds the rest of the network and the names of the privileged categories, such as "
        "annotators; an exported ONNX file does not."
        if used
        else "The method does not look at privileged columns."
    )
    lines = [
        f"# Model of {code(roles.target)}",
        "",
        f"Trained by lupi {training['versions']['lupi']} on {training['rows']:,} annotations of "
        f"{training['examples']:,} examples in `{training['table']}`.",
        "",
        f"- Task: {schema.task}{classes(training['classes'])}.",
        f"- Method: `{facts['method']}`, {training['epochs']} epochs, seed {training['seed']}.",
        f"- Target: {code(roles.target)}.",
        *(f"- Inputs, {kind}: {code(names)}." for kind, names in kinds.items()),
        f"- Privileged, known in training only: {code(roles.privileged)}.",
        f"- Example: {code([roles.example] if roles.example else [])}.",
        f"- Not used: {code(roles.ignored)}.",
        *([f"- Text encoder: {training['text_encoder']}."] if "text" in kinds else []),
        "",
        "## Privileged information",
        f"The predictor ships {ships} the privileged information. {folder}",
        "",
        "## Labels",
        "Training read no gold labels: the target is the only column of labels it read, unless a note says that an "
        "input sounds like one. Nothing here says how good the model is: measure it on true labels.",
        *(f"- {note}" for note in training["notes"]),
        "",
        "## Use",
        "    lupi predict FOLDER TABLE -o predictions.parquet",
        "",
        "or in Python, of a DataFrame,",
        "",
        "    from lupi.serving.tables import tables as serving",
        '    serving.load("FOLDER").predict(table)',
        "",
        "The input columns are needed, the others are not.",
        "Reading this folder runs no code from it.",
        "",
        "## How it was made",
        f"    {training['command']}",
        "",
        ", ".join(f"{name} {version}" for name, version in training["versions"].items()) + ".",
    ]
    return "\n".join(lines) + "\n"


def code(names: Sequence[str], most: int = 20) -> str:
    """List names as code, the first of many.

    Examples
    --------
    >>> code(["age", "city"])
    '`age`, `city`'
    >>> code([])
    'none'
    """
    shown = ", ".join(f"`{name}`" for name in names[:most])
    return (shown + (f" and {len(names) - most} more" if len(names) > most else "")) or "none"


def classes(names: Sequence[str] | None) -> str:
    """List the classes of a classification."""
    return f" of {len(names)}: {code(names)}" if names else ""

"""The model card: what a model was trained on, for the people who use it."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

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
    kinds: dict[str, list[str]] = {}
    for name, column in schema.inputs.items():
        kinds.setdefault(column.kind, []).append(name)
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    environment.filters["names"] = list_names
    template = environment.from_string(files("lupi.serving").joinpath("card.md").read_text("utf-8"))
    return template.render(facts, schema=schema, roles=schema.roles, kinds=kinds)


def list_names(names: Sequence[str], limit: int = 20) -> str:
    """List the first `limit` names in Markdown, and count the rest.

    Examples
    --------
    >>> list_names(["age", "city"])
    '`age`, `city`'
    >>> list_names([])
    'none'
    """
    shown = ", ".join(f"`{name}`" for name in names[:limit])
    return (shown + (f" and {len(names) - limit} more" if len(names) > limit else "")) or "none"

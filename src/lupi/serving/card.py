"""The model card: a description of a model and its training data for its users."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from lupi._internal.sanitizing import one_line, sanitize
from lupi.tabular.schema import Schema


def write_card(schema: Schema, facts: Mapping[str, Any]) -> str:
    """Return a model card in Markdown."""
    kinds: dict[str, list[str]] = {}
    for name, column in schema.inputs.items():
        kinds.setdefault(column.kind.partition(":")[0], []).append(name)
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"names": list_names, "plain": escape, "code": sanitize}
    template = environment.from_string(files("lupi.serving").joinpath("card.md").read_text("utf-8"))
    history = facts["record"].get("history") or [{}]
    return template.render(facts, schema=schema, roles=schema.roles, kinds=kinds, device=history[0].get("device"))


def list_names(names: Sequence[str], limit: int = 20) -> str:
    """List the first `limit` names in Markdown, and count the rest."""
    shown = ", ".join(map(quote_code, names[:limit]))
    return (shown + (f" and {len(names) - limit} more" if len(names) > limit else "")) or "none"


def quote_code(text: object) -> str:
    r"""Return any text as one line of Markdown code."""
    line = one_line(text)
    ticks = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{ticks} {line} {ticks}" if "`" in line or not line else f"`{line}`"


def escape(text: str) -> str:
    r"""Return a sentence as one line of Markdown with links, emphasis and HTML escaped; code stays code."""
    return re.sub(r"([\\<\[*_])", r"\\\1", one_line(text))

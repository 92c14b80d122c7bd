"""Show a result in a notebook, as a piece of HTML without styles, since it becomes part of another page."""

from collections.abc import Mapping, Sequence
from html import escape

import pandas as pd


def format_fragment(verdict: str, tables: Mapping[str, pd.DataFrame], notes: Sequence[str] = ()) -> str:
    """Return the verdict, tables with captions, and notes as HTML. All text is escaped."""
    parts = [f"<p>{escape(line)}</p>" for line in verdict.splitlines() if line.strip()]
    for caption, table in tables.items():
        text = table.to_html(border=0, index=False, na_rep="–", float_format="{:.4g}".format)
        parts.append(f"<p><b>{escape(caption)}</b></p>\n{text}")
    if notes:
        listed = "".join(f"<li>{escape(note)}</li>" for note in notes)
        parts.append(f"<details><summary>Notes</summary><ul>{listed}</ul></details>")
    return "\n".join(parts)

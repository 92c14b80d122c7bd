"""Convert results to JSON and CSV."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
"""First characters of cells that spreadsheets run as formulas."""
NUMBER = re.compile(r"[+-](\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]inf", re.IGNORECASE)


def read_results(folder: Path) -> dict[str, Any]:
    """Return the contents of ``results.json`` in a folder; an empty dict if there is none, or it is not from lupi."""
    try:
        found = json.loads((folder / "results.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def to_records(table: pd.DataFrame) -> Any:
    """Convert the rows of a table to JSON types; missing values become null."""
    return json.loads(table.to_json(orient="records", double_precision=15))


def to_csv(table: pd.DataFrame, *, index: bool = False) -> str:
    """Convert a table to CSV for readers; an apostrophe keeps spreadsheets from running a text as a formula."""
    safe = table.rename(columns=quote_formula, index=quote_formula if index else None)
    for place, dtype in enumerate(safe.dtypes):
        if dtype.kind not in "biufmM":
            safe.isetitem(place, [quote_formula(value) for value in safe.iloc[:, place]])
    return safe.to_csv(index=index)


def quote_formula(value: Any) -> Any:
    """Put an apostrophe before a text that spreadsheets would run, as OWASP recommends."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # pandas does not quote a lone \r, which ends a row
    return f"'{text}" if is_formula(text) else text


def is_formula(text: str) -> bool:
    """Return whether spreadsheets run a text as a formula; numbers are not formulas."""
    return bool(FORMULA.match(text)) and not NUMBER.fullmatch(text)

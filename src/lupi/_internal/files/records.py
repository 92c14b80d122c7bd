"""Results as JSON holds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def read_results(folder: Path) -> dict[str, Any]:
    """Return what ``results.json`` in a folder holds; nothing if there is none, or none of ours."""
    try:
        found = json.loads((folder / "results.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def to_records(table: pd.DataFrame) -> Any:
    """Return the rows of a table as JSON holds them; missing values become null.

    Examples
    --------
    >>> import pandas as pd
    >>> to_records(pd.DataFrame({"a": [1.5, None]}))
    [{'a': 1.5}, {'a': None}]
    """
    return json.loads(table.to_json(orient="records", double_precision=15))

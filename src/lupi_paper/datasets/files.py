"""Find published files and check their contents."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd


def find_file(argument: str, path: str | Path, names: Sequence[str], how: str) -> Path:
    """Return the file `path`, or the first of the files `names` in the folder `path`."""
    for place in (Path(path), *(Path(path, name) for name in names)):
        if place.is_file():
            return place
    raise FileNotFoundError(f"Expected `{argument}` to contain {names[0]}, but got {path} without it: {how}.")


def check_names(path: Path, content: Any, names: Sequence[str]) -> None:
    """Raise an error unless a dictionary or table has these keys or columns."""
    known = list(content) if isinstance(content, dict | pd.DataFrame) else []
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"Expected {path} to be the published file, but got one without {', '.join(missing)}.")

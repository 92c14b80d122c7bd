"""Check arguments: numbers, which are returned as Python numbers, and names of columns; and import extras."""

import difflib
import importlib
import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any


def check_integer(name: str, value: Any, minimum: int, maximum: int = 2**63 - 1) -> int:
    """Return an integer from `minimum` to `maximum`, by default the largest that torch and numpy accept."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and minimum <= int(value) <= maximum:
        return int(value)
    what = f"from {minimum} to {maximum}" if whole and int(value) > maximum else f"of at least {minimum}"
    raise ValueError(f"Expected `{name}` to be an integer {what}, but got {value!r}.")


def check_number(name: str, value: Any, maximum: float = math.inf) -> float:
    """Return a finite number between 0 and `maximum`."""
    if is_number(value) and 0 <= float(value) <= maximum:
        return float(value)
    what = "of at least 0" if maximum == math.inf else f"from 0 to {maximum:g}"
    raise ValueError(f"Expected `{name}` to be a number {what}, but got {value!r}.")


def check_positive(name: str, value: Any) -> float:
    """Return a finite number greater than 0."""
    if is_number(value) and float(value) > 0:
        return float(value)
    raise ValueError(f"Expected `{name}` to be a number greater than 0, but got {value!r}.")


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def check_jobs(jobs: int) -> None:
    """Raise a `ValueError` unless `jobs` is a number of jobs, or −1 for one per core."""
    if jobs == 0:
        raise ValueError("Expected `jobs` to be a number of jobs, or -1 for one per core, but got 0.")


def check_name(column: str, names: Sequence[str], argument: str, of: str = "the table") -> None:
    """Raise a `ValueError` that suggests a similar name unless a table has the column. `of` names the table."""
    if column not in names:
        near = difflib.get_close_matches(column, names, n=1)
        some = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
        hint = f"did you mean {near[0]!r}?" if near else f"the columns are {some}."
        raise ValueError(f"Expected `{argument}` to name a column of {of}, but got {column!r}: {hint}")


def split_names(values: Sequence[str], names: Sequence[str]) -> list[str]:
    """Split comma-separated column names; a value that is the name of a column is not split."""
    parts = [[value] if value in names else value.split(",") for value in values]
    return [name.strip() for part in parts for name in part if name.strip()]


def import_extra(name: str, extra: str) -> Any:
    """Import a module that an extra installs."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"Expected the extra `{extra}` (pip install 'lupi[{extra}]'), but {error}.") from error

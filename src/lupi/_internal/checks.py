"""Options that are numbers: checked by one sentence, and returned as Python's own numbers."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def check_whole(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least so much.

    Examples
    --------
    >>> check_whole("epochs", 0, 1)
    Traceback (most recent call last):
    ...
    ValueError: Expected `epochs` to be a whole number of at least 1, but got 0.
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
        return int(value)
    raise ValueError(f"Expected `{name}` to be a whole number of at least {least}, but got {value!r}.")


def check_number(name: str, value: Any, most: float = math.inf) -> float:
    """Return a finite number from 0 to so much.

    Examples
    --------
    >>> check_number("weight", 2, most=1)
    Traceback (most recent call last):
    ...
    ValueError: Expected `weight` to be a number from 0 to 1, but got 2.
    """
    if is_number(value) and 0 <= float(value) <= most:
        return float(value)
    what = "of at least 0" if most == math.inf else f"from 0 to {most:g}"
    raise ValueError(f"Expected `{name}` to be a number {what}, but got {value!r}.")


def check_positive(name: str, value: Any) -> float:
    """Return a finite number of more than 0.

    Examples
    --------
    >>> check_positive("temperature", 3)
    3.0
    """
    if is_number(value) and float(value) > 0:
        return float(value)
    raise ValueError(f"Expected `{name}` to be a number of more than 0, but got {value!r}.")


def is_number(value: Any) -> bool:
    """Whether a value is a finite number."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)

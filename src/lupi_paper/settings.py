"""Check the settings of experiments, and change them from text."""

import ast
import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

LARGEST = 2**31 - 1
"""Largest number of anything in an experiment, and largest seed."""


def check_number(
    name: str, value: Any, minimum: float = 0, maximum: float = math.inf, *, whole: bool = False, above: bool = False
) -> Any:
    """Return a finite number from `minimum`, or `above` it, to `maximum`; raise a `ValueError` for anything else."""
    finite = isinstance(value, Integral) or (not whole and isinstance(value, Real) and math.isfinite(value))
    if finite and not isinstance(value, bool) and minimum <= value <= maximum and not (above and value == minimum):
        return value
    noun, bounds = "an integer" if whole else "a number", f"from {minimum} to {maximum}"
    if above or maximum == math.inf or (finite and value < minimum):
        bounds = f"greater than {minimum}" if above else f"of at least {minimum}"
    raise ValueError(f"Expected `{name}` to be {noun} {bounds}, but got {value!r}.")


def check_settings(
    settings: Any,
    minimum: Mapping[str, int],
    *,
    positive: Sequence[str] = (),
    choices: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Check fields of a dataclass."""
    for name, least in minimum.items():
        check_number(name, getattr(settings, name), least, LARGEST, whole=True)
    for name in positive:
        value = getattr(settings, name)
        if value == ():
            raise ValueError(f"Expected `{name}` to be one number or more, but got none.")
        for one in value if isinstance(value, tuple) else (value,):
            check_number(name, one, above=True)
        check_distinct(name, value)
    for name, known in (choices or {}).items():
        if getattr(settings, name) not in known:
            options = " or ".join(map(repr, known))
            raise ValueError(f"Expected `{name}` to be {options}, but got {getattr(settings, name)!r}.")


def check_distinct(name: str, value: Any) -> None:
    """Check that the values of a tuple differ, since an experiment runs once for each."""
    if isinstance(value, tuple) and len(set(value)) < len(value):
        raise ValueError(f"Expected `{name}` to be distinct values, but got {value}.")


def seed_range(settings: Any) -> range:
    """Return the seeds of an experiment, whose settings have `seed` and `seeds`."""
    return range(settings.seed, settings.seed + settings.seeds)


def change_settings(settings: Any, changes: Sequence[str]) -> Any:
    """Change fields of a dataclass, given as texts "name=value"."""
    known = {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}
    for text in changes:
        name, _, value = text.partition("=")
        if name not in known:
            raise ValueError(f"Expected a setting among {', '.join(known)}, but got {name!r}.")
        known[name] = parse_value(name, value, known[name])
    return dataclasses.replace(settings, **known)


def parse_value(name: str, text: str, old: Any) -> Any:
    """Parse a value of the type that a setting has."""
    if isinstance(old, str):
        return text
    if isinstance(old, tuple) and all(isinstance(part, str) for part in old) and "'" not in text:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = None
    if isinstance(old, float) and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not type(old):
        raise ValueError(f"Expected `{name}` to be a value such as {old!r}, but got {text!r}.")
    return value

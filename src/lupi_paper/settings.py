"""Check the settings of experiments, and change them from text."""

import ast
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lupi._internal.checks import check_integer, check_positive

LARGEST = 2**31 - 1
"""Largest number of anything in an experiment, and largest seed."""


def check_settings(
    settings: Any,
    minimum: Mapping[str, int],
    *,
    positive: Sequence[str] = (),
    choices: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Check fields of a dataclass."""
    for name, least in minimum.items():
        check_integer(name, getattr(settings, name), least, maximum=LARGEST)
    for name in positive:
        value = getattr(settings, name)
        if value == ():
            raise ValueError(f"Expected `{name}` to be one number or more, but got none.")
        for one in value if isinstance(value, tuple) else (value,):
            check_positive(name, one)
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

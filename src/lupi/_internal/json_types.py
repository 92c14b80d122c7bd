"""Check JSON, and objects restored from it, against Python types, and build dataclasses."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import numpy as np

NAMES = {str: "a string", int: "an integer", float: "a number", bool: "true or false"}


def from_json(value: Any, kind: Any, where: str = "") -> Any:
    """Convert a JSON value to an instance of a type; raise a `ValueError` that locates a value of another type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if hasattr(origin, "__value__"):  # an alias by the statement `type`, such as NDArray since numpy 2.5
        return from_json(value, origin.__value__[arguments], where)
    if origin is Literal:
        if any(value == one and type(value) is type(one) for one in arguments):
            return value
        raise make_type_error(value, f"one of {', '.join(map(repr, arguments))}", where)
    if origin in (Union, types.UnionType):
        return None if value is None else from_json(value, arguments[0], where)
    if origin in (list, tuple):
        if not isinstance(value, list):
            raise make_type_error(value, "a list", where)
        if all(type(one) is arguments[0] for one in value):  # at once, since there may be millions
            return origin(value)
        return origin(from_json(one, arguments[0], f"{where}[{i}]") for i, one in enumerate(value))
    if origin in (dict, Mapping):
        check_object(value, where)
        return {name: from_json(one, arguments[1], join(where, name)) for name, one in value.items()}
    if is_typeddict(kind) or is_dataclass(kind):
        return kind(**read_fields(value, kind, where))
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    if origin is np.ndarray:
        return check_array(value, get_args(arguments[1])[0], where)
    if kind not in NAMES and isinstance(value, kind):
        return value
    raise make_type_error(value, NAMES.get(kind) or f"a {kind.__name__}", where)


def check_attributes(kind: type, attributes: Mapping[str, Any]) -> None:
    """Raise a `ValueError` unless attributes are those that a class declares, with the types that it declares."""
    declared = {name: hint for name, hint in get_type_hints(kind).items() if get_origin(hint) is not ClassVar}
    for name in sorted(declared.keys() | attributes.keys()):
        where = f"{kind.__name__}.{name}"
        if name not in declared:
            raise ValueError(f"Expected only known attributes, but got `{where}`.")
        if name in attributes:
            from_json(attributes[name], declared[name], where)
        elif not hasattr(kind, name):
            raise ValueError(f"Expected `{where}` to be there, but it is missing.")


def check_array(value: Any, scalar: Any, where: str) -> Any:
    """Return a value if it is an array of a type of scalars."""
    if isinstance(value, np.ndarray) and (scalar is Any or issubclass(value.dtype.type, scalar)):
        return value
    raise make_type_error(value, f"an array of {'values' if scalar is Any else scalar.__name__}", where)


def read_fields(value: Any, kind: Any, where: str) -> dict[str, Any]:
    """Return the fields of a `TypedDict` or dataclass."""
    check_object(value, where)
    hints = get_type_hints(kind)
    if is_typeddict(kind):
        optional = kind.__optional_keys__
    else:
        optional = {one.name for one in fields(kind) if (one.default, one.default_factory) != (MISSING, MISSING)}
    for name in hints.keys() - optional - value.keys():
        raise ValueError(f"Expected `{join(where, name)}` to be there, but it is missing.")
    for name in value.keys() - hints.keys():
        raise ValueError(f"Expected only known fields, but got `{join(where, name)}`.")
    return {name: from_json(value[name], hint, join(where, name)) for name, hint in hints.items() if name in value}


def check_object(value: Any, where: str) -> None:
    """Raise a `ValueError` unless a value is a JSON object."""
    if not isinstance(value, Mapping):
        raise make_type_error(value, "an object", where)


def join(where: str, name: str) -> str:
    """Return the location of a field."""
    return f"{where}.{name}" if where else name


def make_type_error(value: Any, expected: str, where: str) -> ValueError:
    """Return the error for a value of another type."""
    shown = repr(value)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}…"
    return ValueError(f"Expected `{where}` to be {expected}, but got {shown}.")

"""Objects of known classes as JSON and arrays, and back. What is read can hold values, but no code.

An object is ``{"class": name, "state": attributes}``, a dict ``{"dict": items}``, and an array ``{"array": number}``,
its place among the arrays, or ``{"array": values, "dtype": name}``; other values are themselves.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

BINARY = ("float32", "float64", "int64")
"""Types of arrays that are stored as they are; others are short lists, such as names of classes."""
LISTED = (
    *BINARY,
    "object",
    "str",
    "bool",
    "float16",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)),
)


def to_json(value: Any, classes: Collection[type], arrays: list[NDArray[Any]]) -> Any:
    """Return a value as JSON, and append its arrays to `arrays`; raise a `TypeError` if it cannot be stored."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list):
        return [to_json(one, classes, arrays) for one in value]
    if isinstance(value, Mapping):
        return {"dict": {str(name): to_json(one, classes, arrays) for name, one in value.items()}}
    if isinstance(value, np.ndarray):
        name = "str" if value.dtype.kind == "U" else value.dtype.name
        if name in BINARY:
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if name in LISTED:
            return {"array": to_json(value.tolist(), classes, arrays), "dtype": name}
    if type(value) in classes:
        state = value.__getstate__() or {}
        return {
            "class": type(value).__name__,
            "state": {name: to_json(one, classes, arrays) for name, one in state.items()},
        }
    raise TypeError(f"Expected values that a model folder can hold, but got {value!r}.")


def from_json(value: Any, classes: Mapping[str, Any], arrays: Sequence[NDArray[Any]]) -> Any:
    """Return what `to_json` was given; raise an error if the JSON is something else."""
    if isinstance(value, list):
        return [from_json(one, classes, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"dict": dict(items)}:
            return {name: from_json(one, classes, arrays) for name, one in items.items()}
        case {"array": int(number)}:
            return arrays[number]
        case {"array": list(values), "dtype": str(name)} if name in LISTED:
            return np.array(values, dtype=np.dtype(name))
        case {"class": str(name), "state": dict(state)} if name in classes:
            instance = classes[name].__new__(classes[name])
            attributes = {name: from_json(one, classes, arrays) for name, one in state.items()}
            getattr(instance, "__setstate__", vars(instance).update)(attributes)
            return instance
    raise ValueError(f"Expected objects of lupi, but got {str(value)[:60]!r}.")

"""Unpickle published files without running any code that they name.

A pickle may name any function for the reader to call. Only the names that an array of numbers needs are allowed, and
even these never reach numpy: its own constructors trust the file, so a forged array of objects could crash the
process. Small stand-ins record the parts of an array and rebuild it with `numpy.frombuffer`.
"""

import pickle
from typing import Any, BinaryIO

import numpy as np


class DType:
    """Stand-in for `numpy.dtype`."""

    def __init__(self, code: str, *_: object) -> None:
        self.value: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.value = self.value.newbyteorder(state[1])


class Array:
    """Stand-in for `numpy.ndarray`: an array of numbers."""

    def __init__(self, *_: object) -> None:
        self.value: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, data = state
        if dtype.value.kind not in "biuf":  # the bytes of an object would be a pointer
            raise pickle.UnpicklingError(f"an array of type {dtype.value} is not allowed")
        numbers = np.frombuffer(encode(data) if isinstance(data, str) else data, dtype.value)
        self.value = numbers.reshape(shape, order="F" if fortran else "C").copy()  # writable


def encode(text: str, *_: object) -> bytes:
    """Replace `codecs.encode`, with which Python 3 stores bytes in pickles that Python 2 can read."""
    return text.encode("latin1")


ALLOWED: dict[str, Any] = {
    "_codecs.encode": encode,
    "numpy.dtype": DType,
    "numpy.ndarray": Array,
    "numpy.core.multiarray._reconstruct": Array,
    "numpy._core.multiarray._reconstruct": Array,
}
"""Names that a pickle may contain, and their replacements."""


class Unpickler(pickle.Unpickler):
    """An unpickler that allows numbers, text, lists, tuples, dictionaries and arrays of numbers."""

    def find_class(self, module: str, name: str) -> Any:
        """Look up a name that the file mentions."""
        if f"{module}.{name}" not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return ALLOWED[f"{module}.{name}"]


def unpickle(file: BinaryIO) -> Any:
    """Read one pickle of numbers, text, lists, tuples, dictionaries and arrays of numbers."""
    try:
        return unwrap(Unpickler(file, encoding="latin1").load())
    except Exception as error:  # a damaged file may raise anything
        name = getattr(file, "name", "the file")
        raise ValueError(f"Expected {name} to be a pickle of numbers, text and arrays, but got: {error}.") from error


def unwrap(content: Any) -> Any:
    """Replace stand-ins with the arrays that they rebuilt, and bytes with text, since Python 2 wrote text as bytes."""
    if isinstance(content, Array):
        return content.value
    if isinstance(content, bytes):
        return content.decode("latin1")
    if isinstance(content, dict):
        return {unwrap(key): unwrap(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return type(content)(unwrap(value) for value in content)
    return content

"""CIFAR-10 and CIFAR-100 in their published Python layout, read without running anything the files say.

The published files are pickles, and a pickle may name any function for the reader to call. `unpickle` knows only
what these files need: numbers, text, lists, dictionaries and arrays of numbers. Even an array's parts are handed
to stand-ins of this module, never to numpy's own constructors; any other name is an error.

References
----------
Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*, 2009; https://www.cs.toronto.edu/~kriz/cifar.html.
"""

import pickle
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

URL = "https://www.cs.toronto.edu/~kriz"


@dataclass(frozen=True, eq=False)
class CIFAR:
    """Images with their true labels: a training set and a test set, in the published order."""

    X_train: NDArray[np.uint8]
    """[50000, 3, 32, 32] images: red, green and blue, from the top left."""
    y_train: NDArray[np.int64]
    X_test: NDArray[np.uint8]
    """[10000, 3, 32, 32]"""
    y_test: NDArray[np.int64]
    classes: tuple[str, ...]
    """The name of each label."""


def load_cifar10(folder: str | Path, batches: int = 5) -> CIFAR:
    """Load CIFAR-10: 50 000 training and 10 000 test images of 10 classes.

    Parameters
    ----------
    folder
        The folder that holds ``cifar-10-batches-py``, or that folder itself.
    batches
        How many of the five training batches, of 10 000 images each, to read; other files need not be there.

    Returns
    -------
    CIFAR
        Images, labels and names of the classes.

    Examples
    --------
    A miniature in the published layout, one image per file:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "cifar-10-batches-py")
    >>> folder.mkdir()
    >>> for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
    ...     batch = {"data": np.zeros((1, 3072), np.uint8), "labels": [1]}
    ...     _ = (folder / name).write_bytes(pickle.dumps(batch))
    >>> _ = (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["airplane", "automobile"]}))
    >>> cifar = load_cifar10(folder.parent)
    >>> cifar.X_train.shape, cifar.y_train, cifar.classes[cifar.y_test[0]]
    ((5, 3, 32, 32), array([1, 1, 1, 1, 1]), 'automobile')
    """
    if batches not in range(1, 6):
        raise ValueError(f"Expected `batches` to be 1 to 5, but got {batches}.")
    train = [f"data_batch_{number}" for number in range(1, batches + 1)]
    inside = _inside(folder, "cifar-10-batches-py", [*train, "test_batch", "batches.meta"], "cifar-10-python.tar.gz")
    return CIFAR(
        *_images(inside, train, "labels"),
        *_images(inside, ["test_batch"], "labels"),
        _names(inside / "batches.meta", "label_names"),
    )


def load_cifar100(folder: str | Path) -> CIFAR:
    """Load CIFAR-100: 50 000 training and 10 000 test images of 100 classes, the "fine" labels.

    Parameters
    ----------
    folder
        The folder that holds ``cifar-100-python``, or that folder itself.

    Returns
    -------
    CIFAR
        Images, labels and names of the classes.

    Examples
    --------
    A miniature in the published layout:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "cifar-100-python")
    >>> folder.mkdir()
    >>> batch = {"data": np.zeros((2, 3072), np.uint8), "fine_labels": [1, 0], "coarse_labels": [0, 0]}
    >>> for name in ("train", "test"):
    ...     _ = (folder / name).write_bytes(pickle.dumps(batch))
    >>> _ = (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", "bed"]}))
    >>> load_cifar100(folder).y_train
    array([1, 0])
    """
    inside = _inside(folder, "cifar-100-python", ["train", "test", "meta"], "cifar-100-python.tar.gz")
    return CIFAR(
        *_images(inside, ["train"], "fine_labels"),
        *_images(inside, ["test"], "fine_labels"),
        _names(inside / "meta", "fine_label_names"),
    )


def _inside(folder: str | Path, name: str, files: Sequence[str], archive: str) -> Path:
    """Find the published folder, which must hold these files."""
    inside = Path(folder)
    if (inside / name).is_dir():
        inside /= name
    for file in files:
        if not (inside / file).is_file():
            raise FileNotFoundError(
                f"Expected `folder` to hold {name}/{file}, but got {folder} without it: download {URL}/{archive} "
                f"and unpack it there, which makes the folder {name} with {', '.join(files)}."
            )
    return inside


def _images(folder: Path, files: Sequence[str], key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    images, labels = [], []
    for file in files:
        batch = _read(folder / file, "data", key)
        data, label = batch["data"], np.asarray(batch[key])
        if not (isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape == (len(label), 3072)):
            got = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
            raise ValueError(
                f"Expected `data` of {folder / file} to be uint8 of shape ({len(label)}, 3072), a row for each of its "
                f"`{key}`, but got {got}."
            )
        images.append(data)
        labels.append(label.astype(np.int64))
    return np.concatenate(images).reshape(-1, 3, 32, 32), np.concatenate(labels)


def _names(path: Path, key: str) -> tuple[str, ...]:
    return tuple(_text(name) for name in _read(path, key)[key])


def _read(path: Path, *keys: str) -> dict[str, Any]:
    with path.open("rb") as file:
        content = unpickle(file)
    if not (isinstance(content, dict) and content.keys() >= set(keys)):
        raise ValueError(f"Expected {path} to be a dictionary with {' and '.join(keys)}, but got {_outline(content)}.")
    return content


def _outline(content: object) -> str:
    return f"one with {', '.join(map(str, content))}" if isinstance(content, dict) else type(content).__name__


def unpickle(file: BinaryIO) -> Any:
    """Read one pickle of numbers, text, lists, dictionaries and arrays of numbers; nothing else is made or called.

    Parameters
    ----------
    file
        An open binary file, read up to the end of the pickle.

    Returns
    -------
    Any
        What was pickled, by Python 2 or 3; keys of dictionaries are text.

    Examples
    --------
    >>> import io
    >>> unpickle(io.BytesIO(pickle.dumps({b"data": np.arange(3)})))
    {'data': array([0, 1, 2])}
    >>> unpickle(io.BytesIO(pickle.dumps(print)))
    Traceback (most recent call last):
    ValueError: Expected the file to be a pickle of numbers, text and arrays, but got one that names builtins.print.
    """
    expected = f"Expected {getattr(file, 'name', 'the file')} to be a pickle of numbers, text and arrays"
    try:
        return plain(_Unpickler(file, encoding="bytes").load())  # text of Python 2 may be an array's bytes
    except _RefusedError as error:
        raise ValueError(f"{expected}, but got one that {error}.") from None
    except Exception as error:  # whatever a damaged file leads to
        raise ValueError(f"{expected}, but got a damaged one ({type(error).__name__}: {error}).") from error


class _RefusedError(Exception):
    """What a pickle asks for and does not get."""


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Look up a name that the file mentions."""
        try:
            return STAND_INS[f"{module}.{name}"]
        except KeyError:
            raise _RefusedError(f"names {module}.{name}") from None


class NumberType:
    """In the place of ``numpy.dtype``: a kind of number, or O for an array of other things."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code = _text(code)
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])

    def dtype(self) -> np.dtype[Any]:
        """Return numpy's type for these numbers."""
        if not (re.fullmatch("[biuf][1248]", self.code) and self.order in ("=", "<", ">", "|")):
            raise _RefusedError(f"has an array of {self.order}{self.code}")
        return np.dtype(self.order + self.code)


class Array:
    """In the place of ``numpy.ndarray``: keeps what it is made of, until `plain` makes it."""

    def __init__(self, *_: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state[1:]

    def array(self) -> Any:
        """Make the array. One of other things than numbers becomes a list, or the thing itself if it has no axes."""
        shape, kind, fortran, data = self.state
        if kind.code == "O8" and isinstance(data, list):
            return plain(data if shape else data[0])
        numbers = np.frombuffer(data, kind.dtype())
        return numbers.reshape(shape, order="F" if fortran else "C").copy()  # its own memory, writable


def _from_buffer(data: bytes, kind: NumberType, shape: tuple[int, ...], order: str) -> Array:
    array = Array()
    array.__setstate__((1, shape, kind, order == "F", data))
    return array


def _encode(text: str, _: str) -> bytes:
    """Bytes as Python 3 writes them for Python 2."""
    return text.encode("latin1")


STAND_INS: dict[str, Any] = {
    "_codecs.encode": _encode,
    "numpy.ndarray": Array,
    "numpy.dtype": NumberType,
    **{f"numpy.{core}.multiarray._reconstruct": Array for core in ("core", "_core")},
    **{f"numpy.{core}.numeric._frombuffer": _from_buffer for core in ("core", "_core")},
}
"""What a pickle may name, and what is called in its place."""


def plain(value: Any) -> Any:
    """Put arrays in the place of their stand-ins, and text in the place of keys in bytes.

    Examples
    --------
    >>> plain({b"label": [1, 2]})
    {'label': [1, 2]}
    """
    if isinstance(value, Array):
        return value.array()
    if isinstance(value, dict):
        return {_text(key) if isinstance(key, bytes) else key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    return value


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

"""CIFAR-10 and CIFAR-100 in their published Python layout.

The published files are pickles; `lupi.datasets.pickles` reads them without running any code that they name.

References
----------
Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*, 2009; https://www.cs.toronto.edu/~kriz/cifar.html.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lupi.datasets.pickles import unpickle

URL = "https://www.cs.toronto.edu/~kriz"
ARCHIVES = {"cifar-10-batches-py": "cifar-10-python.tar.gz", "cifar-100-python": "cifar-100-python.tar.gz"}


@dataclass(frozen=True, eq=False, kw_only=True)
class CIFAR:
    """Images with their true labels: a training set and a test set, in the published order."""

    X_train: NDArray[np.uint8]
    """[50000, 3, 32, 32] images with channels red, green and blue."""
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
    folder : str or Path
        The folder that holds ``cifar-10-batches-py``, or that folder itself.
    batches : int
        Number of training batches to read, 1 to 5, of 10 000 images each. The files of the others may be missing.

    Returns
    -------
    CIFAR
        Images, labels and class names.

    Examples
    --------
    A miniature in the published layout, one image per file:

    >>> import pickle, tempfile
    >>> folder = Path(tempfile.mkdtemp(), "cifar-10-batches-py")
    >>> folder.mkdir()
    >>> for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
    ...     batch = {"data": np.zeros((1, 3072), np.uint8), "labels": [1]}
    ...     _ = (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    >>> _ = (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": ["airplane", "automobile"]}))
    >>> cifar = load_cifar10(folder.parent)
    >>> cifar.X_train.shape, cifar.y_train, cifar.classes[cifar.y_test[0]]
    ((5, 3, 32, 32), array([1, 1, 1, 1, 1]), 'automobile')
    """
    if batches not in range(1, 6):
        raise ValueError(f"Expected `batches` to be 1 to 5, but got {batches}.")
    return _load(
        folder,
        "cifar-10-batches-py",
        train=[f"data_batch_{number}" for number in range(1, batches + 1)],
        test="test_batch",
        meta="batches.meta",
        labels="labels",
        names="label_names",
    )


def load_cifar100(folder: str | Path) -> CIFAR:
    """Load CIFAR-100: 50 000 training and 10 000 test images of 100 classes (the "fine" labels).

    Parameters
    ----------
    folder : str or Path
        The folder that holds ``cifar-100-python``, or that folder itself.

    Returns
    -------
    CIFAR
        Images, labels and class names.

    Examples
    --------
    A miniature in the published layout:

    >>> import pickle, tempfile
    >>> folder = Path(tempfile.mkdtemp(), "cifar-100-python")
    >>> folder.mkdir()
    >>> batch = {"data": np.zeros((2, 3072), np.uint8), "fine_labels": [1, 0], "coarse_labels": [0, 0]}
    >>> for name in ("train", "test"):
    ...     _ = (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    >>> _ = (folder / "meta").write_bytes(pickle.dumps({"fine_label_names": ["apple", "bed"]}))
    >>> load_cifar100(folder).y_train
    array([1, 0])
    """
    return _load(
        folder,
        "cifar-100-python",
        train=["train"],
        test="test",
        meta="meta",
        labels="fine_labels",
        names="fine_label_names",
    )


def _load(
    folder: str | Path, name: str, *, train: Sequence[str], test: str, meta: str, labels: str, names: str
) -> CIFAR:
    """Load the published folder `name`, from the keys `labels` and `names` of its files."""
    inside = Path(folder)
    if (inside / name).is_dir():
        inside /= name
    for file in (*train, test, meta):
        if not (inside / file).is_file():
            raise FileNotFoundError(
                f"Expected `folder` to contain {name}/{file}, but got {folder} without it: download "
                f"{URL}/{ARCHIVES[name]} and unpack it there."
            )
    X_train, y_train = _images(inside, train, labels)
    X_test, y_test = _images(inside, [test], labels)
    classes = tuple(_text(one) for one in _read(inside / meta, names)[names])
    return CIFAR(X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test, classes=classes)


def _images(folder: Path, files: Sequence[str], key: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read images and labels of some batches."""
    images, labels = [], []
    for file in files:
        batch = _read(folder / file, "data", key)
        data, label = batch["data"], np.asarray(batch[key])
        if not (isinstance(data, np.ndarray) and data.dtype == np.uint8 and data.shape == (len(label), 3072)):
            got = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
            raise ValueError(
                f"Expected `data` of {folder / file} to be uint8 of shape ({len(label)}, 3072), one row per label, "
                f"but got {got}."
            )
        images.append(data)
        labels.append(label.astype(np.int64))
    return np.concatenate(images).reshape(-1, 3, 32, 32), np.concatenate(labels)


def _read(path: Path, *keys: str) -> dict[str, Any]:
    """Read a dictionary, and check that it has these keys."""
    with path.open("rb") as file:
        content = unpickle(file)
    if isinstance(content, dict):  # copies of the files that Python 3 wrote may have bytes for text
        content = {_text(key): value for key, value in content.items()}
    if not (isinstance(content, dict) and content.keys() >= set(keys)):
        got = list(content) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"Expected {path} to be a dictionary with keys {list(keys)}, but got {got}.")
    return content


def _text(value: Any) -> Any:
    """Return text for bytes, and other values as they are."""
    return value.decode() if isinstance(value, bytes) else value

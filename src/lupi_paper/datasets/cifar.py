"""CIFAR-10 in its published Python layout.

The published files are pickles; `lupi_paper.datasets.pickles` reads them without running any code that they name.

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

from lupi_paper.datasets.files import check_names, find_file
from lupi_paper.datasets.pickles import unpickle

FOLDER, URL = "cifar-10-batches-py", "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"


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
    """Load CIFAR-10: 50,000 training and 10,000 test images of 10 classes.

    Parameters
    ----------
    folder : str or Path
        The folder that holds ``cifar-10-batches-py``, or that folder itself.
    batches : int
        Number of training batches to read, 1 to 5, of 10,000 images each. The files of the others may be missing.

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
    X_train, y_train = _read_images(folder, [f"data_batch_{number}" for number in range(1, batches + 1)])
    X_test, y_test = _read_images(folder, ["test_batch"])
    (classes,) = _read(folder, "batches.meta", "label_names")
    return CIFAR(X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test, classes=tuple(classes))


def _read_images(folder: str | Path, files: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read the images and labels of some files."""
    images, labels = [], []
    for file in files:
        data, label = map(np.asarray, _read(folder, file, "data", "labels"))
        if data.dtype != np.uint8 or data.shape != (len(label), 3072):
            raise ValueError(
                f"Expected `data` of {file} to be uint8 of shape ({len(label)}, 3072), one row per label, but got "
                f"{data.dtype} of shape {data.shape}."
            )
        images.append(data)
        labels.append(label.astype(np.int64))
    return np.concatenate(images).reshape(-1, 3, 32, 32), np.concatenate(labels)


def _read(folder: str | Path, file: str, *keys: str) -> list[Any]:
    """Read what a file has under some keys."""
    path = find_file("folder", folder, [f"{FOLDER}/{file}", file], f"download {URL} and unpack it there")
    with path.open("rb") as opened:
        content = unpickle(opened)
    check_names(path, content, keys)
    return [content[key] for key in keys]

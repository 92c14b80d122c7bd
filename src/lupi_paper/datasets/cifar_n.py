"""CIFAR-10N and CIFAR-100N: labels of the CIFAR training images by workers of Amazon Mechanical Turk.

The labels are in ``data/CIFAR-10_human.pt``. A second file, ``side_info_cifar10N.csv``, gives the workers of each batch
of images and the seconds they spent on it: three workers per batch of 10 images for CIFAR-10N, one worker per batch
of 5 images for CIFAR-100N.

**Order of the images.** The ``.pt`` files use the order of CIFAR's Python version, as `load_cifar10` and
`load_cifar100` do. The ``_ordered.npy`` files use the order of TensorFlow Datasets, and ``image_order_c10.npy`` maps
it to the Python version's, which the loaders return. The batches of the second file are assumed to be in that order
too, as TensorFlow Datasets assumes: the repository only says that they are "indexes of the CIFAR training images".
To verify this on the published files, check that labels from batches done in three seconds are wrong more often.

References
----------
Wei, Zhu, Cheng, Liu, Niu and Liu, *Learning with Noisy Labels Revisited: A Study Using Real-World Human
Annotations*, ICLR 2022; https://github.com/UCSC-REAL/cifar-10-100n.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi_paper.datasets.files import check_names, find_file
from lupi_paper.datasets.pickles import ALLOWED, Array, DType, unpickle, unwrap

URL = "https://github.com/UCSC-REAL/cifar-10-100n"


@dataclass(frozen=True, eq=False, kw_only=True)
class CIFARN:
    """Labels of the CIFAR training images, one row per label, ordered by image."""

    y: NDArray[np.int64]
    """Label given by the worker."""
    privileged: pd.DataFrame
    """`annotator` (categorical), and the `seconds` they spent on the batch that contains the image."""
    example: NDArray[np.int64]
    """Row of the image in the CIFAR training set: ``load_cifar10(folder).X_train[example]``."""
    gold: NDArray[np.int64]
    """True label, for evaluation only."""
    combined: pd.DataFrame
    """[images] combinations of an image's three labels: `aggregate`, the majority, and `worst`, a wrong one if there
    is any. It has no columns for CIFAR-100N."""


def load_cifar10n(folder: str | Path) -> CIFARN:
    r"""Load CIFAR-10N: three labels for each of the 50,000 training images of CIFAR-10.

    Parameters
    ----------
    folder : str or Path
        A clone of the repository, or a folder with its ``side_info_cifar10N.csv`` and ``CIFAR-10_human.pt``. If the
        latter is missing, ``CIFAR-10_human_ordered.npy`` and ``image_order_c10.npy`` are read instead.

    Returns
    -------
    CIFARN
        150,000 labels of 50,000 images.

    Examples
    --------
    A miniature of twenty images in the published layout:

    >>> import tempfile
    >>> import torch
    >>> folder = Path(tempfile.mkdtemp())
    >>> names = ["clean_label", "aggre_label", "worse_label", "random_label1", "random_label2", "random_label3"]
    >>> torch.save({name: np.arange(20) % 10 for name in names}, folder / "CIFAR-10_human.pt")
    >>> _ = (folder / "side_info_cifar10N.csv").write_text(
    ...     "Image-batch,Worker1-id,Work-time-in-seconds-1,Worker2-id,Work-time-in-seconds-2,Worker3-id,"
    ...     "Work-time-in-seconds-3\n0--9,198,25,385,40,197,21\n10--19,430,46,198,27,584,92\n"
    ... )
    >>> labels = load_cifar10n(folder)
    >>> labels.example[27:33], labels.y[27:33]
    (array([ 9,  9,  9, 10, 10, 10]), array([9, 9, 9, 0, 0, 0]))
    >>> labels.privileged[27:33]
       annotator  seconds
    27       198     25.0
    28       385     40.0
    29       197     21.0
    30       430     46.0
    31       198     27.0
    32       584     92.0
    """
    given = [f"random_label{number}" for number in (1, 2, 3)]
    workers = {f"Worker{number}-id": f"Work-time-in-seconds-{number}" for number in (1, 2, 3)}
    return _load(folder, "10", given, workers, combined={"aggre_label": "aggregate", "worse_label": "worst"})


def load_cifar100n(folder: str | Path) -> CIFARN:
    r"""Load CIFAR-100N: one label for each of the 50,000 training images of CIFAR-100.

    Parameters
    ----------
    folder : str or Path
        A clone of the repository, or a folder with its ``side_info_cifar100N.csv`` and ``CIFAR-100_human.pt``. If the
        latter is missing, ``CIFAR-100_human_ordered.npy`` and ``image_order_c100.npy`` are read instead.

    Returns
    -------
    CIFARN
        50,000 labels of 50,000 images.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> folder = Path(tempfile.mkdtemp())
    >>> truth = np.arange(10)
    >>> torch.save({"clean_label": truth, "noisy_label": 9 - truth}, folder / "CIFAR-100_human.pt")
    >>> _ = (folder / "side_info_cifar100N.csv").write_text(
    ...     "Image-batch,Worker-id,Work-time-in-seconds\n0--4,514,113\n5--9,239,41\n"
    ... )
    >>> labels = load_cifar100n(folder)
    >>> labels.y[:6], labels.gold[:6], labels.privileged["annotator"][:6].tolist()
    (array([9, 8, 7, 6, 5, 4]), array([0, 1, 2, 3, 4, 5]), ['514', '514', '514', '514', '514', '239'])
    """
    return _load(folder, "100", ["noisy_label"], {"Worker-id": "Work-time-in-seconds"}, combined={})


def _load(
    folder: str | Path, classes: str, given: list[str], workers: Mapping[str, str], combined: dict[str, str]
) -> CIFARN:
    """Load labels and workers, one row per label."""
    labels = _read_labels(folder, classes, ["clean_label", *given, *combined])
    images = len(labels)
    path = _find(folder, f"side_info_cifar{classes}N.csv")
    batches = pd.read_csv(path)
    check_names(path, batches, ["Image-batch", *workers, *workers.values()])
    batch = _batch_of_image(batches["Image-batch"], images, path)
    codes, people = pd.factorize(batches[list(workers)].to_numpy()[batch].ravel(), sort=True)
    annotator = pd.Categorical.from_codes(codes, pd.Index(people.astype(str)))  # an id, not a quantity
    seconds = batches[list(workers.values())].to_numpy(np.float64)[batch].ravel()
    return CIFARN(
        y=labels[given].to_numpy().ravel(),
        privileged=pd.DataFrame({"annotator": annotator, "seconds": seconds}),
        example=np.repeat(np.arange(images), len(given)),
        gold=np.repeat(labels["clean_label"].to_numpy(), len(given)),
        combined=labels[list(combined)].rename(columns=combined),
    )


def _batch_of_image(ranges: "pd.Series[str]", images: int, path: Path) -> NDArray[np.int64]:
    """Return the batch of each image, given ranges such as "0--9" and "10--19"."""
    ends = ranges.astype(str).str.extract(r"^(\d+)--(\d+)$").dropna()
    inside = [np.arange(int(first), int(last) + 1) for first, last in ends.itertuples(index=False)]
    image = np.concatenate([np.arange(0), *inside])
    if len(inside) < len(ranges) or not np.array_equal(np.sort(image), np.arange(images)):
        raise ValueError(
            f"Expected `Image-batch` of {path} to be ranges such as 0--9 that cover each of {images} images once, "
            f"but got {len(image)} images in {len(inside)} ranges."
        )
    batch = np.repeat(np.arange(len(inside)), [len(some) for some in inside])
    return batch[np.argsort(image)]


def _read_labels(folder: str | Path, classes: str, keys: Sequence[str]) -> pd.DataFrame:
    """Read the labels in the order of CIFAR's Python version."""
    path = _find(folder, f"CIFAR-{classes}_human.pt", f"CIFAR-{classes}_human_ordered.npy")
    ordered = path.suffix == ".npy"
    content = _read_npy(path) if ordered else _read_pt(path)
    if ordered and "noise_label" in content:
        content["noisy_label"] = content["noise_label"]  # the name in the published .npy file
    check_names(path, content, keys)
    columns = {key: np.asarray(content[key], dtype=np.int64).ravel() for key in keys}
    lengths = {key: len(column) for key, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"Expected the labels of {path} to have equal lengths, but got {lengths}.")
    labels = pd.DataFrame(columns)
    if not ordered:
        return labels
    order = np.load(_find(folder, f"image_order_c{classes}.npy"), allow_pickle=False)
    if not np.array_equal(np.sort(order), np.arange(len(labels))):
        raise ValueError(f"Expected `image_order_c{classes}.npy` to list each image once, but it does not.")
    return labels.iloc[np.argsort(order)].reset_index(drop=True)


def _read_pt(path: Path) -> Any:
    """Read a dictionary of tensors or arrays that ``torch.save`` wrote."""
    import torch  # slow to import

    safe = [(stand_in, name) for name, stand_in in ALLOWED.items()]
    try:
        with torch.serialization.safe_globals([*safe, Array, DType]), warnings.catch_warnings(action="ignore"):
            return unwrap(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # another file may raise anything
        raise ValueError(
            f"Expected {path} to be a torch file that only contains labels, but torch.load(weights_only=True) raised "
            f"{type(error).__name__}."
        ) from error


def _read_npy(path: Path) -> Any:
    """Read a dictionary of arrays that ``numpy.save`` wrote: a header, then a pickle."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        read_header(file)
        return unpickle(file)


def _find(folder: str | Path, *names: str) -> Path:
    """Find the first of some files, in the folder or in its subfolder data."""
    places = [place for name in names for place in (name, f"data/{name}")]
    return find_file("folder", folder, places, f"clone {URL}")

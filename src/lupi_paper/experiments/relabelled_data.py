"""Read images to relabel: CIFAR-10, or an ImageNet-style folder of files, optionally with labels of ImageNet-PI."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi.datasets import Relabelled
from lupi.nn import over_examples
from lupi_paper.cases import hash_arrays
from lupi_paper.datasets import load_cifar10, load_image_folder, load_imagenet_pi
from lupi_paper.datasets.image_folder import MARGIN, ImageFiles
from lupi_paper.datasets.imagenet_pi import CLASSES, ImageNetPI

AT_ONCE = 256
"""Number of images that a process reads, or a network processes, at a time."""
TESTS = ("validation", "val")
"""Folders of test images beside `train`."""


class Lesson(NamedTuple):
    """Images with true labels from which annotators learn, and the images that they then label."""

    x: Tensor
    y: Tensor
    new: Any


@dataclass(frozen=True, eq=False, kw_only=True)
class Images:
    """Images to learn from and to test on, with values from 0 to 255."""

    x: Any
    x_test: Any
    y_test: Tensor
    classes: int
    true: NDArray[np.int64]
    digest: str
    published: Relabelled | None = None
    lesson: Callable[[int], Lesson]
    learned: int


def is_image_folder(data: Path) -> bool:
    """Return whether a folder is ImageNet-style."""
    return (data / "train").is_dir()


def read_images(
    data: Path, *, size: int, images: int, annotators_images: int, noise: str = "high", seed: int = 0
) -> Images:
    """Read an ImageNet-style folder if it is one, else CIFAR-10."""
    if is_image_folder(data):
        return read_folder(data, size, images, annotators_images, noise, seed)
    if not any((data / name).exists() for name in ("cifar-10-batches-py", "data_batch_1")):
        raise FileNotFoundError(
            f"Expected `data` to be a folder with cifar-10-batches-py, or with images in train and {TESTS[0]}, but got "
            f"{data}, which has neither."
        )
    return read_cifar(data, size, images, annotators_images)


# -------------------------------------------------------------------------------- CIFAR-10


def read_cifar(data: Path, size: int, images: int, annotators_images: int) -> Images:
    """Read CIFAR-10, or as many of its training batches as there are: the last images are labelled anew."""
    inside = data / "cifar-10-batches-py" if (data / "cifar-10-batches-py").is_dir() else data
    there = takewhile(lambda number: (inside / f"data_batch_{number}").is_file(), range(1, 6))
    cifar = load_cifar10(data, batches=max(there, default=1))
    x, y = torch.from_numpy(cifar.X_train), torch.from_numpy(cifar.y_train)

    def read_lesson(side: int) -> Lesson:
        return Lesson(enlarge(x[:annotators_images], side), y[:annotators_images], enlarge(x[-images:], side))

    return Images(
        x=enlarge(x[-images:], size),
        x_test=enlarge(torch.from_numpy(cifar.X_test), size),
        y_test=torch.from_numpy(cifar.y_test),
        classes=len(cifar.classes),
        true=cifar.y_train[-images:],
        digest=hash_arrays(cifar.X_train, cifar.y_train, cifar.X_test, cifar.y_test),
        lesson=read_lesson,
        learned=len(y[:annotators_images]),
    )


def enlarge(images: Tensor, size: int) -> Tensor:
    """Enlarge images by repeating their pixels."""
    times = size // images.shape[-1]
    return images.repeat_interleave(times, 2).repeat_interleave(times, 3)


# -------------------------------------------------------------------------------- files


def read_folder(data: Path, size: int, images: int, annotators_images: int, noise: Any, seed: int) -> Images:
    """List the images of `train` and of `validation`, and join the labels of ImageNet-PI if they are there.

    Training images are larger than test images, by 8/7 at least, so that augmentation can crop them.
    """
    train = load_image_folder(data / "train")
    test = load_image_folder(next((data / name for name in TESTS if (data / name).is_dir()), data / TESTS[0]))
    clone = next((path for path in (data / "imagenet_pi", data) if (path / f"{noise}_noise").is_dir()), None)
    if clone is not None and len(test.classes) != CLASSES:
        raise ValueError(
            f"Expected {test.folder} to hold a folder for each of {CLASSES} classes, but got {len(test.classes)}."
        )
    apart = set(train.classes) ^ set(test.classes) if clone is None else set(train.classes) - set(test.classes)
    if apart:
        raise ValueError(f"Expected {train.folder} and {test.folder} to have the same classes, but got {min(apart)}.")
    drawn = np.random.default_rng(seed).permutation(len(train.path))
    rows, lesson = np.sort(drawn[:images]), np.sort(drawn[:annotators_images])
    path, y = train.path[rows], np.searchsorted(test.classes, train.classes)[train.y]
    published = None if clone is None else join_labels(load_imagenet_pi(clone, train.folder, noise=noise), path, seed)

    def read_lesson(side: int) -> Lesson:
        files = ImageFiles(train.folder, train.path[lesson], side)
        x = over_examples(nn.Identity(), files, AT_ONCE)
        return Lesson(x, torch.from_numpy(y[lesson]), ImageFiles(train.folder, path, side))

    names = ["\n".join(paths).encode() for paths in (train.path, test.path)]
    labels = () if published is None else (published.label, published.privileged["probability"].to_numpy())
    larger = 32 * math.ceil(MARGIN * size / 32)  # what every trunk accepts; 256 for 224
    return Images(
        x=ImageFiles(train.folder, path, larger, larger),
        x_test=test.pixels(size),
        y_test=torch.from_numpy(test.y),
        classes=len(test.classes),
        true=y[rows],
        digest=hash_arrays(*names, *labels),
        published=published,
        lesson=read_lesson,
        learned=len(lesson),
    )


def join_labels(published: ImageNetPI, path: NDArray[np.object_], seed: int) -> Relabelled:
    """Draw a published label of each image, by the path of its file."""
    place = pd.Index(published.path).get_indexer(pd.Index(path))
    if (place < 0).any():
        missing = path[np.argmax(place < 0)]
        raise ValueError(f"Expected ImageNet-PI to have labels of every image in `data`, but got none of {missing}.")
    every = published.annotations(random_state=seed)
    return Relabelled(np.arange(len(path)), every.label[place], every.privileged.iloc[place].reset_index(drop=True))

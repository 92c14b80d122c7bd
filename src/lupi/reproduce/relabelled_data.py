"""Images that networks relabel: CIFAR-10 with annotators trained here, or ImageNet with the labels of ImageNet-PI."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi._internal.progress import Steps
from lupi.compare.cache import RunFolder
from lupi.data import Annotations, Rows
from lupi.datasets import Relabelled, load_cifar10, load_imagenet_pi
from lupi.datasets.imagenet_pi import CLASSES, ImageRows
from lupi.methods import NoPI
from lupi.nn.inference import over_examples
from lupi.nn.mobilenet import MobileNet
from lupi.reproduce.cases import hash_arrays
from lupi.training import Settings, fit, seed_noise

WIDTHS = (0.25, 0.35, 0.5, 0.75)
TRAININGS = ((1.0, 1.0), (1.0, 0.4), (0.5, 0.6), (0.25, 0.6))
"""Annotators combine these factors of the network's width with these of the numbers of images and of epochs."""
MOMENTUM = 0.1
"""Weight of a batch in the running statistics of batch norm, for networks that start from random weights."""


class Lesson(NamedTuple):
    """Images with true labels from which annotators learn, and the images that they then label."""

    x: Tensor
    y: Tensor
    new: Tensor


@dataclass(frozen=True, eq=False, kw_only=True)
class Images:
    """Images to learn from and to test on, with values from 0 to 255.

    Parameters
    ----------
    x : Rows
        Training images.
    x_test, y_test
        Test images and their true labels.
    classes : int
        Number of classes.
    true : ndarray, optional
        True labels of `x` if known, to count how many of the labels are right.
    digest : str
        Hash of everything that the results depend on; of images in files only their names and labels.
    given : Relabelled, optional
        Labels that come with the images.
    lesson : Lesson, optional
        For annotators, if no labels come with the images.
    """

    x: Rows
    x_test: Any
    y_test: Tensor
    classes: int
    true: NDArray[np.int64] | None
    digest: str
    given: Relabelled | None = None
    lesson: Lesson | None = None


@dataclass(frozen=True)
class Bytes:
    """Images in files with values from 0 to 255, as trunks take them."""

    rows: ImageRows

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Images, channels, height and width."""
        return self.rows.shape

    def __getitem__(self, index: Tensor) -> Tensor:
        return 255 * self.rows[index]


def read_images(
    data: Path, *, size: int, images: int, annotators_images: int, noise: str = "high", seed: int = 0
) -> Images:
    """Read ImageNet and its labels if the folder has them, else CIFAR-10.

    Parameters
    ----------
    data : Path
        The folder.
    size : int
        Height and width of the images.
    images, annotators_images : int
        Images of CIFAR-10 to label anew, and images that annotators learn from.
    noise : {"high", "low"}
        Which labels of ImageNet-PI.
    seed : int
        Seed of the draws among the labels of ImageNet-PI.
    """
    clone = next((path for path in (data / "imagenet_pi", data) if (path / f"{noise}_noise").is_dir()), None)
    if clone is None:
        return read_cifar(data, size, images, annotators_images)
    return read_imagenet(clone, data, size, noise, seed)


def read_cifar(data: Path, size: int, images: int, annotators_images: int) -> Images:
    """Read CIFAR-10, or as many of its training batches as there are."""
    inside = data / "cifar-10-batches-py" if (data / "cifar-10-batches-py").is_dir() else data
    there = takewhile(lambda number: (inside / f"data_batch_{number}").is_file(), range(1, 6))
    cifar = load_cifar10(data, batches=max(there, default=1))
    first, count = annotators_images, len(cifar.y_train)
    if count <= first:
        raise ValueError(f"Expected more than {first} training images, `annotators_images`, but got {count}.")
    old, new = slice(0, first), slice(first, first + images)
    digest = hash_arrays(cifar.X_train[: new.stop], cifar.y_train[: new.stop], cifar.X_test, cifar.y_test)
    x, y = torch.from_numpy(cifar.X_train), torch.from_numpy(cifar.y_train)
    return Images(
        x=enlarge(x[new], size),
        x_test=enlarge(torch.from_numpy(cifar.X_test), size),
        y_test=torch.from_numpy(cifar.y_test),
        classes=len(cifar.classes),
        true=cifar.y_train[new],
        digest=digest,
        lesson=Lesson(x[old], y[old], x[new]),
    )


def enlarge(images: Tensor, size: int) -> Tensor:
    """Enlarge images by repeating their pixels.

    Examples
    --------
    >>> enlarge(torch.zeros(2, 3, 32, 32), 64).shape
    torch.Size([2, 3, 64, 64])
    """
    times = size // images.shape[-1]
    return images.repeat_interleave(times, 2).repeat_interleave(times, 3)


def read_imagenet(clone: Path, data: Path, size: int, noise: Any, seed: int) -> Images:
    """Read the published labels of ImageNet's training images in `train`; those in `validation` are for testing."""
    train = load_imagenet_pi(clone, data / "train", noise=noise)
    test = load_imagenet_pi(clone, data / "validation", noise=noise, split="validation")
    if test.gold is None:
        raise ValueError(
            f"Expected {data / 'validation'} to hold a folder for each of {CLASSES} classes, but got others."
        )
    names = ["\n".join(paths).encode() for paths in (train.path, test.path)]
    return Images(
        x=Bytes(train.pixels(size)),
        x_test=Bytes(test.pixels(size)),
        y_test=torch.from_numpy(test.gold),
        classes=CLASSES,
        true=train.gold,
        digest=hash_arrays(train.y, train.confidence, test.gold, *names),
        given=train.annotations(random_state=seed),
    )


class Annotator(NamedTuple):
    """Size and training of a network that labels images."""

    width: float
    images: int
    epochs: int

    @property
    def name(self) -> str:
        """A name for it."""
        return f"width {self.width:g}, {self.images} images, {self.epochs} epochs"


def list_annotators(images: int, epochs: int, width: float = 1.0) -> list[Annotator]:
    """List sixteen annotators of different size and training.

    Examples
    --------
    >>> list_annotators(30_000, 20)[-1].name
    'width 0.75, 7500 images, 12 epochs'
    """
    return [
        Annotator(width * factor, max(1, round(share * images)), max(1, round(longer * epochs)))
        for factor, (share, longer) in product(WIDTHS, TRAININGS)
    ]


def train_annotators(
    images: Images,
    annotators: Sequence[Annotator],
    folder: RunFolder,
    *,
    size: int,
    training: Callable[[int], Settings],
    seed: int,
    device: torch.device,
    progress: bool = False,
) -> list[NDArray[np.float32]]:
    """Train the annotators that the folder does not have yet, and return their predictions for the new images.

    Parameters
    ----------
    images : Images
        With a lesson.
    annotators : sequence of Annotator
        The annotators.
    folder : RunFolder
        Folder for the predictions.
    size : int
        Height and width to which images are enlarged.
    training : callable
        From a number of epochs to the settings of training.
    seed : int
        Seed of the first annotator; the others have the next ones.
    device : torch.device
        Where to train.
    progress : bool
        Whether to show progress.
    """
    lesson = images.lesson
    assert lesson is not None
    x, new = (enlarge(part, size) for part in (lesson.x, lesson.new))
    predictions = []
    with Steps("annotators", len(annotators), show=progress) as steps:
        for number, annotator in enumerate(annotators):
            found = folder.load("annotator", number)
            if found is None:
                with seed_noise(seed + number, torch.device("cpu")):
                    trunk = MobileNet(annotator.width, momentum=MOMENTUM)
                    network = NoPI(trunk, nn.Linear(trunk.features, images.classes))
                some = x[: annotator.images]
                seen, y = torch.cat([some, some.flip(3)]), lesson.y[: annotator.images].repeat(2)
                labels = Annotations(seen, torch.arange(len(y)), torch.zeros(len(y), 0), y)
                fit(network, labels, training(annotator.epochs), seed=seed + number, device=device)
                found = {"probabilities": over_examples(network.predictor(), new).softmax(1).cpu().numpy()}
                folder.save("annotator", number, found)
            predictions.append(found["probabilities"])
            steps.advance(1, annotator.name)
    return predictions

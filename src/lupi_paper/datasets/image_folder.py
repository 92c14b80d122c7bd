"""Folders of image files, one folder per class, as ImageNet is published. Images are read when they are indexed."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

SUFFIXES = (".jpeg", ".jpg", ".png")
MARGIN = 8 / 7
"""Shorter side to which an image is resized, as a multiple of the square that is cropped: 256 for 224."""


@dataclass(frozen=True, eq=False)
class ImageFiles:
    """Images in files, as a map-style torch `Dataset`: resized, and centre-cropped to a square."""

    folder: Path
    path: NDArray[np.object_]
    size: int
    resized: int | None = None

    def __len__(self) -> int:
        return len(self.path)

    def __getitem__(self, index: int) -> Tensor:
        """Read an image, [3, size, size] uint8."""
        resized = round(MARGIN * self.size) if self.resized is None else self.resized
        return torch.from_numpy(read_image(self.folder / self.path[index], self.size, resized))


def read_image(path: Path, size: int, resized: int) -> NDArray[np.uint8]:
    """Read an image, resize its shorter side, and crop a square around its centre: [3, size, size]."""
    try:
        with Image.open(path) as file:
            file.draft("RGB", (resized, resized))  # decodes a JPEG at the lowest resolution that is high enough
            image = file.convert("RGB")
    except (FileNotFoundError, PermissionError):
        raise  # these name the file
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"Expected {path} to be an image, but it cannot be read: {error}.") from error
    half = size / resized * min(image.size) / 2
    x, y = image.size[0] / 2, image.size[1] / 2
    square = image.resize((size, size), Image.Resampling.BILINEAR, box=(x - half, y - half, x + half, y + half))
    return np.ascontiguousarray(np.asarray(square).transpose(2, 0, 1))


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageFolder:
    """Image files and their classes."""

    folder: Path
    path: NDArray[np.object_]
    """[images] path of each image inside the folder, sorted by class and name."""
    y: NDArray[np.int64]
    """[images] number of the class."""
    classes: tuple[str, ...]
    """Names of the folders of the classes, sorted."""

    def pixels(self, size: int = 224, *, resized: int | None = None) -> ImageFiles:
        """Return the images as inputs for `lupi.data.Annotations`, `size` × `size` pixels."""
        return ImageFiles(self.folder, self.path, size, resized)


def load_image_folder(folder: str | Path) -> ImageFolder:
    """List the image files of a folder that has one folder per class.

    Parameters
    ----------
    folder : str or Path
        A folder such as ImageNet's ``train``, with images such as ``n01440764/n01440764_10026.JPEG``.

    Returns
    -------
    ImageFolder
        Paths, classes and, when they are indexed, images.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for name in ("n02/b.JPEG", "n01/a.JPEG"):
    ...     (folder / name).parent.mkdir()
    ...     (folder / name).touch()
    >>> found = load_image_folder(folder)
    >>> list(found.path), found.y, found.classes
    (['n01/a.JPEG', 'n02/b.JPEG'], array([0, 1]), ('n01', 'n02'))
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"Expected `folder` to be a folder of images, but got {folder}, which does not exist.")
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    if not classes:
        raise ValueError(f"Expected {folder} to hold a folder of images for each class, but got none.")
    path: list[str] = []
    count = []
    for name in classes:
        files = sorted(file for file in os.listdir(folder / name) if file.lower().endswith(SUFFIXES))
        if not files:
            raise ValueError(f"Expected {folder / name} to hold images ({', '.join(SUFFIXES)}), but got none.")
        path += [f"{name}/{file}" for file in files]
        count.append(len(files))
    y = np.repeat(np.arange(len(classes)), count)
    return ImageFolder(folder=folder, path=np.array(path, dtype=object), y=y, classes=tuple(classes))

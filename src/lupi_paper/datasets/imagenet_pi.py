"""ImageNet-PI: labels of ImageNet ILSVRC12 by sixteen models, with their confidences.

The published labels were drawn from randomly flattened predictive distributions of the models. Labels with `noise`
"high" agree with ImageNet's 16.2 % of the time, those with "low" 51.9 %. The images are ImageNet's own, and are read
lazily.

References
----------
Ortiz-Jimenez, Collier, Nawalgaria, D'Amour, Berent, Jenatton and Kokiopoulou, *When does Privileged Information
Explain Away Label Noise?*, ICML 2023; https://github.com/google-research-datasets/imagenet_pi.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.datasets import Relabelled
from lupi_paper.datasets.files import find_file
from lupi_paper.datasets.image_folder import ImageFiles

URL = "https://github.com/google-research-datasets/imagenet_pi"
MODELS = [
    *("ResNet50V2", "ResNet101V2", "ResNet152V2", "DenseNet121", "DenseNet169", "DenseNet201", "InceptionResNetV2"),
    *("InceptionV3", "MobileNet", "MobileNetV2", "MobileNetV3Large", "MobileNetV3Small", "NASNetMobile"),
    *("VGG16", "VGG19", "Xception"),
]
"""The annotators, in the order of the repository's description."""
CLASSES = 1000


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageNetPI:
    """Sixteen labels of each image, and the paths of the images."""

    images: Path
    """Folder of the images."""
    path: NDArray[np.object_]
    """[images] path of each image inside that folder."""
    y: NDArray[np.int16]
    """[images, 16] labels, as indices into the sorted WordNet ids of ImageNet's classes."""
    confidence: NDArray[np.float32]
    """[images, 16] probability that the model assigned to its label."""
    annotators: pd.DataFrame
    """[16] standardized `accuracy` and `log_parameters`, the log of the number of parameters, of each model."""
    gold: NDArray[np.int64] | None
    """[images] true label by the image's folder, for evaluation only; None unless there are 1000 folders."""

    def annotations(self, annotations: int = 1, random_state: int = 0) -> Relabelled:
        """Draw some of the sixteen labels of each image, without replacement."""
        if not 1 <= annotations <= len(self.annotators):
            raise ValueError(f"Expected `annotations` to be 1 to {len(self.annotators)}, but got {annotations}.")
        lots = np.random.default_rng(random_state).random(self.y.shape, dtype=np.float32)
        who = np.argsort(lots, axis=1)[:, :annotations].ravel()
        row = np.repeat(np.arange(len(self.y)), annotations)
        privileged = pd.DataFrame(
            {
                "annotator": pd.Categorical.from_codes(who, self.annotators.index),
                "probability": self.confidence[row, who],
                **{name: column.to_numpy()[who] for name, column in self.annotators.items()},
            }
        )
        return Relabelled(row, self.y[row, who].astype(np.int64), privileged)

    def pixels(self, size: int = 224, *, resized: int | None = None) -> ImageFiles:
        """Return the images as inputs for `lupi.data.Annotations`, `size` × `size` pixels (`ImageFiles`)."""
        return ImageFiles(self.images, self.path, size, resized)


def load_imagenet_pi(
    folder: str | Path,
    images: str | Path,
    *,
    noise: Literal["high", "low"] = "high",
    split: Literal["train", "validation"] = "train",
) -> ImageNetPI:
    r"""Load the labels, confidences and annotators of ImageNet-PI over a folder of ImageNet's images.

    Parameters
    ----------
    folder : str or Path
        A clone of the repository with its large files ("git lfs pull").
    images : str or Path
        Folder of ImageNet's images of this split. Training images are in one folder per class, as in
        ``n01440764/n01440764_10026.JPEG``; validation images may be in one folder.
    noise : "high" or "low"
        Which of the two published sets of labels to load.
    split : "train" or "validation"
        Which of ImageNet's splits to load.

    Returns
    -------
    ImageNetPI
        One row per image: 1,281,167 for training, 50,000 for validation.

    Notes
    -----
    The repository describes the files and lists the models. We assume that the sixteen columns and the rows of
    ``annotator_features.csv`` follow that list.

    Examples
    --------
    One image, in the published layout:

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> files = {
    ...     "labels/train.csv": "n02097047_2079.JPEG," + ",".join(["196"] * 15 + ["165"]),
    ...     "confidences/train.csv": "n02097047_2079.JPEG," + ",".join(["0.5"] * 15 + ["0.25"]),
    ...     "annotator_features.csv": "\n".join(["0.1,15.2"] * 16),
    ... }
    >>> for name, text in files.items():
    ...     (folder / "low_noise" / name).parent.mkdir(parents=True, exist_ok=True)
    ...     _ = (folder / "low_noise" / name).write_text(text + "\n")
    >>> table = load_imagenet_pi(folder, folder, noise="low")
    >>> table.path[0], table.y.shape, len(table.pixels())
    ('n02097047/n02097047_2079.JPEG', (1, 16), 1)
    >>> row, label, privileged = table.annotations(2)
    >>> privileged
         annotator  probability  accuracy  log_parameters
    0  InceptionV3          0.5       0.1            15.2
    1  DenseNet201          0.5       0.1            15.2
    """
    if noise not in ("high", "low"):
        raise ValueError(f"Expected `noise` to be 'high' or 'low', but got {noise!r}.")
    if split not in ("train", "validation"):
        raise ValueError(f"Expected `split` to be 'train' or 'validation', but got {split!r}.")
    images = Path(images)
    if not images.is_dir():
        raise FileNotFoundError(
            f"Expected `images` to be the folder of ImageNet's {split} images, but got {images}, which does not exist: "
            "download ILSVRC2012 from https://www.image-net.org/download-images."
        )
    kind = f"{noise}_noise"
    y = _read(folder, [f"{kind}/labels/{split}.csv", f"{kind}/labels-{split}.csv"], np.int16)
    confidence = _read(folder, [f"{kind}/confidences/{split}.csv", f"{kind}/confidences-{split}.csv"], np.float32)
    missing = y.index.difference(confidence.index)
    if len(missing):
        raise ValueError(
            f"Expected the confidences of {kind} to have the images of the labels, but got no {missing[0]}."
        )
    path = _find(folder, [f"{kind}/annotator_features.csv", f"{kind}/annotator-features.csv"])
    annotators = pd.read_csv(path, header=None, names=["accuracy", "log_parameters"], dtype=np.float64)
    if len(annotators) != len(MODELS):
        raise ValueError(f"Expected {path} to have 16 rows, but got {len(annotators)}.")
    paths = _add_folders(y.index, images)
    return ImageNetPI(
        images=images,
        path=paths,
        y=y.to_numpy(),
        confidence=confidence.loc[y.index].to_numpy(),
        annotators=annotators.set_index(pd.Index(MODELS, name="annotator")),
        gold=_gold(paths),
    )


def _find(folder: str | Path, names: list[str]) -> Path:
    """Find a file by its name in the loaders of the repository, or in its description."""
    path = find_file("folder", folder, names, f"clone {URL} and run 'git lfs pull' in it")
    with path.open("rb") as file:
        if file.read(24) == b"version https://git-lfs.":
            raise FileNotFoundError(
                f"Expected {path} to be a table, but got a Git LFS pointer: run 'git lfs pull' in the clone."
            )
    return path


def _read(folder: str | Path, names: list[str], dtype: type) -> pd.DataFrame:
    """Read a table without a header: a name and sixteen numbers per row."""
    path = _find(folder, names)
    types = {"image": str, **dict.fromkeys(MODELS, dtype)}
    try:
        return pd.read_csv(path, names=list(types), dtype=types, index_col="image", na_filter=False)
    except ValueError as error:
        raise ValueError(f"Expected {path} to have an image and 16 numbers per row, but got: {error}.") from error


def _add_folders(names: pd.Index, images: Path) -> NDArray[np.object_]:
    """Prepend the class folder, which is in the names of training images and may exist for validation images."""
    folder = names.str.extract(r"^(n\d{8})_", expand=False)
    if folder.notna().all():
        return (folder + "/" + names).to_numpy(object)
    inside = {path.name: f"{path.parent.name}/{path.name}" for path in images.glob("n*/*")}
    return np.array([inside.get(name, name) for name in names], dtype=object)


def _gold(paths: NDArray[np.object_]) -> NDArray[np.int64] | None:
    """Return class numbers by folder, if there is a folder for each of the classes."""
    folder = [path.rpartition("/")[0] for path in paths]
    code, folders = pd.factorize(np.array(folder, dtype=object), sort=True)
    return code.astype(np.int64) if len(folders) == CLASSES else None

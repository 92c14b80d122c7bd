"""Encode images as pixels, which needs no download, or with a pretrained model."""

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps

from lupi._internal.pretrained import ImageTrunk, Size
from lupi._internal.sanitizing import one_line
from lupi.tabular.pretrained_encoders import PretrainedEncoder, resolve_folder

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""Formats to accept. Pillow reads more formats, some by starting other programs."""
THUMBNAIL_SIDE = 16
"""Height and width of the images of `PixelEncoder`."""


class UnreadableImageError(ValueError):
    """A file that is not an image, or a damaged image."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"Expected {path} to be an image, but got: {why}.")
        self.path, self.why = path, why


def read_image(path: str | Path, size: Size) -> NDArray[np.uint8]:
    """Read an image as [height, width, 3]: upright, centre-cropped to the shape, with transparent parts white."""
    width, height = size[1], size[0]
    return np.asarray(ImageOps.fit(open_image(path, (width, height)), (width, height), Image.Resampling.BILINEAR))


def draw_thumbnail(path: str | Path, side: int) -> bytes:
    """Return a small JPEG file of an image, at most `side` pixels high and wide, without camera metadata."""
    image = open_image(path, (side, side))
    image.thumbnail((side, side))
    image.info.clear()
    file = io.BytesIO()
    image.save(file, "JPEG", quality=80)
    return file.getvalue()


def open_image(path: str | Path, least: Size) -> Image.Image:
    """Open an image, upright and in RGB; an image more than twice as large as `least` may be reduced."""
    try:
        with (
            warnings.catch_warnings(action="error", category=Image.DecompressionBombWarning),
            Image.open(path, formats=FORMATS) as image,
        ):
            image.draft("RGB", (2 * max(least), 2 * max(least)))  # JPEG decodes faster at 1/2, 1/4, …
            return to_colours(ImageOps.exif_transpose(image))
    except Exception as error:  # decoders raise anything on damaged files
        why = one_line(error).removesuffix(".") or type(error).__name__
        raise UnreadableImageError(str(path), why) from error


def to_colours(image: Image.Image) -> Image.Image:
    """Convert an image of any mode to RGB."""
    if image.mode.startswith("I"):  # 16 bits, which Pillow would clip
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image.convert("RGBA"))
    return image.convert("RGB")


class PixelEncoder:
    """Encode images as the pixels of a 16 × 16 thumbnail. Nothing is learned, and shapes are hardly visible."""

    learns: ClassVar[bool] = False

    def fit(self, paths: Sequence[str]) -> Self:  # noqa: ARG002  the signature of encoders that learn
        """Do nothing."""
        return self

    def transform(self, paths: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features from 0 to 1 per image."""
        images = [read_image(path, (THUMBNAIL_SIDE, THUMBNAIL_SIDE)).reshape(-1) for path in paths]
        return np.stack(images).astype(np.float32) / np.float32(255)


class VisionEncoder(PretrainedEncoder):
    """Encode images with a pretrained model, L2-normalized; see `lupi.nn.pretrained` for names.

    Embeddings are cached on disk (folder ``lupi`` in ``$XDG_CACHE_HOME`` or ``~/.cache``), by model and content of the
    file. This needs the extra `vision`.
    """

    unit = "image"
    trunk = ImageTrunk
    extra = "vision"

    def _content(self, value: str) -> bytes:
        return Path(value).read_bytes()

    def _embed(self, values: list[str]) -> NDArray[np.float32]:
        trunk, size = self._load_trained()
        images = np.stack([read_image(path, size) for path in values])
        return self._apply(trunk, torch.from_numpy(images).permute(0, 3, 1, 2))

    def _load_more(self, trunk: ImageTrunk) -> tuple[Size]:
        return (trunk.example,)


def make_image_encoder(name: str | None, device: str = "auto") -> PixelEncoder | VisionEncoder:
    """Return a `PixelEncoder` or, if a name is given, a `VisionEncoder`."""
    return VisionEncoder(resolve_folder(name), device) if name else PixelEncoder()

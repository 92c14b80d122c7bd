"""Images: paths of files beside the table, encoded as several features."""

import re

from lupi.tabular.images import make_image_encoder
from lupi.tabular.kinds.base import ColumnEncoder, Kind
from lupi.tabular.values import Column

SUFFIXES = re.compile(r".*\.(jpe?g|png|webp|gif|bmp|tiff?)", re.IGNORECASE | re.DOTALL)


class ImageFile(Kind):
    """Paths of images, relative to the folder of the table. Users must choose this kind; lupi only suggests it."""

    name = "image"
    wants = "paths"
    names_files = True

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return False

    def reads(self, stored: str) -> bool:
        return stored == "string"

    def make_encoder(self, name: str | None, device: str) -> ColumnEncoder | None:
        return make_image_encoder(name, device)


def holds_images(column: Column) -> bool:
    """Return whether strings are named like image files."""
    some = column.dropna().head(100)
    return len(some) > 0 and all(SUFFIXES.fullmatch(str(value)) for value in some)

"""Images: paths of files beside the table, encoded as several features.

As ``"image:MODEL"`` they are encoded with a pretrained model, otherwise as the pixels of a thumbnail.
"""

import os
import re
from pathlib import Path

from lupi.tabular.images import make_image_encoder
from lupi.tabular.kinds.base import ColumnEncoder
from lupi.tabular.kinds.embedded import EmbeddedKind
from lupi.tabular.values import Column

SUFFIXES = re.compile(r".*\.(jpe?g|png|webp|gif|bmp|tiff?)", re.IGNORECASE | re.DOTALL)


class ImageFile(EmbeddedKind):
    """Paths of images, relative to the folder of the table. Users must choose this kind; lupi only suggests it."""

    name = "image"
    wants = "paths"
    may_be_privileged = False
    may_be_missing = False
    names_files = True

    def make_encoder(self, device: str) -> ColumnEncoder:
        return make_image_encoder(self.argument, device)


def holds_images(column: Column) -> bool:
    """Return whether strings are named like image files."""
    some = column.dropna().head(100)
    return len(some) > 0 and all(SUFFIXES.fullmatch(str(value)) for value in some)


def resolve_beside_table(folder: Path, name: str) -> Path | None:
    """Return the file that a table in a folder names, or None if its path is absolute or leads out of the folder.

    The author of a table chooses which files are read, so only files beside the table can be reached.
    """
    inside = os.path.normpath(name)
    if not name or "\0" in name or os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir:
        return None
    return folder / inside


def find_files(column: Column, folder: Path) -> Column:
    """Return the paths of the files that a column names; raise a `ValueError` with the row of a missing file."""
    found = {name: resolve_beside_table(folder, str(name)) for name in column.unique()}
    for row, name in column.items():
        path = found[name]
        if path is None or not path.is_file():
            why = "leads out of the folder" if path is None else "does not exist"
            what = f"Expected column {column.name!r} to name files in {folder.resolve()}"
            raise ValueError(f"{what}, but {str(name)!r} in row {row} {why}.")
    return column.map({name: str(path) for name, path in found.items()})

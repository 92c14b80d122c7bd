"""Find the files that a table names. They must be in the folder of the table or in a subfolder."""

import os
from pathlib import Path

from lupi.tabular.kinds.base import RowNumbers
from lupi.tabular.values import Column


def folder_of(path: str | Path) -> Path:
    """Return the folder that paths in a table are relative to: the table's folder, or the table if it is a folder."""
    path = Path(path)
    return path if path.is_dir() else path.parent


def resolve_beside_table(folder: Path, name: str) -> Path | None:
    """Return the file that a table in a folder names, or None if its path is absolute or leads out of the folder.

    The author of a table chooses which files are read, so only files beside the table can be reached.
    """
    inside = os.path.normpath(name)
    if not name or "\0" in name or os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir:
        return None
    return folder / inside


def find_files(column: Column, folder: Path, rows: RowNumbers) -> Column:
    """Return the paths of the files that a column names; raise a `ValueError` with the row of a missing file."""
    found = {name: resolve_beside_table(folder, str(name)) for name in column.unique()}
    for row, name in zip(rows, column, strict=True):
        path = found[name]
        if path is None or not path.is_file():
            why = "leads out of the folder" if path is None else "does not exist"
            what = f"Expected column {column.name!r} to name files in {folder.resolve()}"
            raise ValueError(f"{what}, but {str(name)!r} in row {row} {why}.")
    return column.map({name: str(path) for name, path in found.items()})

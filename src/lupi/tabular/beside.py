"""Files that a table names: they lie in the table's folder or below it, wherever the program runs."""

import os
from pathlib import Path

from lupi.tabular.importers import IMPORTERS


def folder_of(path: str | Path) -> Path:
    """Return the folder that the paths in a table are relative to: its own, or itself if it is a folder.

    Examples
    --------
    >>> folder_of("data/labels.csv").as_posix(), folder_of("label-studio:data/export.json").as_posix()
    ('data', 'data')
    """
    tool, colon, export = str(path).partition(":")
    path = Path(export if colon and tool in IMPORTERS and not Path(path).exists() else path)
    return path if path.is_dir() else path.parent


def find_beside(path: str | Path, name: str) -> Path | None:
    """Return the file that a table names, or None if its path is absolute or leads out of the table's folder.

    Whoever writes a table chooses what is read, so a table reaches nothing but what lies beside it.

    Examples
    --------
    >>> find_beside("data/labels.csv", "images/1.png").as_posix()
    'data/images/1.png'
    >>> find_beside("data/labels.csv", "../secret.png"), find_beside("data/labels.csv", "/etc/secret.png")
    (None, None)
    """
    inside = os.path.normpath(name)
    if not name or "\0" in name or os.path.isabs(inside) or inside.split(os.sep)[0] == os.pardir:
        return None
    return folder_of(path) / inside

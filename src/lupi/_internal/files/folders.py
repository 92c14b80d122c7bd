"""Replace a whole folder atomically."""

import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from lupi._internal.files.exchange import exchange
from lupi._internal.files.locks import OLD, hidden_path, is_temporary, lock_output, partial_path, remove, resolve
from lupi._internal.files.writing import flush


@contextmanager
def replace_folder(path: str | Path, *, drop: Collection[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; after the block, flush its files to disk and move it into place."""
    path = resolve(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_output(path):
        partial = partial_path(path)
        try:
            if path.exists():
                shutil.copytree(
                    path,
                    partial,
                    symlinks=True,
                    ignore=lambda place, names: [
                        name for name in names if is_temporary(name) or (name in drop and Path(place) == path)
                    ],
                    copy_function=link_or_copy,
                )
            else:
                partial.mkdir()
            yield partial
            flush_new(partial)
            if path.exists():
                swap(partial, path)
            else:
                partial.rename(path)
            flush(path.parent)
        finally:
            remove(partial)


def swap(new: Path, path: Path) -> None:
    """Replace `path` with a new folder, atomically where the operating system supports it."""
    if exchange(new, path):
        return
    old = hidden_path(path, OLD)
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise
    remove(old)


def current_folder(path: Path) -> Path:
    """Return the path of the content of a folder: beside the folder if its writer died between two renames."""
    if path.exists():
        return path
    old = hidden_path(resolve(path), OLD)
    return old if old.exists() else path


def is_blank(folder: Path) -> bool:
    """Return whether a path is a folder that contains at most folders and empty hidden files."""
    for place, _, names in os.walk(folder):
        files = [Path(place, name) for name in names]
        if any(not file.name.startswith(".") or file.lstat().st_size for file in files):
            return False
    return folder.is_dir()


def link_or_copy(source: str, target: str) -> None:
    """Add a file of the old folder to the new one, as a hard link or, if the disk has no links, as a copy."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target)


def flush_new(folder: Path) -> None:
    """Flush a folder to disk, except for files shared with the old folder, which are on disk already."""
    for path in (*folder.rglob("*"), folder):
        status = path.lstat()
        if stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1):
            flush(path)

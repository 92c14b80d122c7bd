"""Write files and folders in one step, so that a reader finds the old content or the new, never a part of it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def write_atomic(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name and move it into place once it is on disk.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as name:
    ...     write_atomic(Path(name, "a.txt"), lambda file: file.write(b"content"))
    ...     [path.name for path in Path(name).iterdir()]
    ['a.txt']
    """
    with replace_file(path) as partial, partial.open("wb") as file:
        write(file)


def write_text(path: Path, text: str) -> None:
    """Write a text atomically in UTF-8; characters that UTF-8 cannot encode become question marks."""
    write_atomic(path, lambda file: file.write(text.encode("utf-8", "replace")))


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; after the block, flush that file to disk and move it into place."""
    partial = hidden_path(path)
    try:
        yield partial
        flush(partial)
        partial.replace(path)
        flush(path.parent)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; after the block, flush its files to disk and move it into place.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as name:
    ...     with replace_folder(Path(name, "model")) as partial:
    ...         write_text(partial / "a.txt", "content")
    ...     [path.name for path in Path(name, "model").iterdir()]
    ['a.txt']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = hidden_path(path)
    partial.mkdir()
    try:
        yield partial
        for file in partial.rglob("*"):
            flush(file)
        if not path.exists():
            partial.rename(path)
        else:
            old = partial.with_name(f"{partial.name}.old")
            path.rename(old)
            try:
                partial.rename(path)
            except BaseException:
                old.rename(path)
                raise
            shutil.rmtree(old, ignore_errors=True)
        flush(path.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def flush(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is on disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def hidden_path(path: Path) -> Path:
    """Return a new hidden name beside `path`, with the same suffix."""
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{path.suffix}")


def check_output(
    path: Path,
    *,
    argument: str = "output",
    overwrite: bool = False,
    folder: bool = False,
    ours: Callable[[Path], bool] = lambda _: True,
    kind: str = "output",
) -> None:
    """Check before long work that an output is new or may be replaced, and that its place is writable.

    Parameters
    ----------
    path : Path
        The file or folder to be written.
    argument : str
        Name of the argument that holds the path, for messages.
    overwrite : bool
        Whether an existing output may be replaced.
    folder : bool
        Whether the output is a folder. An empty folder counts as new.
    ours : callable
        Whether an existing output was written by lupi. Nothing else is ever replaced.
    kind : str
        What such an output is called in messages.

    Examples
    --------
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     check_output(Path(file.name))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileExistsError: Expected `output` to be new, but ... exists; pass `overwrite=True` to replace it.
    """
    if path.exists() and path.is_dir() != folder:
        wanted, got = ("folder", "file") if folder else ("file", "folder")
        raise FileExistsError(f"Expected `{argument}` to be a {wanted}, but {path} is a {got}.")
    if path.exists() and not (folder and not any(path.iterdir())):
        if not ours(path):
            raise FileExistsError(f"Expected `{argument}` to be new or a {kind}, but {path} is something else.")
        if not overwrite:
            raise FileExistsError(
                f"Expected `{argument}` to be new, but {path} exists; pass `overwrite=True` to replace it."
            )
    with explain_os_errors(path, argument):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path if folder and path.exists() else path.parent).close()


@contextmanager
def explain_os_errors(path: str | Path, argument: str = "output") -> Iterator[None]:
    """Turn an error of the operating system into a sentence that names the argument and the path."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        why = os.strerror(error.errno)
        raise OSError(f"Expected `{argument}` to be writable, but got {path}: {why}.") from error


def to_records(table: pd.DataFrame) -> Any:
    """Return the rows of a table as JSON holds them; missing values become null."""
    return json.loads(table.to_json(orient="records", double_precision=15))

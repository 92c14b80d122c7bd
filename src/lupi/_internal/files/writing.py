"""Write a file atomically: a reader finds the old or the new content, but never a part of it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from lupi._internal.files.locks import lock_output, partial_path, remove, resolve


def write_atomic(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name and move it into place once it is on disk."""
    with replace_file(path) as partial, partial.open("wb") as file:
        write(file)


def write_text(path: Path, text: str) -> None:
    """Write a text atomically in UTF-8; characters that UTF-8 cannot encode become question marks."""
    write_atomic(path, lambda file: file.write(text.encode("utf-8", "replace")))


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; after the block, flush that file to disk and move it into place.

    A link is followed.
    """
    path = resolve(path)
    with lock_output(path):
        partial = partial_path(path)
        try:
            yield partial
            flush(partial)
            partial.replace(path)
            flush(path.parent)
        finally:
            remove(partial)


def flush(path: Path) -> None:
    """Flush a file, or the list of names in a folder, to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)

"""One writer per output: locks that the system releases when a process dies, and cleanup after dead processes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

LOCK, PARTIAL, OLD = "lupi-lock", "lupi-partial", "lupi-old"
PATIENCE = 0.2
"""Seconds to wait for a lock, since its holder may be about to remove it."""


def hidden_path(path: Path, what: str) -> Path:
    """Return a hidden name beside `path`."""
    return path.with_name(f".{path.name}.{what}")


def is_temporary(name: str) -> bool:
    """Return whether a file has one of the hidden names."""
    return name.startswith(".") and any(f".{what}" in name for what in (LOCK, PARTIAL, OLD))


def partial_path(path: Path) -> Path:
    """Return the temporary name of `path` while it is written; it has the same suffix, which some writers check."""
    return hidden_path(path, PARTIAL + path.suffix)


def resolve(path: str | Path) -> Path:
    """Return an absolute path without links; unlike in `Path.resolve`, a loop of links is not an error."""
    return Path(os.path.realpath(path))


@contextmanager
def lock_output(path: str | Path, argument: str = "output") -> Iterator[None]:
    """Lock a file or folder for writing by one thread of one process at a time.

    The lock is reentrant. Files that dead processes have left beside the output are removed first.
    """
    own = resolve(path)
    lock = FileLock(hidden_path(own, LOCK), timeout=PATIENCE, is_singleton=True)
    try:
        lock.acquire()
    except Timeout:
        message = f"Expected `{argument}` to have one writer at a time, but another process is writing to {path}."
        raise BlockingIOError(message) from None
    try:
        if lock.lock_counter == 1:
            tidy(own)
            tidy_others(own)
        yield
    finally:
        if lock.lock_counter == 1:
            remove(Path(lock.lock_file))  # while nobody else can hold it; waiting processes start again
        lock.release()


def tidy(path: Path) -> None:
    """Restore the old folder if its writer died between two renames, and remove other files of a dead writer."""
    old = hidden_path(path, OLD)
    if old.exists() and not path.exists():
        old.rename(path)
    remove(old)
    remove(partial_path(path))


def tidy_others(path: Path) -> None:
    """Clean up after dead writers of other outputs in the same folder, whose locks are free."""
    for left in path.parent.glob(f".*.{LOCK}"):
        if left == hidden_path(path, LOCK):
            continue
        lock = FileLock(left, timeout=0)
        with suppress(OSError), lock:  # a timeout is an OSError
            tidy(left.with_name(left.name[1:].removesuffix(f".{LOCK}")))
            remove(left)


def remove(path: Path) -> None:
    """Remove a file, or a folder with its contents, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)

"""Check before long work that its output can be written, and lock it."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from lupi._internal.files.folders import is_blank
from lupi._internal.files.locks import lock_output, resolve


@contextmanager
def claim_output(
    path: str | Path,
    *,
    argument: str = "output",
    overwrite: bool = False,
    folder: bool = False,
    ours: Callable[[Path], bool] = lambda _: True,
    kind: str = "output",
) -> Iterator[None]:
    """Check that an output is new or may be replaced, and hold its lock until the work is done."""
    path = Path(path)
    with ExitStack() as stack:
        with explain_os_errors(path, argument):
            if folder:
                check_movable(path, argument)
            resolve(path).parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(lock_output(path, argument))
        check_output(path, argument=argument, overwrite=overwrite, folder=folder, ours=ours, kind=kind)
        yield


def check_output(
    path: Path,
    *,
    argument: str = "output",
    overwrite: bool = False,
    folder: bool = False,
    ours: Callable[[Path], bool] = lambda _: True,
    kind: str = "output",
) -> None:
    """Check that an output is new or may be replaced."""
    with explain_os_errors(path, argument), suppress(FileNotFoundError):
        path.stat()  # raises an error for a loop of links, which does not exist according to `exists`
    if not path.exists():
        return
    if path.is_dir() != folder:
        wanted, got = ("folder", "file") if folder else ("file", "folder")
        raise FileExistsError(f"Expected `{argument}` to be a {wanted}, but {path} is a {got}.")
    with explain_os_errors(path, argument):
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if folder and is_blank(path):
            return
    if not ours(path):
        raise FileExistsError(f"Expected `{argument}` to be new or a {kind}, but {path} is something else.")
    if not overwrite:
        raise FileExistsError(
            f"Expected `{argument}` to be new, but {path} exists; pass `overwrite=True` to replace it."
        )


def check_movable(path: Path, argument: str) -> None:
    """Check that a folder can be replaced; mount points and working directories cannot."""
    own = resolve(path)
    if os.path.ismount(own) or resolve(".").is_relative_to(own):
        what = "a mount point" if os.path.ismount(own) else "the working directory, or above it"
        raise FileExistsError(f"Expected `{argument}` to be a folder of its own, but {path} is {what}.")


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

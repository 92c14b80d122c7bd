"""Write outputs safely: atomically, by one process at a time, and without replacing anything else.

The writer of an output holds its lock, ``.NAME.lupi-lock`` beside it, so the other hidden names can be fixed:
``.NAME.lupi-partial`` is the output being written, and ``.NAME.lupi-old`` the old folder, while the new one takes its
place. A process that acquires the lock of a dead process cleans up after it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    import pandas as pd

LOCK, PARTIAL, OLD = "lupi-lock", "lupi-partial", "lupi-old"
LOCK_SECONDS = 0.2
"""Seconds to wait for a lock, since its holder may be about to remove it."""
FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠]")
"""First characters of cells that spreadsheets run as formulas."""
NUMBER = re.compile(r"[+-](\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]inf", re.IGNORECASE)


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
    target = resolve(path)
    if not target.parent.is_dir():  # the lock would make it again, for an output that somebody has removed
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    lock = FileLock(hidden_path(target, LOCK), timeout=LOCK_SECONDS, is_singleton=True)
    try:
        lock.acquire()
    except Timeout:
        message = f"Expected `{argument}` to have one writer at a time, but another process is writing to {path}."
        raise BlockingIOError(message) from None
    try:
        if lock.lock_counter == 1:
            tidy(target)
            tidy_others(target)
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


@contextmanager
def replace_folder(path: str | Path, *, drop: Collection[str] = ()) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; after the block, flush its files to disk and move it into place."""
    path = resolve(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with lock_output(path):
        partial = partial_path(path)

        def leave_out(place: str, names: list[str]) -> list[str]:
            return [name for name in names if is_temporary(name) or (name in drop and Path(place) == path)]

        try:
            if path.exists():
                shutil.copytree(path, partial, symlinks=True, ignore=leave_out, copy_function=link_or_copy)
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
    """Replace `path` with a new folder. Between the two renames, `current_folder` finds the old one."""
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
        check_kind(path, argument, folder=folder)
        if path.exists() and not (folder and is_blank(path)):
            if not ours(path):
                raise FileExistsError(f"Expected `{argument}` to be new or a {kind}, but {path} is something else.")
            if not overwrite:
                raise FileExistsError(
                    f"Expected `{argument}` to be new, but {path} exists; pass `overwrite=True` to replace it."
                )
        yield


def check_kind(path: Path, argument: str, *, folder: bool) -> None:
    """Check that an output, if it exists, is a folder or a file as wanted, and writable."""
    with explain_os_errors(path, argument), suppress(FileNotFoundError):
        path.stat()  # raises an error for a loop of links, which does not exist according to `exists`
    if path.exists() and path.is_dir() != folder:
        wanted, got = ("folder", "file") if folder else ("file", "folder")
        raise FileExistsError(f"Expected `{argument}` to be a {wanted}, but {path} is a {got}.")
    with explain_os_errors(path, argument):
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def check_not_input(output: str | Path, *inputs: str | Path) -> None:
    """Raise an error if an output is an input, or lies in the folder of one, by whatever path: inputs never change."""
    target = resolve(output)
    for path in map(Path, inputs):
        same = target.exists() and path.exists() and target.samefile(path)
        if same or target == resolve(path) or (path.is_dir() and target.is_relative_to(resolve(path))):
            raise FileExistsError(f"Expected `output` to be another file than the input, but {output} is in {path}.")


def check_movable(path: Path, argument: str) -> None:
    """Check that a folder can be replaced; mount points and working directories cannot."""
    target = resolve(path)
    if os.path.ismount(target) or resolve(".").is_relative_to(target):
        what = "a mount point" if os.path.ismount(target) else "the working directory, or above it"
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


def read_object(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; an empty dict if there is no such file, or something else in it."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def to_records(table: pd.DataFrame) -> Any:
    """Convert the rows of a table to JSON types; missing values become null."""
    return json.loads(table.to_json(orient="records", double_precision=15))


def to_csv(table: pd.DataFrame) -> str:
    """Convert a table to CSV for readers; an apostrophe keeps spreadsheets from running a text as a formula."""
    safe = table.rename(columns=quote_formula)
    for place, dtype in enumerate(safe.dtypes):
        if dtype.kind not in "biufmM":
            safe.isetitem(place, [quote_formula(value) for value in safe.iloc[:, place]])
    return safe.to_csv(index=False)


def quote_formula(value: Any) -> Any:
    """Put an apostrophe before a text that spreadsheets would run, as OWASP recommends."""
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # pandas does not quote a lone \r, which ends a row
    return f"'{text}" if is_formula(text) else text


def is_formula(text: str) -> bool:
    """Return whether spreadsheets run a text as a formula; numbers are not formulas."""
    return bool(FORMULA.match(text)) and not NUMBER.fullmatch(text)


def library_versions() -> dict[str, str]:
    """Return the versions of lupi, Python and the libraries that results depend on."""
    from lupi import __version__

    libraries = {name: version(name) for name in ("torch", "scikit-learn", "numpy")}
    return {"lupi": __version__, "python": sys.version.split()[0], **libraries}

"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO


def write_whole(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a name of its own and move it into place, so that it is there whole or not at all.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as name:
    ...     write_whole(Path(name, "a.txt"), lambda file: file.write(b"whole"))
    ...     [path.name for path in Path(name).iterdir()]
    ['a.txt']
    """
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~current_umask())  # mkstemp's is readable by its owner alone
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text whole, in UTF-8; what that cannot hold becomes a question mark."""
    write_whole(path, lambda file: file.write(text.encode("utf-8", "replace")))


def current_umask() -> int:
    """Read the umask, which can be read only by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask

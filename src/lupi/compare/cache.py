"""The folder of a long comparison: what it is a comparison of, and every run that has finished."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lupi._internal.files import write_atomic

ABOUT, RUNS = "comparison.json", "runs"
WRITTEN = ("results.json", "results.csv", "summary.csv", "report.html", "report.md")
"""What else a comparison writes into its folder."""


def open_folder(folder: Path, about: Mapping[str, Any], *, overwrite: bool = False) -> None:
    """Make the folder of a comparison, or go on in one of the same data and options.

    Parameters
    ----------
    folder : Path
        The folder.
    about : mapping
        Everything that the results depend on, as JSON can hold it.
    overwrite : bool
        Whether a comparison of something else that is there is removed first.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     open_folder(Path(name), {"seeds": 5})
    ...     open_folder(Path(name), {"seeds": 5})  # goes on
    ...     open_folder(Path(name), {"seeds": 9})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileExistsError: Expected `--output` to be new or of the same comparison, but ... seeds 5, now 9: ...
    """
    about = json.loads(json.dumps(about))
    path = folder / ABOUT
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"Expected `--output` to be a folder, but {folder} is a file.")
    if folder.is_dir() and any(folder.iterdir()) and not path.exists():
        raise FileExistsError(f"Expected `--output` to be new or a comparison, but {folder} is something else.")
    if path.exists():
        before = json.loads(path.read_text())
        if before == about and not overwrite:
            return
        if not overwrite:
            names = [name for name in {**before, **about} if before.get(name) != about.get(name)]
            changed = "; ".join(f"{name} {spelled(before.get(name))}, now {spelled(about.get(name))}" for name in names)
            raise FileExistsError(
                f"Expected `--output` to be new or of the same comparison, but {folder} has {changed}: "
                "`--overwrite` begins again."
            )
        figures = folder.glob(f"{before['experiment']}-*.svg") if "experiment" in before else ()
        for old in [*(folder / name for name in WRITTEN), *figures, *(folder / RUNS).glob("*.npz")]:
            old.unlink(missing_ok=True)
    (folder / RUNS).mkdir(parents=True, exist_ok=True)
    write_atomic(path, lambda file: file.write((json.dumps(about, indent=2) + "\n").encode()))


def spelled(value: Any) -> str:
    """Write an option for a message; a long one is cut."""
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "…"


def keep(path: Path, arrays: Mapping[str, Any]) -> None:
    """Keep the results of runs that finished."""
    write_atomic(path, lambda file: np.savez(file, **arrays))


def kept(path: Path) -> dict[str, NDArray[Any]] | None:
    """Read what `keep` wrote; None where there is nothing that can be read.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     keep(Path(name, "a.npz"), {"nll": np.array([0.5])})
    ...     kept(Path(name, "a.npz")), kept(Path(name, "b.npz"))
    ({'nll': array([0.5])}, None)
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None

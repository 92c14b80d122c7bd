"""Keep finished runs in a folder, so that an interrupted comparison can be resumed."""

import json
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lupi._internal.files import check_output, explain_os_errors, write_atomic, write_text

ABOUT, RUNS = "comparison.json", "runs"
RESULTS = ("results.json", "results.csv", "summary.csv", "report.html", "report.md")
"""Other files that comparisons and experiments write into the folder."""


def open_run_folder(folder: Path, about: Mapping[str, Any], *, overwrite: bool = False) -> None:
    """Create the folder of a comparison, or resume one of the same data and options.

    Parameters
    ----------
    folder : Path
        The folder.
    about : mapping
        Everything that the results depend on, in types that JSON can hold.
    overwrite : bool
        Whether to remove the results of a comparison that is already there.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     open_run_folder(Path(name), {"seeds": 5})
    ...     open_run_folder(Path(name), {"seeds": 5})  # resumes
    ...     open_run_folder(Path(name), {"seeds": 9})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileExistsError: Expected `output` to be new or of the same comparison, but ... has seeds 5, not 9; ...
    """
    about = json.loads(json.dumps(about))
    path = folder / ABOUT
    check_output(folder, overwrite=True, folder=True, ours=lambda _: path.exists(), kind="comparison")
    if path.exists():
        old = json.loads(path.read_text())
        if overwrite:
            _remove_results(folder, old)
        elif old == about:
            return
        else:
            names = [name for name in {**old, **about} if old.get(name) != about.get(name)]
            changed = ", ".join(f"{name} {_format(old.get(name))}, not {_format(about.get(name))}" for name in names)
            raise FileExistsError(
                f"Expected `output` to be new or of the same comparison, but {folder} has {changed}; "
                "pass `overwrite=True` to start again."
            )
    with explain_os_errors(folder):
        (folder / RUNS).mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(about, indent=2) + "\n")


def _format(value: Any) -> str:
    """Format an option for a message, shortened to 40 characters."""
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "…"


def _remove_results(folder: Path, about: Mapping[str, Any]) -> None:
    """Remove what a comparison or an experiment wrote, and nothing else."""
    figures = folder.glob(f"{about['experiment']}-*.svg") if "experiment" in about else ()
    runs = (path for path in (folder / RUNS).glob("*") if path.suffix in (".npz", ".pt"))
    for old in [*(folder / name for name in RESULTS), *figures, *runs]:
        old.unlink(missing_ok=True)


def run_path(folder: Path, arm: str, seed: int) -> Path:
    """Return the file of a run.

    Examples
    --------
    >>> run_path(Path("folder"), "tram [PI zeros]", 3).as_posix()
    'folder/runs/tram-PI-zeros-3.npz'
    """
    return folder / RUNS / f"{re.sub(r'[^A-Za-z0-9.]+', '-', arm).strip('-')}-{seed}.npz"


def save_run(folder: Path, arm: str, seed: int, values: Mapping[str, Any]) -> None:
    """Save the scores and arrays of a finished run."""
    write_atomic(run_path(folder, arm, seed), lambda file: np.savez(file, **values))


def load_run(folder: Path, arm: str, seed: int) -> dict[str, NDArray[Any]] | None:
    """Load what `save_run` saved; None if the file is missing or damaged.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     open_run_folder(Path(name), {})
    ...     save_run(Path(name), "tram", 0, {"nll": np.array([0.5])})
    ...     load_run(Path(name), "tram", 0), load_run(Path(name), "tram", 1)
    ({'nll': array([0.5])}, None)
    """
    try:
        with run_path(folder, arm, seed).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None

"""Save finished runs in a folder, so that an interrupted comparison can be resumed."""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lupi._internal.files import (
    claim_output,
    explain_os_errors,
    read_object,
    replace_folder,
    write_atomic,
    write_text,
)

ABOUT, RUNS = "comparison.json", "runs"
RESULTS = ("results.json", "results.csv", "summary.csv", "report.html", "report.md")
"""Other files that comparisons and experiments write into the folder."""
DIGEST = "comparison"
"""Name of the array with the digest of the comparison that a run belongs to."""


@dataclass(frozen=True)
class RunFolder:
    """A folder of finished runs.

    Parameters
    ----------
    path : Path
        The folder.
    about : mapping
        Everything that a run depends on, except its method and seed. Runs saved with other facts are not loaded.
    """

    path: Path
    about: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """A hash of everything that a run depends on, except its method, seed and group."""
        return hashlib.sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()

    def file(self, arm: str, seed: int, group: Sequence[int] | None = None) -> Path:
        """Return the file of a run; `group` is the range of seeds trained together, if the result depends on it."""
        of = "" if group is None else f"-of-{group[0]}-{group[-1]}"
        return self.path / RUNS / f"{re.sub(r'[^A-Za-z0-9.]+', '-', arm).strip('-')}-{seed}{of}.npz"

    def save(self, arm: str, seed: int, values: Mapping[str, Any], group: Sequence[int] | None = None) -> None:
        """Save the scores and arrays of a finished run; `group` as for `file`."""
        with explain_os_errors(self.path):
            arrays: dict[str, Any] = {**values, DIGEST: self.digest}
            write_atomic(self.file(arm, seed, group), lambda file: np.savez(file, **arrays))

    def load(self, arm: str, seed: int, group: Sequence[int] | None = None) -> dict[str, NDArray[Any]] | None:
        """Load a run; return None if the file is missing, damaged or from another comparison; `group` as for `file`."""
        try:
            with self.file(arm, seed, group).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                values = {name: arrays[name] for name in arrays.files}
        except Exception:  # numpy and zipfile raise many kinds of errors for damaged files
            return None
        return values if str(values.pop(DIGEST, "")) == self.digest else None


@contextmanager
def open_run_folder(
    folder: Path, about: Mapping[str, Any], *, same_runs: Collection[str] = (), overwrite: bool = False
) -> Iterator[RunFolder]:
    """Create the folder of a comparison, or resume one with the same data and options, and lock it for writing.

    Parameters
    ----------
    folder : Path
        The folder. Files in it that no comparison wrote are kept.
    about : mapping
        Everything that the runs depend on; JSON holds it.
    same_runs : collection of str
        Names in `about` that do not change the result of a run.
    overwrite : bool
        Whether to start again if the folder holds another comparison, or the same one.
    """
    new = json.loads(json.dumps(about))
    runs = RunFolder(folder, drop_names(new, same_runs))
    path = folder / ABOUT
    with claim_output(folder, overwrite=True, folder=True, ours=lambda _: path.exists(), kind="comparison"):
        old = read_object(path) if path.exists() else None
        kept = drop_names(old or {}, same_runs)
        if old is not None and kept != runs.about and not overwrite:
            raise FileExistsError(
                f"Expected `output` to be new or of the same comparison, but {folder} has "
                f"{describe_changes(kept, runs.about) if old else f'a damaged {ABOUT}'}; "
                "pass `overwrite=True` to start again."
            )
        if old is None or kept != runs.about or overwrite:
            with explain_os_errors(folder), replace_folder(folder, drop=list_results(folder, old or {})) as partial:
                (partial / RUNS).mkdir(exist_ok=True)
                for run in (partial / RUNS).glob("*"):
                    if run.suffix in (".npz", ".pt"):
                        run.unlink()
                write_text(partial / ABOUT, json.dumps(new, indent=2) + "\n")
        elif old != new:  # the results in the folder stay until those of all runs replace them
            with explain_os_errors(folder):
                write_text(path, json.dumps(new, indent=2) + "\n")
        yield runs


def drop_names(about: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return the facts about a comparison without some of them."""
    return {name: value for name, value in about.items() if name not in names}


def describe_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Describe the options in which two comparisons differ."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"{name} {_format(old.get(name))}, not {_format(new.get(name))}" for name in names)


def _format(value: Any) -> str:
    """Format an option for a message, shortened to 40 characters."""
    text = "none" if value is None else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "…"


def list_results(folder: Path, about: Mapping[str, Any]) -> list[str]:
    """List the files that a comparison or an experiment wrote, except for its runs."""
    figures = [path.name for path in folder.glob("*.svg") if path.name.startswith(f"{about.get('experiment')}-")]
    return [*RESULTS, *figures]

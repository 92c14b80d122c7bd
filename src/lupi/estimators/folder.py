"""The model folder: weights as safetensors, facts as JSON, fitted encoders as skops. Reading it runs no code from it.

`model.json` names the format's version and holds the SHA-256 of the other files and of itself, so that a file that
was cut short or changed is found before it is used.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import skops.io
import torch
from torch import Tensor

from lupi.tabular import encoding, text

FORMAT = 1
FACTS, WEIGHTS, ENCODERS = "model.json", "weights.safetensors", "encoders.skops"
TRUSTED = (*encoding.TRUSTED, *text.TRUSTED)


class Stored(NamedTuple):
    """What a model folder holds."""

    facts: dict[str, Any]
    weights: dict[str, Tensor]
    encoders: dict[str, Any]


def write(path: str | Path, stored: Stored, notes: Mapping[str, str] | None = None) -> None:
    """Write a model folder under another name and move it into place.

    A model that is there already is replaced, with its notes; other files in its folder are kept.

    Parameters
    ----------
    path : str or Path
        The folder.
    stored : Stored
        The model.
    notes : mapping, optional
        Names and texts of files for people, such as a model card.

    Examples
    --------
    >>> import torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder, "model"), Stored({"method": "tram"}, {"w": torch.ones(2)}, {}))
    ...     read(Path(folder, "model")).weights
    {'w': tensor([1., 1.])}
    """
    path = Path(path).resolve()  # of a link, replace what it points to
    notes = dict(notes or {})
    if path.exists() and not replaceable(path):
        raise FileExistsError(f"Expected {path} to be a new folder or a model to replace, but something else is there.")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=path.name + ".", dir=path.parent))
    try:
        # Cloned, since safetensors refuses weights that share memory, as tied ones do.
        weights = {
            name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
            for name, tensor in stored.weights.items()
        }
        # By Python, so that a full disk is an OSError; safetensors has an error of its own.
        (partial / WEIGHTS).write_bytes(safetensors.torch.save(weights))
        skops.io.dump(stored.encoders, partial / ENCODERS)
        digests = {name: digest((partial / name).read_bytes()) for name in (WEIGHTS, ENCODERS)}
        facts = {"format": FORMAT, **stored.facts, **({"notes": sorted(notes)} if notes else {}), "sha256": digests}
        facts["sha256"][FACTS] = digest(canonical(facts))
        (partial / FACTS).write_text(json.dumps(facts, indent=2, default=plain) + "\n")
        for name, content in notes.items():
            (partial / name).write_text(content)
        partial.chmod(0o755)  # a temporary folder is for its owner alone
        if path.exists():
            ours = {FACTS, WEIGHTS, ENCODERS, *notes, *notes_of(path)}
            shutil.copytree(
                path, partial, ignore=lambda folder, _: ours if Path(folder) == path else (), dirs_exist_ok=True
            )
            old = partial.with_name(partial.name + ".old")
            path.rename(old)
            try:
                partial.rename(path)
            except BaseException:
                old.rename(path)
                raise
            shutil.rmtree(old, ignore_errors=True)
        else:
            partial.rename(path)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replaceable(path: Path) -> bool:
    """Tell whether a path is an empty folder or one of ours."""
    if not path.is_dir():
        return False
    if not any(path.iterdir()):
        return True
    try:
        return {"format", "sha256"} <= set(json.loads((path / FACTS).read_text()))
    except (OSError, ValueError, TypeError):
        return False


def notes_of(path: Path) -> list[str]:
    """Names of the notes in a model folder, which speak of that model and go with it."""
    try:
        return [str(name) for name in json.loads((path / FACTS).read_text()).get("notes", [])]
    except FileNotFoundError:  # an empty folder
        return []


def read(path: str | Path) -> Stored:
    """Read a model folder and check that it is whole."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected {path} to be a model folder, but there is none.")
    if not (path / FACTS).is_file():
        raise FileNotFoundError(f"Expected {path} to be a model folder, but it has no {FACTS}.")
    try:
        facts = json.loads((path / FACTS).read_text())
        version, digests = facts["format"], facts["sha256"]
        expected = digests.pop(FACTS)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"Expected {path / FACTS} to describe a model, but it is truncated or not JSON.") from error
    if version != FORMAT:
        raise ValueError(f"Expected {path} to be in format {FORMAT}, but it is in format {version}: upgrade lupi.")
    if expected != digest(canonical(facts)):
        raise ValueError(f"Expected {path / FACTS} as it was written, but it was changed.")
    for name in (WEIGHTS, ENCODERS):
        file = path / name
        if not file.is_file():
            raise FileNotFoundError(f"Expected {path} to be a model folder, but it has no {name}.")
        if digest(file.read_bytes()) != digests.get(name):
            raise ValueError(f"Expected {file} as it was written, but it is truncated or was changed.")
    try:
        weights = safetensors.torch.load_file(path / WEIGHTS)
        encoders = skops.io.load(path / ENCODERS, trusted=list(TRUSTED))
    except Exception as error:  # whatever the two readers raise on what `write` did not write
        raise ValueError(f"Expected {path} to hold a model of lupi, but got: {error}") from error
    return Stored(facts, weights, encoders)


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def canonical(facts: dict[str, Any]) -> bytes:
    """The facts in one fixed spelling."""
    return json.dumps(facts, sort_keys=True, default=plain).encode()


def plain(value: Any) -> Any:
    """Turn a number or an array of numpy into Python's own."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"Expected parameters that JSON can hold, but got {value!r}.")

"""The model folder: weights as safetensors, facts and encoders as JSON. Reading a folder runs no code from it.

`model.json` holds the format number and the SHA-256 of every file, itself included, so that a truncated or changed
file is found before it is used.

In the JSON of encoders, an object is ``{"class": name, "state": attributes}``, a dict ``{"dict": items}``, and an array
``{"array": number}``, its place among the arrays, or ``{"array": values, "dtype": name}``; other values are themselves.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from lupi._internal.files import current_folder, is_blank, read_object, replace_folder
from lupi._internal.json_types import check_attributes
from lupi.estimators import targets
from lupi.tabular.encoding import TableEncoder
from lupi.tabular.images import PixelEncoder, VisionEncoder
from lupi.tabular.kinds import ENCODINGS, KINDS
from lupi.tabular.text_encoders import TfidfEncoder, TransformerEncoder

FORMAT = 5
ATTEMPTS = 50
"""Number of attempts to read a model that is being replaced."""
FACTS, WEIGHTS, ENCODERS = "model.json", "weights.safetensors", "encoders.json"
ARRAY = "encoders/{}"
"""Name of an array of the encoders among the weights."""
STORED: dict[str, Any] = {
    one.__name__: one  # type: ignore[attr-defined]
    for one in (
        TableEncoder,
        *KINDS.values(),
        *ENCODINGS,
        TfidfEncoder,
        TransformerEncoder,
        PixelEncoder,
        VisionEncoder,
        targets.Classes,
        targets.SoftClasses,
        targets.SeveralLabels,
        targets.Numbers,
    )
}
"""Classes of lupi that a model folder may hold, by name."""
BINARY = ("float32", "float64", "int64")
"""Types of arrays that are stored as they are; others are short lists, such as names of classes."""
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
LISTED = ("object", "str", "bool", "float16", "float32", "float64", *INTEGERS)


class StoredModel(NamedTuple):
    """The contents of a model folder."""

    facts: dict[str, Any]
    weights: dict[str, Tensor]
    encoders: dict[str, Any]


def save_model_folder(path: str | Path, model: StoredModel, notes: Mapping[str, str] | None = None) -> None:
    """Write a model folder in one step.

    An existing model is replaced together with its notes; other files in its folder are kept. A link is followed.
    """
    try:
        path, notes = Path(path).resolve(), dict(notes or {})
    except (RuntimeError, OSError) as error:  # the first before Python 3.13
        what = "to be a new folder or a model to replace, but it is a loop of links"
        raise OSError(f"Expected {path} {what}.") from error
    if path.exists() and not is_replaceable(path):
        raise FileExistsError(f"Expected {path} to be a new folder or a model to replace, but it is something else.")
    # Clone the weights, since safetensors refuses tensors that share memory, as tied weights do.
    weights = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.weights.items()}
    arrays: list[Any] = []
    encoders = json.dumps(store_value(model.encoders, arrays)).encode()
    weights |= {ARRAY.format(i): torch.from_numpy(np.ascontiguousarray(array)) for i, array in enumerate(arrays)}
    files = {WEIGHTS: safetensors.torch.save(weights), ENCODERS: encoders}
    digests = {name: hash_bytes(content) for name, content in files.items()}
    facts = {"format": FORMAT, **model.facts, "notes": sorted(notes), "sha256": digests}
    digests[FACTS] = hash_bytes(encode_facts(facts))
    files[FACTS] = json.dumps(facts, indent=2, default=to_plain).encode() + b"\n"
    files |= {name: note.encode("utf-8", "replace") for name, note in notes.items()}
    with replace_folder(path, drop={*files, *list_notes(path)}) as partial:
        for name, content in files.items():
            (partial / name).write_bytes(content)


def list_notes(path: Path) -> list[str]:
    """Return the names of the files for readers in a model folder, if there is one."""
    notes = read_object(path / FACTS).get("notes")
    return [name for name in notes if isinstance(name, str)] if isinstance(notes, list) else []


def is_replaceable(path: Path) -> bool:
    """Return whether a path is a blank folder or a model folder."""
    return is_blank(path) or {"format", "sha256"} <= read_object(path / FACTS).keys()


def read_model_folder(path: str | Path) -> StoredModel:
    """Read a model folder, each file once, and check that it is complete and unchanged."""
    path, stored = read_snapshot(Path(path))
    try:
        facts = json.loads(stored[FACTS])
        version, digests = facts["format"], dict(facts["sha256"])
        del facts["sha256"][FACTS]  # the facts were hashed before their own hash was added
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"Expected {path / FACTS} to describe a model, but it is truncated or not JSON.") from error
    if version != FORMAT:
        older = isinstance(version, int) and version < FORMAT
        what = ", written by an earlier lupi: train and save the model again." if older else ": upgrade lupi."
        raise ValueError(f"Expected {path} to be in format {FORMAT}, but it is in format {version}{what}")
    contents = stored | {FACTS: encode_facts(facts)}
    for name, content in contents.items():
        if hash_bytes(content) != digests.get(name):
            raise ValueError(f"Expected {path / name} to be unchanged since it was written, but it differs.")
    try:
        weights = safetensors.torch.load(contents[WEIGHTS])
        names = [ARRAY.format(number) for number in range(len(weights)) if ARRAY.format(number) in weights]
        arrays = [weights.pop(name).numpy() for name in names]
        encoders = dict(restore_value(json.loads(contents[ENCODERS]), arrays))
    except Exception as error:  # the readers raise anything on content that `save_model_folder` did not write
        raise ValueError(f"Expected {path} to hold a model of lupi, but got: {error}") from error
    return StoredModel(facts, weights, encoders)


def read_snapshot(path: Path) -> tuple[Path, dict[str, bytes]]:
    """Return the contents of the files of one model, although another process may replace its folder meanwhile."""
    for attempt in range(ATTEMPTS):
        folder = current_folder(path)
        before = identify(folder)
        missing = next((name for name in (FACTS, WEIGHTS, ENCODERS) if not (folder / name).is_file()), None)
        with suppress(FileNotFoundError, NotADirectoryError):
            contents = {name: (folder / name).read_bytes() for name in (FACTS, WEIGHTS, ENCODERS)}
            if identify(folder) == before:
                return folder, contents
        if missing is not None and identify(folder) == before and attempt:
            what = "does not exist" if before is None else f"has no {missing}"
            raise FileNotFoundError(f"Expected {path} to be a model folder, but it {what}.")
    raise OSError(f"Expected {path} to be a model that can be read, but it is replaced again and again.")


def identify(folder: Path) -> tuple[int, int] | None:
    """Return what tells a folder from one that replaces it; None if there is none."""
    try:
        status = folder.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def hash_bytes(content: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def encode_facts(facts: dict[str, Any]) -> bytes:
    """Return the facts as JSON in a form that does not depend on their order."""
    return json.dumps(facts, sort_keys=True, default=to_plain).encode()


def to_plain(value: Any) -> Any:
    """Convert numpy numbers and arrays for JSON."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"Expected parameters that JSON can hold, but got {value!r}.")


# -------------------------------------------------------------------------------- objects as JSON


def store_value(value: Any, arrays: list[NDArray[Any]]) -> Any:
    """Return a value as JSON, and append its arrays to `arrays`; raise a `TypeError` if it cannot be stored."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list):
        return [store_value(one, arrays) for one in value]
    if isinstance(value, Mapping):
        return {"dict": {str(name): store_value(one, arrays) for name, one in value.items()}}
    if isinstance(value, np.ndarray):
        name = "str" if value.dtype.kind == "U" else value.dtype.name
        if name in BINARY:
            arrays.append(value)
            return {"array": len(arrays) - 1}
        if name in LISTED:
            return {"array": store_value(value.tolist(), arrays), "dtype": name}
    if type(value) in STORED.values():
        state = value.__getstate__() or {}
        return {"class": type(value).__name__, "state": {name: store_value(one, arrays) for name, one in state.items()}}
    raise TypeError(f"Expected values that a model folder can hold, but got {value!r}.")


def restore_value(value: Any, arrays: Sequence[NDArray[Any]]) -> Any:
    """Return what `store_value` was given; raise an error if the JSON is something else."""
    if isinstance(value, list):
        return [restore_value(one, arrays) for one in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"dict": dict(items)}:
            return {name: restore_value(one, arrays) for name, one in items.items()}
        case {"array": int(number)}:
            return arrays[number]
        case {"array": list(values), "dtype": str(name)} if name in LISTED:
            return np.array(values, dtype=np.dtype(name))
        case {"class": str(name), "state": dict(state)} if name in STORED:
            instance = STORED[name].__new__(STORED[name])
            attributes = {name: restore_value(one, arrays) for name, one in state.items()}
            check_attributes(STORED[name], attributes)
            getattr(instance, "__setstate__", vars(instance).update)(attributes)
            return instance
    raise ValueError(f"Expected objects of lupi, but got {str(value)[:60]!r}.")

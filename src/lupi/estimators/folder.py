"""The model folder: weights as safetensors, facts as JSON, encoders as skops. Reading a folder runs no code from it.

`model.json` holds the format number and the SHA-256 of every file, itself included, so that a truncated or changed
file is found before it is used.
"""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.torch
from torch import Tensor

from lupi._internal.files import current_folder, is_blank, replace_folder
from lupi.estimators import targets
from lupi.tabular.encoding import TableEncoder
from lupi.tabular.images import PixelEncoder, VisionEncoder
from lupi.tabular.kinds import ENCODINGS, KINDS
from lupi.tabular.text import TfidfEncoder, TransformerEncoder

FORMAT = 5
ATTEMPTS = 50
"""Number of attempts to read a model that is being replaced."""
FACTS, WEIGHTS, ENCODERS = "model.json", "weights.safetensors", "encoders.skops"
STORED: tuple[type, ...] = (
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
TRUSTED = tuple(f"{one.__module__}.{one.__qualname__}" for one in STORED)
"""Classes of lupi that a model folder may hold."""
SCHEMA = "schema.json"
NUMBERS = re.compile(r'(?<=[ {]"__id__": )\d+|(?<=[ {]"file": ")\d+')


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
    files = {WEIGHTS: safetensors.torch.save(weights), ENCODERS: dump_encoders(model.encoders)}
    digests = {name: hash_bytes(content) for name, content in files.items()}
    facts = {"format": FORMAT, **model.facts, "notes": sorted(notes), "sha256": digests}
    digests[FACTS] = hash_bytes(encode_facts(facts))
    files[FACTS] = json.dumps(facts, indent=2, default=to_plain).encode() + b"\n"
    files |= {name: note.encode("utf-8", "replace") for name, note in notes.items()}
    with replace_folder(path, drop={*files, *list_notes(path)}) as partial:
        for name, content in files.items():
            (partial / name).write_bytes(content)


def dump_encoders(encoders: dict[str, Any]) -> bytes:
    """Return encoders in the skops format.

    skops names objects by their addresses in memory. Here they are numbered in the order of the schema instead, and
    files have no date.
    """
    import skops.io  # slow to import, and training does not need it

    numbers: dict[str, str] = {}
    archive = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(encoders))) as source, zipfile.ZipFile(archive, "w") as target:
        schema = NUMBERS.sub(lambda id_: numbers.setdefault(id_[0], str(len(numbers))), source.read(SCHEMA).decode())
        members = {re.sub(r"^\d+", lambda id_: numbers[id_[0]], name): name for name in source.namelist()}
        for name in sorted(members):
            target.writestr(zipfile.ZipInfo(name), schema if name == SCHEMA else source.read(members[name]))
    return archive.getvalue()


def list_notes(path: Path) -> list[str]:
    """Return the names of the files for readers in a model folder, if there is one."""
    notes = json.loads((path / FACTS).read_bytes()).get("notes") if (path / FACTS).exists() else None
    return [name for name in notes if isinstance(name, str)] if isinstance(notes, list) else []


def is_replaceable(path: Path) -> bool:
    """Return whether a path is a blank folder or a model folder."""
    try:
        return is_blank(path) or {"format", "sha256"} <= set(json.loads((path / FACTS).read_bytes()))
    except (OSError, ValueError, TypeError):
        return False


def read_model_folder(path: str | Path) -> StoredModel:
    """Read a model folder, each file once, and check that it is complete and unchanged."""
    import skops.io

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
        check_archive(contents[ENCODERS])
        encoders = skops.io.loads(contents[ENCODERS], trusted=list(TRUSTED))
    except Exception as error:  # the readers raise anything on content that `save_model_folder` did not write
        raise ValueError(f"Expected {path} to hold a model of lupi, but got: {error}") from error
    return StoredModel(facts, weights, encoders)


def check_archive(content: bytes) -> None:
    """Raise a `ValueError` if reading a skops file could take much more memory than the size of the file.

    skops stores each array once, without compression. A file whose arrays are compressed, overlap or are used
    repeatedly may take any amount of memory.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in archive.infolist())
        if not stored or sum(sizes.values()) > len(content):
            raise ValueError("Expected encoders that are stored without compression, but they are compressed.")
        schema = json.loads(archive.read(SCHEMA))
        for name in sizes.keys() - {SCHEMA}:
            if not archive.read(name).startswith(b"\x93NUMPY"):
                raise ValueError(f"Expected encoders to consist of arrays, but {name} is something else.")
    used, open_nodes = 0, [schema]
    while open_nodes:
        node = open_nodes.pop()
        children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        open_nodes += [child for child in children if isinstance(child, dict | list)]
        used += sizes.get(str(node["file"]), 0) if isinstance(node, dict) and "file" in node else 0
    if used > len(content):
        raise ValueError("Expected encoders that use each array once, but they use some again and again.")


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

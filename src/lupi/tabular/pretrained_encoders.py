"""Pretrained encoders, with embeddings that are cached on disk."""

import hashlib
import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from lupi._internal.checks import import_extra
from lupi._internal.devices import pick_device
from lupi._internal.inputs import Inputs, map_inputs
from lupi._internal.pretrained import pretrained
from lupi._internal.progress import Steps
from lupi._internal.sanitizing import one_line

AT_ONCE = 32
"""Number of values to embed together."""


class PretrainedEncoder(ABC):
    """Embed values with a pretrained model, and cache the embeddings by model and content.

    The cache is in the folder ``lupi`` of ``$XDG_CACHE_HOME`` or ``~/.cache``.
    """

    learns: ClassVar[bool] = False
    """Whether `fit` learns from the values."""
    unit: ClassVar[str]
    """What is encoded, "text" or "image"."""
    trunk: ClassVar[type[nn.Module]]
    """The class of trunks that take such values."""
    extra: ClassVar[str]
    """The extra that installs what loads them."""

    name: str
    version_: str

    def __init__(self, name: str, device: str = "auto") -> None:
        self.name, self.device = name, device

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("device", "_parts")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, device="auto")

    @abstractmethod
    def _load_more(self, trunk: Any) -> tuple[Any, *tuple[str, ...]]:
        """Load what the trunk needs to embed values, followed by texts that its version depends on."""

    @abstractmethod
    def _embed(self, values: list[str]) -> NDArray[np.float32]:
        """Return the embeddings of a few values."""

    def _content(self, value: str) -> bytes:
        """Return the content that an embedding depends on."""
        return value.encode()

    def fit(self, values: Sequence[str]) -> Self:  # noqa: ARG002  the signature of encoders that learn
        """Determine the version of the model; nothing is learned."""
        self.version_ = self._load()[2]
        return self

    def transform(self, values: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features per value; only embeddings that are not cached are computed."""
        keys = [hashlib.sha256(f"{self.version_}\0".encode() + self._content(value)).digest() for value in values]
        connection = sqlite3.connect(cache_folder() / "embeddings.sqlite", timeout=60)
        try:
            connection.execute("CREATE TABLE IF NOT EXISTS embeddings (key BLOB PRIMARY KEY, value BLOB)")
            query = "SELECT value FROM embeddings WHERE key = ?"
            found = {key: row[0] for key in set(keys) if (row := connection.execute(query, (key,)).fetchone())}
            new = {key: value for key, value in zip(keys, values, strict=True) if key not in found}
            # Texts of similar length share a batch, so that little padding is needed.
            order = sorted(new, key=lambda key: len(new[key]))
            with Steps("embed", len(new), show=bool(new)) as steps:
                for start in range(0, len(order), AT_ONCE):
                    part = order[start : start + AT_ONCE]
                    rows = self._embed([new[key] for key in part])
                    embedded = {key: row.tobytes() for key, row in zip(part, rows, strict=True)}
                    connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", embedded.items())
                    connection.commit()  # finished batches survive an interruption
                    found |= embedded
                    steps.advance(len(part), f"{self.unit}s")
        except sqlite3.Error as error:
            raise OSError(f"Expected {cache_folder()} to hold a cache of embeddings, but got: {error}.") from error
        finally:
            connection.close()
        return np.stack([np.frombuffer(found[key], dtype=np.float32) for key in keys])

    def _apply(self, trunk: nn.Module, x: Inputs) -> NDArray[np.float32]:
        """Return the features of inputs, L2-normalized."""
        with torch.no_grad():
            features = trunk(map_inputs(lambda values: values.to(pick_device(self.device)), x))
        rows: NDArray[np.float32] = F.normalize(features, dim=1).float().cpu().numpy()
        return rows

    def _load(self) -> tuple[Any, Any, str]:
        """Load the trunk, what it needs, and the version of the model, once."""
        if "_parts" not in vars(self):
            import_extra("transformers", self.extra)
            try:
                trunk = pretrained(self.name)
                if not isinstance(trunk, self.trunk):
                    raise ValueError(f"it takes no {self.unit}s")
                more, *facts = self._load_more(trunk)
            except (OSError, ValueError) as error:
                what = f"Expected `{self.unit}_encoder` to be a pretrained {self.unit} model, but got {self.name!r}"
                raise ValueError(f"{what}: {one_line(error)}") from error
            self._parts = trunk.to(pick_device(self.device)), more, self._find_version(trunk, *facts)
        return self._parts

    def _load_trained(self) -> tuple[Any, Any]:
        """Return the trunk and what it needs; a model that has changed since training is refused, a folder unloaded."""
        folder = Path(self.name)
        if folder.is_dir():
            self._check_version(hash_folder(folder))
        trunk, more, version = self._load()
        self._check_version(version)
        return trunk, more

    def _check_version(self, version: str) -> None:
        """Raise a `ValueError` unless the model has the version that it had in training."""
        if version != self.version_:
            raise ValueError(
                f"Expected {self.unit} encoder {self.name} to be unchanged since training, but its files differ."
            )

    def _find_version(self, model: nn.Module, *more: str) -> str:
        """Return the hash of a model's folder or, since a name may get other weights, of its weights and more texts."""
        folder = Path(self.name)
        if folder.is_dir():
            return hash_folder(folder)
        total = hashlib.sha256("\n".join([self.name, repr(model), *more]).encode())
        for name, weights in model.state_dict().items():
            total.update(f"\n{name} {weights.dtype} {tuple(weights.shape)}\n".encode())
            total.update(weights.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return total.hexdigest()


def resolve_folder(name: str) -> str:
    """Make the path of a folder absolute, since a model may be used from another working directory."""
    return str(Path(name).resolve()) if Path(name).is_dir() else name


def cache_folder() -> Path:
    """Return the folder of the cache, and create it if necessary."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lupi"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def hash_folder(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all files in a folder."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        with path.open("rb") as file:
            total.update(f"{path.relative_to(folder)}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()

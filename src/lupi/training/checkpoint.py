"""The state of a training on disk: where an interrupted run goes on from."""

from __future__ import annotations

import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lupi._internal.checks import check_integer
from lupi.data import Annotations
from lupi.methods.base import Method
from lupi.training.replicas import StackedAnnotations
from lupi.training.settings import Settings


@dataclass(frozen=True)
class Checkpoint:
    """Where to keep the state of a training, and after how many steps to write it; written whole or not at all.

    It is written at the end of every stage too.
    """

    path: str | Path
    every: int = 1000

    def __post_init__(self) -> None:
        check_integer("every", self.every, 1)

    def read(self, run: dict[str, Any]) -> dict[str, Any] | None:
        """Read the state of an interrupted run, which must be the same run."""
        path = Path(self.path)
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
            saved = dict(state["run"])
        except Exception as error:  # whatever torch raises on what `write` did not write
            raise ValueError(f"Expected {path} to be a checkpoint of a training, but it cannot be read.") from error
        for name, value in run.items():
            if saved.get(name) != value:
                raise ValueError(
                    f"Expected {path} to be a checkpoint of this run, but its `{name}` is "
                    f"{saved.get(name)!r} and not {value!r}; remove it to start anew."
                )
        return state

    def write(self, state: dict[str, Any]) -> None:
        """Write the state under another name, and move it into place."""
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        with partial.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


def describe(
    method: Method,
    data: Annotations | StackedAnnotations,
    validation: Annotations | StackedAnnotations | None,
    settings: Settings,
    seed: int | list[int],
) -> dict[str, Any]:
    """Tell a run from any other, whose checkpoint it must not go on from."""
    return {
        "method": type(method).__name__,
        "checksum of the network and its options": zlib.crc32(spelled_out(method).encode()),
        "seed": seed,
        **asdict(settings),
        "annotations": len(data),
        "checksum of the data": checksum(data),
        "checksum of the validation": None if validation is None else checksum(validation),
    }


def spelled_out(method: Method) -> str:
    """Every layer of a method, and every number and word among the attributes of its modules."""
    options = [
        f"{path}.{name}={value!r}"
        for path, module in method.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, int | float | str) and name != "training" and not name.startswith("_")
    ]
    return "\n".join([repr(method), *options])


def checksum(data: Annotations | StackedAnnotations) -> int:
    """Checksum of what lies in memory of a data set."""
    if isinstance(data, StackedAnnotations):
        return zlib.crc32(repr([checksum(part) for part in data.parts]).encode())
    a = (data.a,) if isinstance(data.a, Tensor) else (data.a.index, data.a.value)
    result = 0
    for part in (data.x, data.row, *a, data.y):
        if isinstance(part, Tensor):
            result = zlib.crc32(part.cpu().contiguous().flatten().view(torch.uint8).numpy().data, result)
    return result

"""Checkpoints, from which an interrupted run can be resumed."""

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lupi._internal.checks import check_integer, check_number
from lupi._internal.files import write_atomic
from lupi._internal.sparse_rows import CodedRows
from lupi.methods.base import Method
from lupi.nn.inference import device_of
from lupi.settings import Settings
from lupi.training.loop import StageLoop, Training
from lupi.training.optimizer import describe_optimizer
from lupi.training.replicas import Data


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save the state of training. It is also saved at the end of every stage.

    A run can be extended: with more `epochs`, training continues from the checkpoint as if `epochs` had had this value
    from the start. This is not possible if the schedule depends on the number of epochs ("cosine"), or if the method
    trains in stages and the first has ended. A run that stopped early is not continued.

    Parameters
    ----------
    path : str or Path
        The file, which is replaced atomically.
    every : int
        Number of steps between two saves.
    seconds : float
        Minimum number of seconds between two saves, and before the first one, so that short runs save nothing. It must
        be 0 if several processes train together, since they save at the same step.
    """

    path: str | Path
    every: int = 1000
    seconds: float = 0.0

    def __post_init__(self) -> None:
        check_integer("every", self.every, 1)
        check_number("seconds", self.seconds)

    def is_due(self, step: int, *, last: bool, since: float) -> bool:
        """Return whether to save after a step, `since` seconds after the last save; `last` marks the end of a stage.

        Examples
        --------
        >>> [Checkpoint("state.pt", every=10, seconds=60).is_due(step, last=False, since=70) for step in (10, 11)]
        [True, False]
        """
        return (last or step % self.every == 0) and since >= self.seconds

    def read(self, run: dict[str, Any]) -> dict[str, Any] | None:
        """Read the state and check that it belongs to the same run; return None if there is no file."""
        path = Path(self.path)
        if not path.exists():
            return None
        try:
            state: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
            saved = dict(state["run"])
        except Exception as error:  # torch raises many kinds for files of another origin
            raise ValueError(f"Expected {path} to be a checkpoint, but it cannot be read.") from error
        for name, value in run.items():
            if name == "epochs" and isinstance(saved.get(name), int) and saved[name] < value:
                self.check_extension(state, saved[name], value)
            elif saved.get(name) != value:
                raise ValueError(
                    f"Expected {path} to be a checkpoint of this run, but its `{name}` is "
                    f"{saved.get(name)!r}, not {value!r}; remove it to start again."
                )
        return state

    def check_extension(self, state: dict[str, Any], before: int, epochs: int) -> None:
        """Raise an error if a run with more epochs would not have reached this state."""
        reason = "the first stage of the method has ended" if state["stage"] > 0 else None
        if state["schedule"] == "cosine":
            reason = "the schedule 'cosine' depends on them"
        if reason is not None:
            raise ValueError(f"Expected `epochs` to be {before}, as in {self.path}, since {reason}, but got {epochs}.")

    def write(self, state: dict[str, Any]) -> None:
        """Save the state."""
        path = Path(self.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, lambda file: torch.save(state, file))


class Saver:
    """Saves the state of a run whenever its checkpoint is due, or never without a checkpoint."""

    def __init__(self, checkpoint: Checkpoint | None, run: dict[str, Any], training: Training) -> None:
        self.checkpoint, self.run, self.training = checkpoint, run, training
        self.saved_at = time.monotonic()

    def save_if_due(self, step: int, loop: StageLoop, networks: Sequence[Method]) -> None:
        """Save the state after a step of a stage; `networks` are those of the stage that the method does not contain.

        Every process must call it.
        """
        since = time.monotonic() - self.saved_at
        if self.checkpoint is None or not self.checkpoint.is_due(step, last=loop.finished, since=since):
            return
        self.saved_at = time.monotonic()
        state = {
            "run": self.run,
            "method": self.training.method.state_dict(),
            "history": self.training.history,
            "memory": collect_memory(self.training.method),
            **loop.state(),
            "networks": [network.state_dict() for network in networks],
        }
        if loop.place.global_rank == 0:
            self.checkpoint.write(state)


def resume_stage(loop: StageLoop, networks: Sequence[Method], state: dict[str, Any]) -> None:
    """Resume a stage, and those of its networks that the method does not contain, from a saved state."""
    check_stage(state, loop.stage.name)
    for network, weights in zip(networks, state["networks"], strict=True):
        network.load_state_dict(weights)
    loop.resume(state)


def check_stage(state: dict[str, Any], name: str) -> None:
    """Check that a checkpoint is of this stage: another device may train networks in other stages, or together."""
    if state["stage_name"] != name:
        raise ValueError(
            f"Expected a checkpoint of the same stages, but stage {state['stage'] + 1} was {state['stage_name']!r} and "
            f"is now {name!r}: resume on the same kind of device."
        )


def list_memories(method: Method) -> list[tuple[str, dict[str, dict[str, Tensor]]]]:
    """List the memories of a method and of those that it contains, by path."""
    return [(path, module.memory) for path, module in method.named_modules() if isinstance(module, Method)]


def collect_memory(method: Method) -> dict[str, dict[str, dict[str, Tensor]]]:
    """Return copies of the memories, whose tensors are not copied."""
    return {path: {name: dict(kept) for name, kept in memory.items()} for path, memory in list_memories(method)}


def restore_memory(method: Method, saved: dict[str, dict[str, dict[str, Tensor]]]) -> None:
    """Restore what `collect_memory` returned."""
    device = device_of(method)
    for path, memory in list_memories(method):
        for name, kept in saved.get(path, {}).items():
            memory[name] = {key: value.to(device) for key, value in kept.items()}


def clear_memory(method: Method) -> None:
    """Clear the memories of a method and of those that it contains."""
    for _, memory in list_memories(method):
        memory.clear()


def describe_run(
    method: Method, data: Data, validation: Data | None, settings: Settings, seeds: list[int]
) -> dict[str, Any]:
    """Describe a run, to distinguish its checkpoint from those of other runs."""
    return {
        "method": type(method).__name__,
        "checksum of the network and its options": zlib.crc32(describe_network(method).encode()),
        "seed": seeds if method.is_stacked else seeds[0],
        **asdict(replace(settings, augment=None)),
        **dict.fromkeys(("workers", "compile", "cuda_graph")),  # they change nothing but speed
        "augment": None if settings.augment is None else describe_network(settings.augment),
        "optimizer": describe_optimizer(settings.optimizer),
        "annotations": len(data),
        "checksum of the data": compute_checksum(data),
        "checksum of the validation": None if validation is None else compute_checksum(validation),
    }


def describe_network(method: nn.Module) -> str:
    """List the layers of a module, and the numbers and strings among the attributes of its modules."""
    options = [
        f"{path}.{name}={value!r}"
        for path, module in method.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, int | float | str) and name != "training" and not name.startswith("_")
    ]
    return "\n".join([repr(method), *options])


def compute_checksum(data: Data) -> int:
    """Return a checksum of the tensors of a data set."""
    result = 0
    for part in data.parts:
        a = (part.a,) if isinstance(part.a, Tensor) else (part.a.index, part.a.value)
        x = list(part.x.values()) if isinstance(part.x, Mapping) else [part.x]
        x = [part.x.numbers, part.x.codes] if isinstance(part.x, CodedRows) else x
        for values in (*x, part.row, *a, part.y, part.annotator, part.weight, part.gold, part.trust):
            if isinstance(values, Tensor):
                result = zlib.crc32(values.cpu().contiguous().flatten().view(torch.uint8).numpy().data, result)
    return result

"""The one training loop: plain torch, or a Lightning Fabric for more than one device.

Every batch is a function of the seed, the stage, the epoch and the step, so that a run that was interrupted goes on
from its last checkpoint to the same result. With several processes all of them draw the same global batch and take
their share of it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lupi.checkpoint import Checkpoint, describe
from lupi.data import Annotations, Batch
from lupi.inference import evaluation
from lupi.methods.base import Method, Stage
from lupi.options import check_whole
from lupi.progress import Steps
from lupi.settings import Settings

__all__ = ["Checkpoint", "Epoch", "Settings", "StageLoop", "fit", "own_noise"]

Epoch = dict[str, str | int | float]
"""A row of the history: stage, epoch, learning rate, and every loss in training and on held-out annotations."""


class OneDevice:
    """What the loop needs of a Lightning Fabric, for one device and one process."""

    world_size = 1
    global_rank = 0

    def __init__(self, device: torch.device | str, precision: str) -> None:
        self.device = torch.device(device)
        self.precision = precision

    def setup(self, module: Method, optimizer: torch.optim.Optimizer) -> tuple[Any, torch.optim.Optimizer]:
        """Give back what is here already."""
        return module, optimizer

    def autocast(self) -> AbstractContextManager[Any]:
        """Compute in mixed precision where it is asked for."""
        if self.precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        loss.backward()  # type: ignore[no-untyped-call]

    def clip_gradients(self, module: nn.Module, optimizer: object, *, max_norm: float) -> None:  # noqa: ARG002
        """Shorten a long gradient."""
        nn.utils.clip_grad_norm_(module.parameters(), max_norm)

    def all_reduce(self, value: Tensor, *, reduce_op: str) -> Tensor:  # noqa: ARG002
        """Sum over one process."""
        return value

    def broadcast(self, value: dict[str, float]) -> dict[str, float]:
        """Take what the first process has."""
        return value


def fit(
    method: Method,
    data: Annotations,
    settings: Settings = Settings(),
    *,
    validation: Annotations | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    fabric: Any = None,
    checkpoint: Checkpoint | None = None,
    progress: bool = False,
) -> list[Epoch]:
    """Train a method, stage after stage, and return the history of its losses.

    Parameters
    ----------
    method : Method
        Trained in place; ends in evaluation mode.
    data : Annotations
        The training set.
    settings : Settings
        How to train; the same for every stage.
    validation : Annotations, optional
        Held-out annotations with their noisy labels, for the history and for `settings.patience`.
    seed : int
        Seed of the order of batches and of noise in training. The initial weights are the method's.
    device : torch.device or str
        Where to train without a Fabric.
    fabric : lightning.fabric.Fabric, optional
        For several devices, processes or machines: launched, every process calls `fit` with the same arguments.
    checkpoint : Checkpoint, optional
        Where to keep the state; where there is one already, training goes on from there.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    list of dict
        One row per epoch.

    Examples
    --------
    >>> from lupi.methods import NoPI
    >>> data = Annotations(torch.eye(4), torch.arange(4), torch.ones(4, 1), torch.tensor([0, 1, 0, 1]))
    >>> history = fit(NoPI(nn.Identity(), nn.Linear(4, 2)), data, Settings(epochs=2))
    >>> [sorted(row) for row in history][0]
    ['epoch', 'learning_rate', 'stage', 'train_marginal']
    """
    if settings.patience is not None and validation is None:
        raise ValueError("Expected `validation` where `patience` is given, but got None.")
    seed = check_whole("seed", seed, 0)
    for name, part in (("data", data), ("validation", validation)):
        if part is not None and len(part) == 0:
            raise ValueError(f"Expected `{name}` to have annotations, but it is empty.")
    place = OneDevice(device, settings.precision) if fabric is None else fabric
    method.to(place.device)
    run: dict[str, Any] = {}
    state: dict[str, Any] | None = None
    history: list[Epoch] = []
    if checkpoint is not None:
        run = describe(method, data, validation, settings, seed)
        state = checkpoint.read(run)
    if state is not None:
        method.load_state_dict(state["method"])
        history = state["history"]
    data = data.to(place.device)
    validation = None if validation is None else validation.to(place.device)
    with own_noise(seed + place.global_rank, place.device):
        for number, stage in enumerate(method.stages(data)):
            if state is not None and number < state["stage"]:
                continue  # trained before the interruption
            resumed, state = state, None
            loop = StageLoop(method, stage, number, data, validation, settings, place, seed)
            if resumed is not None:
                loop.resume(resumed)
            for step in loop.steps(history, progress and place.global_rank == 0):
                if checkpoint is not None and (step % checkpoint.every == 0 or loop.epoch == settings.epochs):
                    reached = {"run": run, **loop.state(history)}  # of all processes
                    if place.global_rank == 0:
                        checkpoint.write(reached)
    method.eval()
    return history


@contextmanager
def own_noise(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the generators of noise of this process, and put them back afterwards."""
    devices = [device] if device.type == "cuda" else []  # by default all of a machine's, which costs memory on each
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        for used in devices:
            with torch.cuda.device(used):
                torch.cuda.manual_seed(seed)
        yield


class StageLoop:
    """The training of one stage: its data, optimizer and place in time."""

    def __init__(
        self,
        whole: Method,
        stage: Stage,
        number: int,
        data: Annotations,
        validation: Annotations | None,
        settings: Settings,
        place: Any,
        seed: int,
    ) -> None:
        self.whole, self.stage, self.number = whole, stage, number
        self.settings, self.place, self.seed = settings, place, seed
        self.data = self.prepared(data)
        self.validation = None if validation is None else self.prepared(validation, held_out=True)
        stage.method.train()
        optimizer = settings.make_optimizer(stage.method)
        self.module, self.optimizer = place.setup(stage.method, optimizer)
        if not isinstance(place, OneDevice):
            self.module.mark_forward_method("losses")
        self.epoch = self.step = 0
        self.sums: dict[str, Tensor] = {}
        self.best, self.waited = math.inf, 0
        self.best_weights: dict[str, Tensor] | None = None

    def prepared(self, data: Annotations, *, held_out: bool = False) -> Annotations:
        """Make what the stage looks at; privileged information that its method does not use need not be drawn."""
        prepare = self.stage.hold_out if held_out and self.stage.hold_out is not None else self.stage.prepare
        data = prepare(data).to(self.place.device)
        return data if self.stage.method.uses_privileged else data.without_privileged()

    @property
    def units(self) -> Tensor:
        """What is drawn: annotations or annotated examples."""
        if self.settings.draw == "examples":
            return self.data.annotated
        return torch.arange(len(self.data), device=self.place.device)

    def steps(self, history: list[Epoch], progress: bool) -> Iterator[int]:
        """Train, and yield after every step."""
        epochs, units = self.settings.epochs, self.units
        per_epoch = math.ceil(units.shape[0] / self.settings.batch_size)
        done = self.epoch * per_epoch + self.step
        with Steps(self.stage.name, epochs * per_epoch, show=progress, done=done) as shown:
            while self.epoch < epochs:
                for index in self.batches(units)[self.step :]:
                    self.train_step(index, self.epoch + self.step / per_epoch)
                    self.step += 1
                    if self.step < per_epoch:
                        shown.advance(1, f"epoch {self.epoch + 1}/{epochs}")
                        yield self.epoch * per_epoch + self.step
                history.append(self.close_epoch())
                losses = ", ".join(f"{name} {value:.4f}" for name, value in list(history[-1].items())[3:])
                shown.advance(1, f"epoch {self.epoch}/{epochs} {losses}")
                if self.settings.patience is not None and self.waited >= self.settings.patience:
                    self.epoch = epochs
                if self.epoch == epochs and self.best_weights is not None:
                    self.stage.method.load_state_dict(self.best_weights)
                yield self.epoch * per_epoch

    def batches(self, units: Tensor) -> tuple[Tensor, ...]:
        """The batches of an epoch, in an order that follows from seed, stage and epoch."""
        entropy = np.random.SeedSequence((self.seed, self.number, self.epoch)).generate_state(1)
        order = torch.randperm(units.shape[0], generator=torch.Generator().manual_seed(int(entropy[0])))
        return torch.split(units[order.to(units.device)], self.settings.batch_size)

    def train_step(self, index: Tensor, epoch: float) -> None:
        """One step of the optimizer on the whole batch, of which this process computes its share."""
        if self.settings.warmup or self.settings.schedule != "constant":
            for group in self.optimizer.param_groups:
                group["lr"] = self.settings.learning_rate * self.settings.rate(epoch)
        batch, weight, count = self.share(index)
        with self.place.autocast():
            losses = self.module.losses(batch)
            loss = reduce(add, losses.values())
        self.optimizer.zero_grad()
        self.place.backward(loss if weight == 1 else weight * loss)
        if self.settings.clip is not None:
            self.place.clip_gradients(self.module, self.optimizer, max_norm=self.settings.clip)
        self.optimizer.step()
        for name, value in losses.items():
            if name not in self.sums:
                self.sums[name] = torch.zeros((), device=self.place.device)
            self.sums[name].add_(value.detach(), alpha=count)

    def share(self, index: Tensor) -> tuple[Batch, float, float]:
        """Draw what this process computes of a batch.

        With it come the factor that makes the mean gradient of all processes that of the batch, and the number of
        annotations that this process counts for.
        """
        by_example = self.settings.draw == "examples"
        draw = self.data.by_example if by_example else self.data.by_annotation
        world, rank = self.place.world_size, self.place.global_rank
        if world == 1 or index.shape[0] < world:  # too few for all: every process computes them all
            batch = draw(index)
            return batch, 1.0, batch.y.shape[0] / world
        total = int(self.data.count[index].sum()) if by_example else index.shape[0]
        batch = draw(torch.tensor_split(index, world)[rank])
        return batch, batch.y.shape[0] * world / total, batch.y.shape[0]

    def close_epoch(self) -> Epoch:
        """Write down the epoch's losses and look at the held-out annotations."""
        row: Epoch = {
            "stage": self.stage.name,
            "epoch": self.epoch + 1,
            "learning_rate": self.optimizer.param_groups[0]["lr"],
        }
        for name, total in self.sums_of_all().items():
            value = row[f"train_{name}"] = float(total) / len(self.data)
            if not math.isfinite(value):
                raise FloatingPointError(
                    f"Expected the {name} loss to be finite, but it is {value} in epoch {self.epoch + 1} of stage "
                    f"{self.stage.name!r}: a lower `learning_rate` or a `clip` may help."
                )
        if self.validation is not None:
            held_out = self.held_out_losses(self.validation)
            row |= {f"validation_{name}": value for name, value in held_out.items()}
            self.keep_best(held_out.get("marginal", sum(held_out.values())))
        self.epoch, self.step, self.sums = self.epoch + 1, 0, {}
        return row

    def sums_of_all(self) -> dict[str, Tensor]:
        """Sum of every loss over the annotations that all processes have seen in this epoch."""
        return {name: self.place.all_reduce(value.clone(), reduce_op="sum") for name, value in self.sums.items()}

    def held_out_losses(self, data: Annotations) -> dict[str, float]:
        """Mean of every loss over held-out annotations, as the first process sees it: all must stop together."""
        sums: dict[str, float] = {}
        with evaluation(self.stage.method), self.place.autocast():
            for part in torch.split(data.annotated, 1024):
                batch = data.by_example(part)
                for name, value in self.stage.method.losses(batch).items():
                    sums[name] = sums.get(name, 0.0) + float(value) * batch.y.shape[0]
        means = {name: value / len(data) for name, value in sums.items()}
        return self.place.broadcast(means)  # type: ignore[no-any-return]

    def keep_best(self, loss: float) -> None:
        """Keep the weights of the lowest held-out loss, where training may stop early."""
        if self.settings.patience is None:
            return
        self.waited += 1
        if loss < self.best:
            self.best, self.waited = loss, 0
            self.best_weights = copy.deepcopy(self.stage.method.state_dict())

    def state(self, history: list[Epoch]) -> dict[str, Any]:
        """Everything that the run needs to go on from here; every process calls it."""
        return {
            "method": self.whole.state_dict(),
            "history": history,
            "stage": self.number,
            "optimizer": self.optimizer.state_dict(),
            "random": self.random(),
            "sums": self.sums_of_all(),
            **{name: getattr(self, name) for name in ("epoch", "step", "best", "waited", "best_weights")},
        }

    def random(self) -> dict[str, Tensor]:
        """States of the generators of noise, [processes, ...]."""
        own = {"cpu": torch.get_rng_state()}
        if self.place.device.type == "cuda":
            own["cuda"] = torch.cuda.get_rng_state(self.place.device)
        every = {}
        for name, value in own.items():
            rows = torch.zeros(self.place.world_size, value.shape[0], dtype=torch.uint8, device=self.place.device)
            rows[self.place.global_rank] = value
            every[name] = self.place.all_reduce(rows, reduce_op="sum").cpu()
        return every

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.optimizer.load_state_dict(state["optimizer"])
        rank, random = self.place.global_rank, state["random"]
        if random["cpu"].shape[0] == self.place.world_size:  # other processes go on with other noise
            torch.set_rng_state(random["cpu"][rank].clone())  # torch crashes on a part of a larger tensor
            if self.place.device.type == "cuda" and "cuda" in random:
                torch.cuda.set_rng_state(random["cuda"][rank].clone(), self.place.device)
        for name in ("epoch", "step", "best", "waited", "best_weights"):
            setattr(self, name, state[name])
        if rank == 0:
            self.sums = {name: value.to(self.place.device) for name, value in state["sums"].items()}
        self.stage.method.train()

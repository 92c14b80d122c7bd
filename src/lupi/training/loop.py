"""The one training loop: plain torch, or a Lightning Fabric for more than one device.

Every batch is a function of the seed, the stage, the epoch and the step, so an interrupted run resumes from its last
checkpoint and reaches the same result. With several processes, all draw the same global batch and take their share.
"""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import mul
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from lupi._internal.devices import evaluation, get_random_state, set_random_state
from lupi._internal.progress import Steps
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import at_least_float32
from lupi.methods.base import Method, Stage
from lupi.nn.inference import iterate_examples
from lupi.settings import Settings
from lupi.training.batches import Batches, Step
from lupi.training.replicas import Data
from lupi.training.stepper import OneDevice, Stepper

Epoch = dict[str, Any]
"""A row of the history: stage, epoch, learning rate, and every loss in training and on held-out annotations.

`device` is where the epoch was trained, and `execution` how: "eager", "compiled" or "recorded" as a CUDA graph.

A loss of replicas is a list with one number each, NaN for replicas that stopped in an earlier epoch.
"""
Callback = Callable[[Epoch, Method], Any]
"""Receives the row of every epoch and the method, and ends the training of the stage by returning true."""
MAX_DENSE_BATCH = 2**22
"""Maximum number of values of a dense batch of privileged information; larger ones stay sparse."""
MAX_GROWTH = 1e3
"""Training has diverged if a loss exceeds this multiple of one plus its size in the first step."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """What the stages of a training share: the arguments of `fit`, prepared, and the history so far."""

    method: Method
    data: Data
    validation: Data | None
    settings: Settings
    place: Any
    seeds: list[int]
    history: list[Epoch]
    progress: bool = False
    callbacks: Sequence[Callback] = ()

    def should_end(self, row: Epoch) -> bool:
        """Call the callbacks with the row of an epoch, and return whether one of them ends the stage."""
        if not self.callbacks:
            return False
        with evaluation(self.method):
            answers = [callback(dict(row), self.method) for callback in self.callbacks]  # every one of them
        return any(answers)


class EarlyStopping:
    """Keeps the weights of every network with the lowest held-out loss, and says when it no longer falls.

    Without `patience`, nothing is kept, and nothing stops.
    """

    def __init__(self, members: Sequence[Method], patience: int | None) -> None:
        self.members, self.patience = members, patience
        self.best, self.waited = [math.inf for _ in members], [0 for _ in members]
        self.stopped = [False for _ in members]  # before this epoch
        self.best_weights: list[dict[str, Tensor]] = [{} for _ in members]

    def has_stopped(self, number: int) -> bool:
        """Return whether the held-out loss of a member has not fallen for `patience` epochs."""
        return self.patience is not None and self.waited[number] >= self.patience

    def observe(self, losses: Sequence[float]) -> None:
        """Keep each member's weights if its held-out loss is the lowest so far."""
        if self.patience is None:
            return
        for number, (member, loss) in enumerate(zip(self.members, losses, strict=True)):
            if self.has_stopped(number):
                continue  # replicas that have stopped are still trained with the others
            self.waited[number] += 1
            if loss < self.best[number]:
                self.best[number], self.waited[number] = loss, 0
                # A replica's weights are views; a deep copy would copy the weights of all replicas.
                self.best_weights[number] = {name: value.clone() for name, value in member.state_dict().items()}

    def close_epoch(self) -> None:
        """Note which members have stopped."""
        self.stopped = [self.has_stopped(number) for number in range(len(self.members))]

    def restore(self) -> None:
        """Give every member its best weights."""
        for member, weights in zip(self.members, self.best_weights, strict=True):
            if weights:
                member.load_state_dict(weights)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint contains."""
        return {name: value for name, value in vars(self).items() if name not in ("members", "patience")}

    def resume(self, state: dict[str, Any]) -> None:
        """Resume from a saved state."""
        vars(self).update(state)


class LossTotals:
    """The losses of the first step, before it changes the weights, and the sums of the losses of this epoch."""

    def __init__(self, place: Any) -> None:
        self.place = place
        self.start: dict[str, list[float]] = {}
        self.sums: dict[str, Tensor] = {}

    def add(self, losses: dict[str, Tensor], count: float) -> None:
        """Add the losses of a step, which are means over `count` annotations."""
        if not self.start:
            means = {name: self.place.all_reduce(value.clone(), reduce_op="mean") for name, value in losses.items()}
            self.start = {name: value.reshape(-1).tolist() for name, value in means.items()}
        for name, value in losses.items():
            if name in self.sums:
                self.sums[name].add_(value, alpha=count)
            else:
                self.sums[name] = count * at_least_float32(value)

    def reduce(self) -> dict[str, Tensor]:
        """Return the sum of every loss over the annotations that all processes have seen in this epoch."""
        return {name: self.place.all_reduce(value.clone(), reduce_op="sum") for name, value in self.sums.items()}

    def means(self, annotations: int) -> dict[str, list[float]]:
        """Return the mean of every loss over the annotations of an epoch, one value per member."""
        reduced = self.reduce()
        return {name: (total.cpu().double() / annotations).reshape(-1).tolist() for name, total in reduced.items()}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint contains; every process must call it."""
        return {"start": self.start, "sums": self.reduce()}

    def resume(self, state: dict[str, Any]) -> None:
        """Resume from a saved state; the sums are those of all processes, so one takes them."""
        self.start = state["start"]
        if self.place.global_rank == 0:
            self.sums = {name: value.to(self.place.device) for name, value in state["sums"].items()}


def format_losses(row: Epoch) -> str:
    """Format the losses of an epoch, taking the median over replicas that have not stopped."""
    losses = {name: np.atleast_1d(value) for name, value in row.items() if name.startswith(("train_", "validation_"))}
    known = {name: values[~np.isnan(values)].tolist() for name, values in losses.items()}
    return ", ".join(f"{name} {statistics.median(values or [math.nan]):.4f}" for name, values in known.items())


def average_losses(method: Method, data: Annotations) -> dict[str, float]:
    """Return the mean of every loss of a method over held-out annotations."""
    counts: list[int] = []
    means: dict[str, list[Tensor]] = {}
    with evaluation(method):
        for batch in iterate_examples(data):
            counts.append(batch.row.shape[0])
            for name, value in method.losses(batch).items():
                means.setdefault(name, []).append(value)
    each = {name: torch.stack(values).tolist() for name, values in means.items()}  # waits for a GPU once per loss
    return {name: sum(map(mul, values, counts)) / len(data) for name, values in each.items()}


def spread_seeds(seeds: list[int], members: int) -> list[int]:
    """Return a seed for each member: those given, or several that each of them determines."""
    each = members // len(seeds)
    if each <= 1:
        return seeds
    return [
        int(np.random.SeedSequence((seed, number)).generate_state(1)[0]) for seed in seeds for number in range(each)
    ]


class StageLoop:
    """The training of one stage: its data, its optimizer and its progress. `number` is the position of the stage."""

    def __init__(self, training: Training, stage: Stage, number: int) -> None:
        assert isinstance(stage.method, Method)  # `fit` stacks or splits several
        self.training, self.stage, self.number = training, stage, number
        self.settings, self.place, validation = training.settings, training.place, training.validation
        self.members = stage.method.replicas
        self.seeds = spread_seeds(training.seeds, len(self.members))
        self.data = self.prepare(training.data, stage.prepare)
        self.validation: Data | None = None
        if stage.split_validation is not None:
            self.validation = self.prepare(training.data, stage.split_validation)
        elif validation is not None:
            if stage.validation_losses is None:  # a consensus needs all labels
                validation = validation.with_gold()
            self.validation = self.prepare(validation, stage.prepare_validation or stage.prepare)
        self.batches = Batches(self.data, self.settings, self.place, seeds=self.seeds, stage=number)
        self.stepper = Stepper(stage.method, self.batches, self.settings, self.place)
        self.epoch = self.step = 0
        self.ended = False  # before the last epoch
        self.totals, self.early_stopping = LossTotals(self.place), EarlyStopping(self.members, self.settings.patience)

    def prepare(self, data: Any, prepare: Callable[[Any], Data]) -> Data:
        """Prepare data for the stage, with a mean weight of one; drop privileged information that is not used."""
        prepared = prepare(data).to(self.place.device).normalize_weights()
        uses_privileged = any(member.uses_privileged for member in self.members)
        return self.keep_sparse(prepared) if uses_privileged else prepared.without_privileged()

    def keep_sparse(self, data: Data) -> Data:
        """Let privileged information of many columns stay sparse in large batches on a CPU, if the method takes it."""
        settings, plain = self.settings, isinstance(self.place, OneDevice) and self.place.device.type == "cpu"
        if not plain or settings.compile or settings.precision != "float32":
            return data
        if not (isinstance(data, Annotations) and isinstance(data.a, SparseRows) and self.members[0].takes_sparse):
            return data
        wide = settings.batch_size * data.a.width > MAX_DENSE_BATCH
        return replace(data, a=replace(data.a, returns_sparse=True)) if wide else data

    @property
    def finished(self) -> bool:
        """Whether there are no more epochs to train."""
        return self.ended or self.epoch >= self.settings.epochs

    def steps(self) -> Iterator[int]:
        """Train, and yield the number of steps taken after each."""
        epochs, per_epoch, history = self.settings.epochs, self.batches.per_epoch, self.training.history
        steps = self.batches.iterate(self.epoch, self.step)
        done = self.epoch * per_epoch + self.step
        with Steps(self.stage.name, epochs * per_epoch, show=self.training.progress, done=done) as shown:
            while not self.finished:
                for step in islice(steps, per_epoch - self.step):
                    self.train_step(step, self.epoch + self.step / per_epoch)
                    self.step += 1
                    if self.step < per_epoch:
                        shown.advance(1, f"epoch {self.epoch + 1}/{epochs}")
                        yield self.epoch * per_epoch + self.step
                del step  # part of the order of this epoch, which is freed before the next one is drawn
                history.append(self.close_epoch())
                shown.advance(1, f"epoch {self.epoch}/{epochs} {format_losses(history[-1])}")
                self.ended = self.training.should_end(history[-1]) or all(self.early_stopping.stopped)
                yield self.epoch * per_epoch
        self.early_stopping.restore()
        self.check_result()

    def train_step(self, step: Step, epoch: float) -> None:
        """Take a step at a (fractional) epoch, and add its losses to the totals."""
        self.totals.add(*self.stepper.take(step, epoch))

    def close_epoch(self) -> Epoch:
        """Evaluate the held-out annotations, and return the epoch's row of the history."""
        row: Epoch = {
            "stage": self.stage.name,
            "epoch": self.epoch + 1,
            "learning_rate": self.stepper.learning_rate,
            "device": str(self.place.device),
            "execution": self.stepper.execution,
        }
        for name, losses in self.totals.means(len(self.data)).items():
            self.check_losses(name, losses)
            row[f"train_{name}"] = self.history_entry(losses)
        if self.validation is not None:
            held_out = self.held_out_losses(self.validation)
            whole = [sum(losses) for losses in zip(*held_out.values(), strict=True)]
            self.early_stopping.observe(held_out.get("marginal", whole))
            row |= {f"validation_{name}": self.history_entry(losses) for name, losses in held_out.items()}
        self.early_stopping.close_epoch()
        self.epoch, self.step, self.totals.sums = self.epoch + 1, 0, {}
        return row

    def check_losses(self, name: str, losses: list[float]) -> None:
        """Raise an error if a loss of a member that has not stopped is not finite, or has grown absurdly.

        The first of several epochs may start badly and recover. With `patience`, only the weights that are kept count.
        """
        may_grow = self.settings.patience is not None or (self.epoch == 0 and self.settings.epochs > 1)
        for number, loss in enumerate(losses):
            if not (math.isfinite(loss) or self.early_stopping.has_stopped(number)):
                self.fail(number, f"Expected the {name} loss to be finite, but it is {loss} in epoch {self.epoch + 1}")
            if not may_grow:
                self.check_growth(number, f"{name} loss", self.totals.start[name][number], loss)

    def check_growth(self, number: int, name: str, start: float, loss: float) -> None:
        """Raise an error if a loss is absurdly large compared with its value in the first step."""
        if loss > MAX_GROWTH * (1 + abs(start)):
            got = f"it was {start:.3g} in the first step and is {loss:.3g} in epoch {self.epoch + 1}"
            self.fail(number, f"Expected the {name} to fall, but training diverged: {got}")

    def check_result(self) -> None:
        """Raise an error if a weight is not finite, which no loss has shown yet, or if the best weights are absurd."""
        for number, member in enumerate(self.members):
            for name, value in member.named_parameters():
                if not bool(value.isfinite().all()):
                    self.fail(number, f"Expected finite weights, but {name!r} is not after the last step")
            if math.isfinite(self.early_stopping.best[number]):  # only with `patience`
                start = [abs(losses[number]) for losses in self.totals.start.values()]
                self.check_growth(number, "held-out loss", sum(start), self.early_stopping.best[number])

    def fail(self, number: int, why: str) -> NoReturn:
        """Raise an error about the training of a member."""
        which = f" with seed {self.seeds[number]}" if self.data.is_stacked else ""
        raise FloatingPointError(
            f"{why} of stage {self.stage.name!r}{which}: a lower `learning_rate` or a `clip` may help."
        )

    def history_entry(self, losses: list[float]) -> float | list[float]:
        """Return the loss of a single method, or those of replicas, NaN for those that stopped in an earlier epoch."""
        if not self.data.is_stacked:
            return losses[0]
        return [
            math.nan if stopped else loss for stopped, loss in zip(self.early_stopping.stopped, losses, strict=True)
        ]

    def held_out_losses(self, data: Data) -> dict[str, list[float]]:
        """Return every loss on held-out annotations, one value per member.

        All processes use the values of the first, since they must stop together.
        """
        with self.place.autocast():
            compute = self.stage.validation_losses or average_losses
            each = [compute(member, part) for member, part in zip(self.members, data.parts, strict=True)]
        means = {name: [losses[name] for losses in each] for name in each[0]}
        return self.place.broadcast(means)  # type: ignore[no-any-return]

    def state(self) -> dict[str, Any]:
        """Return everything but the weights that the stage needs to resume from here; every process must call it."""
        noise = {}  # the generator states of all processes, [processes, ...]
        for name, value in get_random_state(self.place.device).items():
            rows = torch.zeros(self.place.world_size, value.shape[0], dtype=torch.uint8, device=self.place.device)
            rows[self.place.global_rank] = value
            noise[name] = self.place.all_reduce(rows, reduce_op="sum").cpu()
        return {
            "stage": self.number,
            "stage_name": self.stage.name,
            "schedule": self.settings.schedule,
            "epoch": self.epoch,
            "step": self.step,
            "ended": self.ended,
            "optimizer": self.stepper.optimizer.state_dict(),
            "noise": noise,
            "totals": self.totals.state(),
            "early_stopping": self.early_stopping.state(),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Resume from a saved state."""
        self.epoch, self.step, self.ended = state["epoch"], state["step"], state["ended"]
        self.stepper.resume(state["optimizer"])
        rank, noise = self.place.global_rank, state["noise"]
        if noise["cpu"].shape[0] == self.place.world_size:  # a different number of processes draws different noise
            set_random_state(self.place.device, {name: states[rank] for name, states in noise.items()})
        self.totals.resume(state["totals"])
        self.early_stopping.resume(state["early_stopping"])

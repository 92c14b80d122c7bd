"""The one training loop: plain torch, or a Lightning Fabric for more than one device.

Every batch is a function of the seed, the stage, the epoch and the step, so an interrupted run resumes from its last
checkpoint and reaches the same result. With several processes, all draw the same global batch and take their share.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from itertools import islice
from operator import add, mul
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor, nn

from lupi._internal.devices import evaluation, get_random_state, set_random_state
from lupi._internal.inputs import Inputs, map_inputs
from lupi._internal.progress import Steps
from lupi.data import Annotations, Batch, SparseRows
from lupi.likelihoods import at_least_float32
from lupi.methods.base import Method, Stage
from lupi.nn.inference import iterate_examples
from lupi.settings import Settings
from lupi.training.batches import Batches, Step, split_batch
from lupi.training.cuda_graph import SMALL, GraphedSteps
from lupi.training.optimizer import clip_each, group_by_loss, make_optimizer, set_training_mode
from lupi.training.replicas import Data

Epoch = dict[str, Any]
"""A row of the history: stage, epoch, learning rate, and every loss in training and on held-out annotations.

On a GPU, `recorded` says whether steps were replayed as a CUDA graph.

A loss of replicas is a list with one number each, NaN for replicas that stopped in an earlier epoch.
"""
PROGRESS = ("epoch", "step", "ended", "best", "waited", "stopped", "best_weights", "start")
"""Attributes of a `StageLoop` that a checkpoint contains."""
WIDE = 2**22
"""Values of a dense batch of privileged information above which it stays sparse."""
DIVERGED = 1e3
"""Training has diverged if a loss exceeds this multiple of one plus its size in the first step."""


class OneDevice:
    """The subset of a Lightning Fabric that the loop uses, for one device and one process."""

    world_size = 1
    global_rank = 0

    def __init__(self, device: torch.device | str, precision: str) -> None:
        self.device = torch.device(device)
        self.precision = precision

    def setup(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Any, torch.optim.Optimizer]:
        """Return both unchanged."""
        return module, optimizer

    def autocast(self) -> AbstractContextManager[Any]:
        """Compute in mixed precision if `precision` is "bfloat16"."""
        if self.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        loss.backward()  # type: ignore[no-untyped-call]

    def no_backward_sync(self, module: nn.Module, *, enabled: bool) -> AbstractContextManager[Any]:  # noqa: ARG002
        """Do nothing: one process has nothing to wait for."""
        return nullcontext()

    def all_reduce(self, value: Tensor, *, reduce_op: str) -> Tensor:  # noqa: ARG002
        """Return the value, which is its own sum over one process."""
        return value

    def broadcast(self, value: dict[str, list[float]]) -> dict[str, list[float]]:
        """Return the value of the first process."""
        return value


@contextmanager
def matrix_precision(precision: str) -> Iterator[None]:
    """Set the precision of matrix products, and restore it on exit."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tfloat32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


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

    def __init__(
        self,
        *,
        stage: Stage,
        number: int,
        data: Data,
        validation: Data | None,
        settings: Settings,
        place: Any,
        seeds: list[int],
    ) -> None:
        assert isinstance(stage.method, Method)  # `fit` stacks or splits several
        self.stage, self.number, self.method = stage, number, stage.method
        self.settings, self.place = settings, place
        self.stacked = stage.method.is_stacked
        self.members = stage.method.replicas
        self.seeds = spread_seeds(seeds, len(self.members))
        self.data = self.prepare(data, stage.prepare)
        self.validation: Data | None = None
        if stage.split_validation is not None:
            self.validation = self.prepare(data, stage.split_validation)
        elif validation is not None:
            if stage.validation_losses is None:  # a consensus needs all labels
                validation = validation.with_gold()
            self.validation = self.prepare(validation, stage.prepare_validation or stage.prepare)
        self.batches = Batches(self.data, settings, place, seeds=self.seeds, stage=number)
        set_training_mode(self.method)
        recorded = self.can_record()
        optimizer = make_optimizer(stage.method, settings, recorded=recorded)
        self.module, self.optimizer = place.setup(stage.method, optimizer)
        self.groups = group_by_loss(stage.method)
        if not isinstance(place, OneDevice):
            self.module.mark_forward_method("losses")
        self.losses = self.compile_losses() if settings.compile else self.module.losses
        self.graphed = self.make_graph() if recorded else None
        self.augment = None if settings.augment is None else settings.augment.to(place.device)
        self.epoch = self.step = 0
        self.ended = False  # before the last epoch
        self.sums: dict[str, Tensor] = {}
        self.start: dict[str, list[float]] = {}  # the losses of the first step, before it changes the weights
        self.best, self.waited = [math.inf for _ in self.members], [0 for _ in self.members]
        self.stopped = [False for _ in self.members]  # before this epoch
        self.best_weights: list[dict[str, Tensor]] = [{} for _ in self.members]

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
        if not (isinstance(data, Annotations) and isinstance(data.a, SparseRows) and self.method.takes_sparse):
            return data
        wide = settings.batch_size * data.a.width > WIDE
        return dataclasses.replace(data, a=dataclasses.replace(data.a, returns_sparse=True)) if wide else data

    def compile_losses(self) -> Callable[..., dict[str, Tensor]]:
        """Compile the losses; torch caches the code of each stage and batch shape for further trainings."""
        config = torch._dynamo.config
        config.cache_size_limit = max(64, config.cache_size_limit)  # all replicas share one function; the default is 8
        # Replicas have batches of one shape, other methods may have many.
        return torch.compile(self.module.losses, dynamic=False if self.stacked else None)

    def can_record(self) -> bool:
        """Return whether to record steps as a CUDA graph.

        Batches of one size must have one shape, and x must be in memory: other sources are read by the CPU.
        """
        settings = self.settings
        if settings.cuda_graph is False or self.place.device.type != "cuda" or not self.batches.uniform:
            return False
        if settings.cuda_graph is None:
            size = sum(parameter.numel() for parameter in self.members[0].parameters())
            plain = isinstance(settings.optimizer, str) and settings.accumulate == 1 and not settings.compile
            return plain and isinstance(self.place, OneDevice) and size <= SMALL
        return True

    def make_graph(self) -> GraphedSteps:
        """Return what records steps; only where that is possible, if nobody asked for it."""
        return GraphedSteps(self.place.device, only_if_possible=self.settings.cuda_graph is None)

    @property
    def finished(self) -> bool:
        """Whether there are no more epochs to train."""
        return self.ended or self.epoch >= self.settings.epochs

    def steps(
        self, history: list[Epoch], progress: bool, should_end: Callable[[Epoch], bool] = lambda _: False
    ) -> Iterator[int]:
        """Train, and yield the number of steps taken after each; `should_end` sees the row of every epoch."""
        epochs, per_epoch = self.settings.epochs, self.batches.per_epoch
        steps = self.batches.iterate(self.epoch, self.step)
        done = self.epoch * per_epoch + self.step
        with Steps(self.stage.name, epochs * per_epoch, show=progress, done=done) as shown:
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
                self.ended = should_end(history[-1]) or all(self.stopped)
                yield self.epoch * per_epoch
        for member, weights in zip(self.members, self.best_weights, strict=True):
            if weights:
                member.load_state_dict(weights)
        self.check_result()

    def train_step(self, step: Step, epoch: float) -> None:
        """Set the learning rate at a (fractional) epoch, take a step, and add its losses to the sums."""
        if self.settings.warmup or self.settings.schedule != "constant":
            factor = self.settings.rate(epoch)
            for group in self.optimizer.param_groups:
                rate = group["initial_lr"] * factor
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate
        if self.graphed is None:
            losses, count = self.optimize(step.units, step.x)
        else:
            losses, count = self.graphed(self.optimize, step.units)
        if not self.start:
            means = {name: self.place.all_reduce(value.clone(), reduce_op="mean") for name, value in losses.items()}
            self.start = {name: value.reshape(-1).tolist() for name, value in means.items()}
        for name, value in losses.items():
            if name in self.sums:
                self.sums[name].add_(value, alpha=count)
            else:
                self.sums[name] = count * at_least_float32(value)

    def optimize(self, index: Tensor, x: Inputs | None = None) -> tuple[dict[str, Tensor], float]:
        """Take an optimizer step on this process's share of a batch; `x` are its inputs, if they are not in memory.

        Returns the losses and the number of annotations that they are means over.
        """
        batch, weight, count = self.batches.draw(index, x)
        if self.augment is not None:
            batch = batch._replace(x=self.change_inputs(self.augment, batch.x))
        self.optimizer.zero_grad()
        add_gradients = self.add_gradient if self.settings.accumulate == 1 else self.add_gradients_of_parts
        losses = add_gradients(batch, weight)
        if self.settings.clip is not None:
            self.clip_gradients(self.settings.clip)
        self.optimizer.step()
        return losses, count

    def change_inputs(self, augment: nn.Module, x: Inputs) -> Inputs:
        """Apply an augmentation, to the inputs of all replicas at once."""
        with torch.no_grad():
            if not self.stacked:
                return augment(x)  # type: ignore[no-any-return]
            changed = augment(map_inputs(lambda values: values.flatten(0, 1), x))
        return map_inputs(lambda values: values.reshape(len(self.members), -1, *values.shape[1:]), changed)

    def add_gradient(self, batch: Batch, weight: float) -> dict[str, Tensor]:
        """Add the gradient of a batch, times a weight, to the others, and return its losses."""
        with self.place.autocast():
            losses: dict[str, Tensor] = self.losses(batch)
            loss = reduce(add, losses.values())
            loss = loss.sum() if loss.ndim else loss
        self.place.backward(loss if weight == 1 else weight * loss)
        return {name: value.detach() for name, value in losses.items()}

    def add_gradients_of_parts(self, batch: Batch, weight: float) -> dict[str, Tensor]:
        """Add the gradient of a batch part by part; a loss is a mean over annotations, so each counts by its number.

        Processes exchange gradients once, with the last part, since their shares may have different numbers of parts.
        """
        means: dict[str, Tensor] = {}
        *others, last = split_batch(batch, self.settings.accumulate, int(self.stacked))
        for part in (*others, last):
            share = part.row.shape[0] / batch.row.shape[0]
            with self.place.no_backward_sync(self.module, enabled=part is not last):
                losses = self.add_gradient(part, weight * share)
            for name, value in losses.items():
                means[name] = share * value + means.get(name, 0.0)
        return means

    def clip_gradients(self, maximum: float) -> None:
        """Limit the norm of the gradient, separately for losses that train different parameters."""
        if not isinstance(self.place, OneDevice):  # undoes the scaling of a mixed precision, and limits nothing
            self.place.clip_gradients(self.module, self.optimizer, max_norm=math.inf)
        clip = clip_each if self.stacked else nn.utils.clip_grad_norm_
        for group in self.groups:
            clip(group, maximum)

    def close_epoch(self) -> Epoch:
        """Evaluate the held-out annotations, and return the epoch's row of the history."""
        row: Epoch = {
            "stage": self.stage.name,
            "epoch": self.epoch + 1,
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]),
        }
        if self.place.device.type == "cuda":
            row["recorded"] = self.graphed is not None and self.graphed.recorded
        for name, total in self.reduce_sums().items():
            losses = (total.cpu().double() / len(self.data)).reshape(-1).tolist()
            self.check_losses(name, losses)
            row[f"train_{name}"] = self.history_entry(losses)
        if self.validation is not None:
            held_out = self.held_out_losses(self.validation)
            self.keep_best(held_out.get("marginal", [sum(losses) for losses in zip(*held_out.values(), strict=True)]))
            row |= {f"validation_{name}": self.history_entry(losses) for name, losses in held_out.items()}
        self.stopped = [self.has_stopped(number) for number in range(len(self.members))]
        self.epoch, self.step, self.sums = self.epoch + 1, 0, {}
        return row

    def reduce_sums(self) -> dict[str, Tensor]:
        """Return the sum of every loss over the annotations that all processes have seen in this epoch."""
        return {name: self.place.all_reduce(value.clone(), reduce_op="sum") for name, value in self.sums.items()}

    def check_losses(self, name: str, losses: list[float]) -> None:
        """Raise an error if a loss of a member that has not stopped is not finite, or has grown absurdly.

        The first of several epochs may start badly and recover. With `patience`, only the weights that are kept count.
        """
        may_grow = self.settings.patience is not None or (self.epoch == 0 and self.settings.epochs > 1)
        for number, loss in enumerate(losses):
            if not (math.isfinite(loss) or self.has_stopped(number)):
                self.fail(number, f"Expected the {name} loss to be finite, but it is {loss} in epoch {self.epoch + 1}")
            if not may_grow:
                self.check_growth(number, f"{name} loss", self.start[name][number], loss)

    def check_growth(self, number: int, name: str, start: float, loss: float) -> None:
        """Raise an error if a loss is absurdly large compared with its value in the first step."""
        if loss > DIVERGED * (1 + abs(start)):
            got = f"it was {start:.3g} in the first step and is {loss:.3g} in epoch {self.epoch + 1}"
            self.fail(number, f"Expected the {name} to fall, but training diverged: {got}")

    def check_result(self) -> None:
        """Raise an error if a weight is not finite, which no loss has shown yet, or if the best weights are absurd."""
        for number, member in enumerate(self.members):
            for name, value in member.named_parameters():
                if not bool(value.isfinite().all()):
                    self.fail(number, f"Expected finite weights, but {name!r} is not after the last step")
            if math.isfinite(self.best[number]):  # only with `patience`
                start = [abs(losses[number]) for losses in self.start.values()]
                self.check_growth(number, "held-out loss", sum(start), self.best[number])

    def fail(self, number: int, why: str) -> NoReturn:
        """Raise an error about the training of a member."""
        which = f" with seed {self.seeds[number]}" if self.stacked else ""
        raise FloatingPointError(
            f"{why} of stage {self.stage.name!r}{which}: a lower `learning_rate` or a `clip` may help."
        )

    def history_entry(self, losses: list[float]) -> float | list[float]:
        """Return the loss of a single method, or those of replicas, NaN for those that stopped in an earlier epoch."""
        if not self.stacked:
            return losses[0]
        return [math.nan if stopped else loss for stopped, loss in zip(self.stopped, losses, strict=True)]

    def has_stopped(self, number: int) -> bool:
        """Return whether the held-out loss of a member has not fallen for `patience` epochs."""
        return self.settings.patience is not None and self.waited[number] >= self.settings.patience

    def held_out_losses(self, data: Data) -> dict[str, list[float]]:
        """Return every loss on held-out annotations, one value per member.

        All processes use the values of the first, since they must stop together.
        """
        with self.place.autocast():
            compute = self.stage.validation_losses or average_losses
            each = [compute(member, part) for member, part in zip(self.members, data.parts, strict=True)]
        means = {name: [losses[name] for losses in each] for name in each[0]}
        return self.place.broadcast(means)  # type: ignore[no-any-return]

    def keep_best(self, losses: list[float]) -> None:
        """Keep each member's weights with the lowest held-out loss, if training may stop early."""
        if self.settings.patience is None:
            return
        for number, (member, loss) in enumerate(zip(self.members, losses, strict=True)):
            if self.has_stopped(number):
                continue  # replicas that have stopped are still trained with the others
            self.waited[number] += 1
            if loss < self.best[number]:
                self.best[number], self.waited[number] = loss, 0
                # A replica's weights are views; a deep copy would copy the weights of all replicas.
                self.best_weights[number] = {name: value.clone() for name, value in member.state_dict().items()}

    def state(self) -> dict[str, Any]:
        """Return everything but the weights that the stage needs to resume from here; every process must call it."""
        noise = {}  # the generator states of all processes, [processes, ...]
        for name, value in get_random_state(self.place.device).items():
            rows = torch.zeros(self.place.world_size, value.shape[0], dtype=torch.uint8, device=self.place.device)
            rows[self.place.global_rank] = value
            noise[name] = self.place.all_reduce(rows, reduce_op="sum").cpu()
        progress = {name: getattr(self, name) for name in PROGRESS}
        optimizer = self.optimizer.state_dict()
        progress |= {"stage": self.number, "stage_name": self.stage.name, "schedule": self.settings.schedule}
        return {"optimizer": optimizer, "noise": noise, "sums": self.reduce_sums(), **progress}

    def resume(self, state: dict[str, Any]) -> None:
        """Resume from a saved state."""
        options = [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state["optimizer"])
        for group, own in zip(self.optimizer.param_groups, options, strict=True):
            group.update(own)  # a graph reads its own learning rate tensor, not the checkpoint's
        rank, noise = self.place.global_rank, state["noise"]
        if noise["cpu"].shape[0] == self.place.world_size:  # a different number of processes draws different noise
            set_random_state(self.place.device, {name: states[rank] for name, states in noise.items()})
        for name in PROGRESS:
            setattr(self, name, state[name])
        if rank == 0:
            self.sums = {name: value.to(self.place.device) for name, value in state["sums"].items()}

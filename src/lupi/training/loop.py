"""The one training loop: plain torch, or a Lightning Fabric for more than one device.

Every batch is a function of the seed, the stage, the epoch and the step, so that a run that was interrupted goes on
from its last checkpoint to the same result. With several processes all of them draw the same global batch and take
their share of it.
"""

from __future__ import annotations

import copy
import math
import statistics
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lupi._internal.checks import check_integer
from lupi._internal.progress import Steps
from lupi.data import Annotations, Batch
from lupi.methods.base import Method, Stage
from lupi.nn.inference import evaluation
from lupi.nn.layers import small_kernels
from lupi.training.checkpoint import Checkpoint, describe, spelled_out
from lupi.training.cuda_graph import Recorded
from lupi.training.replicas import Replicas, StackedAnnotations
from lupi.training.replicas import histories as of_each
from lupi.training.settings import Settings

__all__ = ["Checkpoint", "Epoch", "Settings", "StageLoop", "fit", "fit_seeds", "own_noise"]

Epoch = dict[str, Any]
"""A row of the history: stage, epoch, learning rate, and every loss in training and on held-out annotations.

A loss of replicas is a list, one number each: NaN where a replica had stopped early.
"""
Data = Annotations | StackedAnnotations


FEWEST, LARGEST = 4, 200_000
"""Replicas, for fewer the cost of stacking is more than the gain; and parameters of each of them on a CPU, for which a
step of more has work enough alone."""


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
        if self.precision == "bfloat16":
            return torch.autocast(self.device.type, torch.bfloat16)
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        loss.backward()  # type: ignore[no-untyped-call]

    def clip_gradients(self, module: nn.Module, optimizer: object, *, max_norm: float) -> None:  # noqa: ARG002
        """Shorten a long gradient."""
        nn.utils.clip_grad_norm_(module.parameters(), max_norm)

    def all_reduce(self, value: Tensor, *, reduce_op: str) -> Tensor:  # noqa: ARG002
        """Sum over one process."""
        return value

    def broadcast(self, value: dict[str, list[float]]) -> dict[str, list[float]]:
        """Take what the first process has."""
        return value


def fit(
    method: Method,
    data: Data,
    settings: Settings = Settings(),
    *,
    validation: Data | None = None,
    seed: int | Sequence[int] = 0,
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
        The training set; `StackedAnnotations` for `Replicas`.
    settings : Settings
        How to train; the same for every stage.
    validation : Annotations, optional
        Held-out annotations with their noisy labels, for the history and for `settings.patience`.
    seed : int
        Seed of the order of batches and of noise in training. The initial weights are the method's. For `Replicas`
        one each.
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
    seeds = check_seeds(method, seed, settings, fabric)
    if settings.cuda_graph and fabric is not None:
        raise ValueError("Expected `cuda_graph` to be False with a `fabric`.")
    for name, part in (("data", data), ("validation", validation)):
        if part is not None and len(part) == 0:
            raise ValueError(f"Expected `{name}` to have annotations, but it is empty.")
    place = OneDevice(device, settings.precision) if fabric is None else fabric
    method.to(place.device)
    run: dict[str, Any] = {}
    state: dict[str, Any] | None = None
    history: list[Epoch] = []
    if checkpoint is not None:
        run = describe(method, data, validation, settings, seeds)
        state = checkpoint.read(run)
    if state is not None:
        method.load_state_dict(state["method"])
        history = state["history"]
    data = data.to(place.device)
    validation = None if validation is None else validation.to(place.device)
    noise = own_noise((seeds if isinstance(seeds, int) else seeds[0]) + place.global_rank, place.device)
    with noise, matrix_products(settings.precision), closing(staged(method, data)) as stages:
        for number, stage in enumerate(stages):
            if state is not None and number < state["stage"]:
                continue  # trained before the interruption
            resumed, state = state, None
            loop = StageLoop(method, stage, number, data, validation, settings, place, seeds)
            if resumed is not None:
                loop.resume(resumed)
            for step in loop.steps(history, progress and place.global_rank == 0):
                if checkpoint is not None and (step % checkpoint.every == 0 or loop.epoch == settings.epochs):
                    reached = {"run": run, **loop.state(history)}  # of all processes
                    if place.global_rank == 0:
                        checkpoint.write(reached)
    method.eval()
    return history


def staged(method: Method, data: Data) -> Generator[Stage, None, None]:
    """Stages of a method, whose generator ends with this one, also where training fails: replicas part then."""
    yield from method.stages(data)  # type: ignore[arg-type] # replicas take theirs


def fit_seeds(
    methods: Sequence[Method],
    data: Sequence[Annotations],
    settings: Settings = Settings(),
    *,
    validation: Sequence[Annotations | None] | None = None,
    seeds: Sequence[int],
    device: torch.device | str = "cpu",
    progress: bool = False,
) -> list[list[Epoch]]:
    """Train the methods of several seeds: together as `Replicas` where that is possible, else one after the other.

    Four or more seeds whose networks and data have the same shape train together; fewer are faster one after the other,
    and so are networks of more than 200 000 parameters on a CPU. Where methods cannot, a warning says why.

    Parameters
    ----------
    methods, data, validation : sequence
        What each seed trains, on what, and its held-out annotations.
    settings : Settings
        How to train, the same for all.
    seeds : sequence of int
        Seeds of batches and noise.
    device : torch.device or str
        Where to train.
    progress : bool
        Show progress on standard error.

    Returns
    -------
    list
        The history of every seed.

    Examples
    --------
    >>> from lupi.methods import NoPI
    >>> data = Annotations(torch.eye(4), torch.arange(4), torch.ones(4, 1), torch.tensor([0, 1, 0, 1]))
    >>> methods = [NoPI(nn.Identity(), nn.Linear(4, 2)) for seed in range(5)]
    >>> histories = fit_seeds(methods, [data] * 5, Settings(epochs=2), seeds=range(5))
    >>> [len(history) for history in histories]
    [2, 2, 2, 2, 2]
    """
    held_out = list(validation) if validation is not None else [None for _ in methods]
    if not any(method.uses_privileged for method in methods):
        data = [part.without_privileged() for part in data]  # whose shape then does not matter
        held_out = [None if part is None else part.without_privileged() for part in held_out]
    histories: list[list[Epoch]] = [[] for _ in methods]
    alike: dict[Any, list[int]] = {}
    for number, (method, part) in enumerate(zip(methods, data, strict=True)):
        shapes = tuple((name, value.shape) for name, value in method.named_parameters())
        alike.setdefault((spelled_out(method), shapes, len(part)), []).append(number)
    for group in alike.values():
        members, parts = [methods[number] for number in group], [data[number] for number in group]
        kept, own = [held_out[number] for number in group], [seeds[number] for number in group]
        size = sum(parameter.numel() for parameter in members[0].parameters())
        trained = None
        if len(group) >= FEWEST and (size <= LARGEST or torch.device(device).type != "cpu"):
            trained = fit_replicas(members, parts, kept, own, settings, device, progress)
        if trained is None:
            trained = [
                fit(member, part, settings, validation=held, seed=seed, device=device, progress=progress)
                for member, part, held, seed in zip(members, parts, kept, own, strict=True)
            ]
        for number, history in zip(group, trained, strict=True):
            histories[number] = history
    return histories


def fit_replicas(
    members: Sequence[Method],
    data: Sequence[Annotations],
    validation: Sequence[Annotations | None],
    seeds: Sequence[int],
    settings: Settings,
    device: torch.device | str,
    progress: bool,
) -> list[list[Epoch]] | None:
    """Train methods together; where they cannot, warn, leave them as they were, and return None."""
    before = [copy.deepcopy(member.state_dict()) for member in members]
    held_out = [part for part in validation if part is not None]
    try:
        replicas, stacked = Replicas(members), StackedAnnotations(data)
        stacked_too = StackedAnnotations(held_out) if held_out else None
        history = fit(replicas, stacked, settings, validation=stacked_too, seed=seeds, device=device, progress=progress)
    except (ValueError, RuntimeError) as error:  # vmap says by a RuntimeError what it cannot take
        reason = str(error).strip().splitlines()[0]
        warnings.warn(f"{len(members)} seeds train one after the other, not together: {reason}", stacklevel=3)
        for member, weights in zip(members, before, strict=True):
            member.load_state_dict(weights)
        return None
    return of_each(history, len(members))


def check_seeds(method: Method, seed: int | Sequence[int], settings: Settings, fabric: Any) -> int | list[int]:
    """Check that there is a seed, or one for each replica, and that replicas can train so."""
    if not isinstance(method, Replicas):
        return check_integer("seed", seed, 0)
    if isinstance(seed, int) or len(seed) != len(method.members):
        raise ValueError(f"Expected a `seed` for each of {len(method.members)} replicas, but got {seed!r}.")
    if settings.clip is not None:
        raise ValueError("Expected `clip` to be None for replicas, whose gradients have one norm together.")
    if fabric is not None:
        raise ValueError("Expected `fabric` to be None for replicas, which train on one device.")
    return [check_integer("seed", one, 0) for one in seed]


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


@contextmanager
def matrix_products(precision: str) -> Iterator[None]:
    """Multiply matrices in a precision, and as before afterwards."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tfloat32" else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def in_words(row: Epoch) -> str:
    """Losses of an epoch; those of replicas by their median."""
    losses = {name: value for name, value in row.items() if name not in ("stage", "epoch", "learning_rate")}
    return ", ".join(f"{name} {statistics.median(np.atleast_1d(value)):.4f}" for name, value in losses.items())


def mean_losses(method: Method, data: Annotations) -> dict[str, float]:
    """Mean of every loss of a method over annotations that it does not train on."""
    sums: dict[str, float] = {}
    with evaluation(method):
        for part in torch.split(data.annotated, 1024):
            batch = data.by_example(part)
            for name, value in method.losses(batch).items():
                sums[name] = sums.get(name, 0.0) + float(value) * batch.row.shape[0]
    return {name: value / len(data) for name, value in sums.items()}


class StageLoop:
    """The training of one stage: its data, optimizer and place in time."""

    def __init__(
        self,
        whole: Method,
        stage: Stage,
        number: int,
        data: Data,
        validation: Data | None,
        settings: Settings,
        place: Any,
        seed: int | list[int],
    ) -> None:
        self.whole, self.stage, self.number = whole, stage, number
        self.settings, self.place, self.seed = settings, place, seed
        self.members = list(stage.method.members) if isinstance(stage.method, Replicas) else [stage.method]
        self.data = self.prepared(data)
        self.validation = None if validation is None else self.prepared(validation, held_out=True)
        stage.method.train()
        leading, recorded = int(isinstance(stage.method, Replicas)), self.recordable()
        optimizer = settings.make_optimizer(stage.method, leading=leading, recorded=recorded)
        self.module, self.optimizer = place.setup(stage.method, optimizer)
        if not isinstance(place, OneDevice):
            self.module.mark_forward_method("losses")
        self.losses = self.compiled() if settings.compile else self.module.losses
        if recorded:
            self.losses = small_kernels()(self.losses)
        self.recorded = Recorded(place.device) if recorded else None
        self.epoch = self.step = 0
        self.sums: dict[str, Tensor] = {}
        self.best, self.waited = [math.inf for _ in self.members], [0 for _ in self.members]
        self.best_weights: list[dict[str, Tensor]] = [{} for _ in self.members]

    def prepared(self, data: Data, *, held_out: bool = False) -> Data:
        """Make what the stage looks at; privileged information that its method does not use need not be drawn."""
        prepare = self.stage.hold_out if held_out and self.stage.hold_out is not None else self.stage.prepare
        data = prepare(data).to(self.place.device)  # type: ignore[arg-type]
        return data if self.stage.method.uses_privileged else data.without_privileged()

    def compiled(self) -> Callable[[Batch], dict[str, Tensor]]:
        """Compile the losses; the code of a stage and a batch shape is kept for further trainings."""
        config = torch._dynamo.config
        config.cache_size_limit = max(64, config.cache_size_limit)  # all replicas share one function; 8 by default
        fixed = isinstance(self.stage.method, Replicas)  # others may have as many shapes of batches as batches
        return torch.compile(self.module.losses, dynamic=False if fixed else None)

    def recordable(self) -> bool:
        """Tell whether a CUDA graph is asked for and can be.

        Every batch of a size must be drawn in one shape, and from memory: other sources are asked by the CPU.
        """
        parts, fixed = [self.data] if isinstance(self.data, Annotations) else self.data.parts, True
        if isinstance(self.data, Annotations):
            fixed = self.data.one_to_one and self.settings.draw == "annotations"
        fixed = fixed and all(isinstance(part.x, Tensor) for part in parts)
        return self.settings.cuda_graph and self.place.device.type == "cuda" and fixed

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
                shown.advance(1, f"epoch {self.epoch}/{epochs} {in_words(history[-1])}")
                if all(self.stopped(waited) for waited in self.waited):
                    self.epoch = epochs
                if self.epoch == epochs:
                    for member, weights in zip(self.members, self.best_weights, strict=True):
                        if weights:
                            member.load_state_dict(weights)
                yield self.epoch * per_epoch

    def batches(self, units: Tensor) -> tuple[Tensor, ...]:
        """The batches of an epoch, in an order that follows from seed, stage and epoch."""
        if isinstance(self.seed, int):
            order = self.order(self.seed, units.shape[0])
        else:
            order = torch.stack([self.order(seed, units.shape[0]) for seed in self.seed])
        return torch.split(units[order.to(units.device)], self.settings.batch_size, -1)

    def order(self, seed: int, units: int) -> Tensor:
        """Order of an epoch."""
        entropy = np.random.SeedSequence((seed, self.number, self.epoch)).generate_state(1)
        return torch.randperm(units, generator=torch.Generator().manual_seed(int(entropy[0])))

    def train_step(self, index: Tensor, epoch: float) -> None:
        """One step of the optimizer at a point in time, in epochs, and the sums of its losses."""
        if self.settings.warmup or self.settings.schedule != "constant":
            rate = self.settings.learning_rate * self.settings.rate(epoch)
            for group in self.optimizer.param_groups:
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate
        losses, count = self.step_of(index) if self.recorded is None else self.recorded(self.step_of, index)
        for name, value in losses.items():
            if name not in self.sums:
                self.sums[name] = torch.zeros(value.shape, device=self.place.device)
        torch._foreach_add_([self.sums[name] for name in losses], list(losses.values()), alpha=count)

    def step_of(self, index: Tensor) -> tuple[dict[str, Tensor], float]:
        """One step of the optimizer on the whole batch, of which this process computes its share.

        Returns the losses, and the number of annotations that they count for.
        """
        batch, weight, count = self.share(index)
        with self.place.autocast():
            losses = self.losses(batch)
            loss = reduce(add, losses.values())
            loss = loss.sum() if loss.ndim else loss
        self.optimizer.zero_grad()
        self.place.backward(loss if weight == 1 else weight * loss)
        if self.settings.clip is not None:
            self.place.clip_gradients(self.module, self.optimizer, max_norm=self.settings.clip)
        self.optimizer.step()
        return {name: value.detach() for name, value in losses.items()}, count

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
            return batch, 1.0, batch.row.shape[0] / world
        assert isinstance(self.data, Annotations)
        total = int(self.data.count[index].sum()) if by_example else index.shape[0]
        batch = draw(torch.tensor_split(index, world)[rank])
        return batch, batch.row.shape[0] * world / total, batch.row.shape[0]

    def close_epoch(self) -> Epoch:
        """Write down the epoch's losses and look at the held-out annotations."""
        row: Epoch = {
            "stage": self.stage.name,
            "epoch": self.epoch + 1,
            "learning_rate": float(self.optimizer.param_groups[0]["lr"]),
        }
        for name, total in self.sums_of_all().items():
            row[f"train_{name}"] = self.checked(name, (total.cpu().double() / len(self.data)).tolist())
        if self.validation is not None:
            held_out = self.held_out_losses(self.validation)
            row |= {f"validation_{name}": self.of_training(values) for name, values in held_out.items()}
            self.keep_best(held_out.get("marginal", [sum(losses) for losses in zip(*held_out.values(), strict=True)]))
        self.epoch, self.step, self.sums = self.epoch + 1, 0, {}
        return row

    def sums_of_all(self) -> dict[str, Tensor]:
        """Sum of every loss over the annotations that all processes have seen in this epoch."""
        return {name: self.place.all_reduce(value.clone(), reduce_op="sum") for name, value in self.sums.items()}

    def checked(self, name: str, value: float | list[float]) -> float | list[float]:
        """Expect a loss to be finite, that of every replica that has not stopped."""
        for number, one in enumerate([value] if isinstance(value, float) else value):
            if not (math.isfinite(one) or self.stopped(self.waited[number])):
                which = f" with seed {self.seed[number]}" if isinstance(self.seed, list) else ""
                raise FloatingPointError(
                    f"Expected the {name} loss to be finite, but it is {one} in epoch {self.epoch + 1} of stage "
                    f"{self.stage.name!r}{which}: a lower `learning_rate` or a `clip` may help."
                )
        return value if isinstance(value, float) else self.of_training(value)

    def of_training(self, values: list[float]) -> float | list[float]:
        """Write down losses of members: that of the only one, or those of replicas that have not stopped."""
        if not isinstance(self.stage.method, Replicas):
            return values[0]
        return [math.nan if self.stopped(n) else one for one, n in zip(values, self.waited, strict=True)]

    def stopped(self, waited: int) -> bool:
        """Tell whether a member whose held-out loss has not fallen for so many epochs trains no more."""
        return self.settings.patience is not None and waited >= self.settings.patience

    def held_out_losses(self, data: Data) -> dict[str, list[float]]:
        """Mean of every loss of every member over held-out annotations.

        It is what the first process sees: all must stop together.
        """
        parts = data.parts if isinstance(data, StackedAnnotations) else [data]
        with self.place.autocast():
            each = [mean_losses(member, part) for member, part in zip(self.members, parts, strict=True)]
        means = {name: [losses[name] for losses in each] for name in each[0]}
        return self.place.broadcast(means)  # type: ignore[no-any-return]

    def keep_best(self, losses: list[float]) -> None:
        """Keep the weights of the lowest held-out loss, where training may stop early."""
        if self.settings.patience is None:
            return
        for number, (member, loss) in enumerate(zip(self.members, losses, strict=True)):
            if self.stopped(self.waited[number]):
                continue  # what a replica learns while others train on does not count
            self.waited[number] += 1
            if loss < self.best[number]:
                self.best[number], self.waited[number] = loss, 0
                # A deep copy of a replica's weights, which are views, would be a copy of all replicas'.
                self.best_weights[number] = {name: value.clone() for name, value in member.state_dict().items()}

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
        options = [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state["optimizer"])
        for group, own in zip(self.optimizer.param_groups, options, strict=True):
            group.update(own)  # a graph reads the learning rate where it lies, not where the checkpoint has it
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

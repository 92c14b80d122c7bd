"""The steps of training on one device, or with a Lightning Fabric on several."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from lupi._internal.inputs import Inputs, map_inputs
from lupi.data import Batch
from lupi.methods.base import Method
from lupi.settings import Settings
from lupi.training.batches import Batches, Step, split_batch
from lupi.training.cuda_graph import MAX_RECORDED_PARAMETERS, GraphedSteps
from lupi.training.optimizer import clip_each, group_by_loss, make_optimizer, set_training_mode

COMPILED_WORK = 3e11
"""Parameters × steps from which a training on a GPU is compiled by default. On one H200, compiled steps of ResNet-50,
ViT-S/16 and BERT-base were 16, 16 and 23 ms shorter, so that a minute of compilation is back after 0.8 to 2.9e11."""
MAX_REASON = 300
"""Characters of a compiler's message to show."""


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


class Stepper:
    """Takes the optimizer steps of a stage."""

    def __init__(self, method: Method, batches: Batches, settings: Settings, place: Any) -> None:
        self.batches, self.settings, self.place = batches, settings, place
        self.replicas = len(method.replicas) if method.is_stacked else None
        set_training_mode(method)
        recorded = can_record(method, batches, settings, place)
        compiles = settings.compile
        if compiles is None:
            compiles = not recorded and pays_to_compile(method, settings.epochs * batches.per_epoch, place)
        optimizer = make_optimizer(method, settings, recorded=recorded)
        self.module, self.optimizer = place.setup(method, optimizer)
        self.groups = group_by_loss(method)
        if not isinstance(place, OneDevice):
            self.module.mark_forward_method("losses")
        self.compiled = self.compile_losses() if compiles else None
        only_if_possible = settings.cuda_graph is None  # nobody asked for it
        self.graphed = GraphedSteps(place.device, only_if_possible=only_if_possible) if recorded else None
        self.augment = None if settings.augment is None else settings.augment.to(place.device)

    def compile_losses(self) -> Callable[..., dict[str, Tensor]]:
        """Compile the losses; torch caches the code of each stage and batch shape for further trainings."""
        config = torch._dynamo.config
        config.cache_size_limit = max(64, config.cache_size_limit)  # all replicas share one function; the default is 8
        # Code for batches of one shape is faster; the last batch of an epoch is then computed eagerly.
        return torch.compile(self.module.losses, dynamic=False if self.batches.one_shape else None)

    @property
    def execution(self) -> str:
        """How steps are computed: "eager", "compiled" or "recorded", or both of these."""
        recorded = self.graphed is not None and self.graphed.recorded
        how = [name for name, does in (("compiled", self.compiled is not None), ("recorded", recorded)) if does]
        return " and ".join(how) or "eager"

    @property
    def learning_rate(self) -> float:
        """The learning rate of the last step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def take(self, step: Step, epoch: float) -> tuple[dict[str, Tensor], float]:
        """Set the learning rate at a (fractional) epoch, and take a step.

        Returns the losses and the number of annotations that they are means over.
        """
        if self.settings.warmup or self.settings.schedule != "constant":
            factor = self.settings.rate(epoch)
            for group in self.optimizer.param_groups:
                rate = group["initial_lr"] * factor
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate
        if self.graphed is None:
            return self.optimize(step.units, step.x)
        return self.graphed(self.optimize, step.units)  # type: ignore[no-any-return]

    def optimize(self, index: Tensor, x: Inputs | None = None) -> tuple[dict[str, Tensor], float]:
        """Take an optimizer step on this process's share of a batch; `x` are its inputs, if they are not in memory.

        Returns the losses and the number of annotations that they are means over.
        """
        batch, weight, count = self.batches.draw(index, x)
        if self.augment is not None:
            batch = batch._replace(x=self.change_inputs(self.augment, batch.x))
        whole = index.shape[-1] == self.batches.size or not self.batches.one_shape
        losses = self.compute_gradients(batch, weight, compiled=whole and self.compiled is not None)
        if self.settings.clip is not None:
            self.clip_gradients(self.settings.clip)
        self.optimizer.step()
        return losses, count

    def change_inputs(self, augment: nn.Module, x: Inputs) -> Inputs:
        """Apply an augmentation, to the inputs of all replicas at once."""
        replicas = self.replicas
        with torch.no_grad():
            if replicas is None:
                return augment(x)  # type: ignore[no-any-return]
            changed = augment(map_inputs(lambda values: values.flatten(0, 1), x))
        return map_inputs(lambda values: values.reshape(replicas, -1, *values.shape[1:]), changed)

    def compute_gradients(self, batch: Batch, weight: float, *, compiled: bool) -> dict[str, Tensor]:
        """Compute the gradient of a batch, times a weight, and return its losses.

        If compiling fails, and nobody asked for it, warn and compute eagerly from now on.
        """
        self.optimizer.zero_grad()
        add_gradients = self.add_gradient if self.settings.accumulate == 1 else self.add_gradients_of_parts
        if self.compiled is None or not compiled:
            return add_gradients(batch, weight, self.module.losses)
        try:
            return add_gradients(batch, weight, self.compiled)
        except Exception as error:  # compilers raise many kinds
            if self.settings.compile:
                raise
            self.compiled = None
            losses = self.compute_gradients(batch, weight, compiled=False)  # raises the errors of the network
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:MAX_REASON]
            warnings.warn(f"Training eagerly, since the network cannot be compiled: {reason}", stacklevel=2)
            return losses

    def add_gradient(
        self, batch: Batch, weight: float, compute: Callable[[Batch], dict[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Add the gradient of a batch, times a weight, to the others, and return its losses."""
        with self.place.autocast():
            losses = compute(batch)
            loss = reduce(add, losses.values())
            loss = loss.sum() if loss.ndim else loss
        self.place.backward(loss if weight == 1 else weight * loss)
        return {name: value.detach() for name, value in losses.items()}

    def add_gradients_of_parts(
        self, batch: Batch, weight: float, compute: Callable[[Batch], dict[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Add the gradient of a batch part by part; a loss is a mean over annotations, so each counts by its number.

        Processes exchange gradients once, with the last part, since their shares may have different numbers of parts.
        """
        means: dict[str, Tensor] = {}
        *others, last = split_batch(batch, self.settings.accumulate, int(self.replicas is not None))
        for part in (*others, last):
            share = part.row.shape[0] / batch.row.shape[0]
            with self.place.no_backward_sync(self.module, enabled=part is not last):
                losses = self.add_gradient(part, weight * share, compute)
            for name, value in losses.items():
                means[name] = share * value + means.get(name, 0.0)
        return means

    def clip_gradients(self, maximum: float) -> None:
        """Limit the norm of the gradient, separately for losses that train different parameters."""
        if not isinstance(self.place, OneDevice):  # undoes the scaling of a mixed precision, and limits nothing
            self.place.clip_gradients(self.module, self.optimizer, max_norm=math.inf)
        clip = nn.utils.clip_grad_norm_ if self.replicas is None else clip_each
        for group in self.groups:
            clip(group, maximum)

    def resume(self, state: dict[str, Any]) -> None:
        """Resume from a saved state of the optimizer."""
        options = [{k: v for k, v in group.items() if k != "params"} for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state)
        for group, own in zip(self.optimizer.param_groups, options, strict=True):
            group.update(own)  # a graph reads its own learning rate tensor, not the checkpoint's
        for parameter, values in self.optimizer.state.items():
            for name, value in values.items():
                if isinstance(value, Tensor) and value.shape == parameter.shape:  # as laid out on this device
                    values[name] = torch.empty_like(parameter, dtype=value.dtype).copy_(value)


def pays_to_compile(method: Method, steps: int, place: Any) -> bool:
    """Return whether to compile the losses of a training of some steps if nobody says so."""
    if place.device.type != "cuda" or not isinstance(place, OneDevice) or method.is_stacked:
        return False
    size = sum(parameter.numel() for parameter in method.parameters())
    return size * steps >= COMPILED_WORK


def can_record(method: Method, batches: Batches, settings: Settings, place: Any) -> bool:
    """Return whether to record steps as a CUDA graph.

    Batches of one size must have one shape, and x must be in memory: other sources are read by the CPU.
    """
    if settings.cuda_graph is False or place.device.type != "cuda" or not batches.uniform:
        return False
    if settings.cuda_graph is None:
        size = sum(parameter.numel() for parameter in method.replicas[0].parameters())
        plain = isinstance(settings.optimizer, str) and settings.accumulate == 1 and not settings.compile
        return plain and isinstance(place, OneDevice) and size <= MAX_RECORDED_PARAMETERS
    return True

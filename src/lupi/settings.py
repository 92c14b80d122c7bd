"""The settings of the training loop."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from lupi._internal.checks import check_integer, check_number, check_positive

__all__ = ["Settings"]

OPTIMIZERS = ("adam", "adamw", "sgd")
"""Optimizers by name."""
MIN_BATCH_SIZE, MAX_BATCH_SIZE, MAX_BATCHES = 32, 4096, 2048
"""Limits of `choose_batch_size`."""
STEP_FACTOR = 0.1
"""Factor of the learning rate at each milestone of the schedule "step"."""


def choose_batch_size(annotations: int) -> int:
    """Return the smallest power of two, from 32 to 4096, with at most 2048 batches per epoch if possible."""
    size = MIN_BATCH_SIZE
    while size < MAX_BATCH_SIZE and size * MAX_BATCHES < annotations:
        size *= 2
    return size


Check = Callable[[str, Any], Any]
"""Takes the name and value of a setting; returns the value, as plain Python numbers, or raises a `ValueError`."""


def setting(default: Any, check: Check, **options: Any) -> Any:
    """Define a setting with its default and its check."""
    return field(default=default, metadata={"check": check}, **options)


def optional(check: Check) -> Check:
    """Let a setting be None too."""
    return lambda name, value: None if value is None else check(name, value)


def one_of(*choices: Any) -> Check:
    """Check that a setting is one of some values."""

    def check(name: str, value: Any) -> Any:
        if value not in choices:
            raise ValueError(f"Expected `{name}` to be one of {', '.join(map(str, choices))}, but got {value!r}.")
        return value

    return check


def positive_integer(name: str, value: Any) -> int:
    """Check that a setting is an integer of at least 1."""
    return check_integer(name, value, 1)


def check_optimizer(name: str, value: Any) -> Any:
    """Check that an optimizer is known by name, or a callable that makes one."""
    if not (value in OPTIMIZERS or callable(value)):
        raise ValueError(f"Expected `{name}` to be one of {', '.join(OPTIMIZERS)}, or a callable, but got {value!r}.")
    return value


def check_rates(name: str, rates: Any) -> dict[str, float]:
    """Check the learning rates of parts, and return a copy."""
    if not (isinstance(rates, Mapping) and all(isinstance(part, str) for part in rates)):
        raise ValueError(f"Expected `{name}` to be a dict from parts to numbers, but got {rates!r}.")
    return {part: check_number(f"{name}[{part!r}]", rate) for part, rate in rates.items()}


def check_milestones(name: str, value: Any) -> tuple[float, ...]:
    """Check that milestones are numbers."""
    if not isinstance(value, tuple | list):
        raise ValueError(f"Expected `{name}` to be a tuple of numbers, but got {value!r}.")
    return tuple(check_number(name, milestone) for milestone in value)


def check_module(name: str, value: Any) -> nn.Module:
    """Check that a setting is a torch module."""
    if not isinstance(value, nn.Module):
        raise ValueError(f"Expected `{name}` to be a torch module, but got {value!r}.")
    return value


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of the training loop.

    Parameters
    ----------
    epochs : int
        Number of passes over the data.
    batch_size : int
        Number of annotations or examples in a batch, depending on `draw`.
    draw : {"annotations", "examples"}
        Whether to draw batches of annotations, or of examples with all of their annotations.
    accumulate : int
        Number of parts in which to process a batch, to save memory. The gradients are accumulated. Batch norm sees
        one part at a time.
    optimizer : {"adam", "adamw", "sgd"} or callable
        Adam and AdamW are torch's fused implementations with the paper's ε = 10⁻⁷; SGD has momentum 0.9. A callable
        takes parameter groups and `lr`, for example ``functools.partial(torch.optim.SGD, momentum=0.5)``.
    learning_rate : float
        Learning rate, before `warmup` and `schedule`.
    learning_rates : dict of str to float, optional
        Learning rates of parts of the method, such as ``{"trunk": 1e-5}``; all other parts have `learning_rate`. The
        name of a part is its attribute, or a prefix of its parameter names such as "trunk.0". For nested parts, the
        innermost one counts. A part with rate 0 is frozen (see `lupi.training.fit`).
    l2 : float
        λ of the paper's penalty λ‖w‖² on all weights except biases and norms (`weight_decay` = 2λ in torch).
    weight_decay : float
        Weight decay of all weights except biases and norms: decoupled for "adamw", else as a callable `optimizer`
        defines it. If it is 0, a callable uses its own default.
    schedule : {"constant", "step", "cosine"}
        "step" divides the learning rate by 10 at each of the `milestones`.
    milestones : tuple of float
        Epochs at which "step" changes the learning rate.
    warmup : float
        Number of epochs in which the learning rate increases from zero.
    clip : float, optional
        Maximum norm of the gradient. Losses that train different parameters are clipped separately, so the two losses
        of TRAM do not affect each other.
    precision : {"float32", "tfloat32", "bfloat16"}
        With "tfloat32" a GPU rounds the factors of matrix products to 10 bits, as torch does for cuDNN's convolutions
        by default (`torch.backends.cudnn.allow_tf32`); "bfloat16" is mixed precision. A Fabric uses its own precision.
    compile : bool, optional
        Whether to compile the losses and their gradients with `torch.compile`, which takes up to a minute. By default,
        a training on a GPU is compiled if it is not recorded and has at least 3·10¹¹ parameters × steps, such as 14,000
        steps of a ViT-S/16. If compiling fails, a warning says so, and training is eager.
    cuda_graph : bool, optional
        Whether to record a step as a CUDA graph and replay it, with one launch instead of hundreds. This speeds up
        small networks on a GPU. It has no effect on a CPU, if x is not in memory, or if batches differ in shape, as
        they do when a single method draws annotations and examples have several. By default, steps of networks with up
        to 10 million parameters are recorded where possible. Turn it off for a network whose `forward` changes
        attributes other than tensors.
    patience : int, optional
        Stop when the held-out loss has not decreased for this number of epochs, and restore the best weights. The
        held-out loss is that of the marginal head if there is one, else the sum of all losses. For methods that
        predict the true label (`Method.predicts_truth`), see `stop_on`.
    stop_on : {"consensus", "labels"}
        The held-out loss of methods that predict the true label. "consensus" is the loss of the predictor on the
        consensus of the held-out labels, P(true label | all labels, x), for which a No PI network is trained first.
        "labels" is the loss on the labels, as for other methods.
    workers : int
        Number of processes that read x ahead if it is not in memory, such as images in files; 0 to read it in this
        process. The number of workers does not change the result.
    augment : Module, optional
        Data augmentation of x, applied to whole batches on the device and in training only: any module of a batch, such
        as torchvision's v2 transforms, which apply the same change to all of its images. It is not applied to held-out
        annotations, nor when teachers or cross-fitted networks predict.

    Examples
    --------
    >>> Settings(optimizer="adagrad")
    Traceback (most recent call last):
    ...
    ValueError: Expected `optimizer` to be one of adam, adamw, sgd, or a callable, but got 'adagrad'.
    """

    epochs: int = setting(20, positive_integer)
    batch_size: int = setting(64, positive_integer)
    draw: Literal["annotations", "examples"] = setting("annotations", one_of("annotations", "examples"))
    accumulate: int = setting(1, positive_integer)
    optimizer: Literal["adam", "adamw", "sgd"] | Callable[..., torch.optim.Optimizer] = setting(  # noqa: RUF009
        "adam", check_optimizer
    )
    learning_rate: float = setting(1e-3, check_number)
    learning_rates: Mapping[str, float] | None = setting(None, optional(check_rates), hash=False)
    l2: float = setting(0.0, check_number)
    weight_decay: float = setting(0.0, check_number)
    schedule: Literal["constant", "step", "cosine"] = setting("constant", one_of("constant", "step", "cosine"))
    milestones: tuple[float, ...] = setting((), check_milestones)
    warmup: float = setting(0.0, check_number)
    clip: float | None = setting(None, optional(check_positive))
    precision: Literal["float32", "tfloat32", "bfloat16"] = setting(
        "float32", one_of("float32", "tfloat32", "bfloat16")
    )
    compile: bool | None = setting(None, one_of(None, False, True))
    cuda_graph: bool | None = setting(None, one_of(None, False, True))
    patience: int | None = setting(None, optional(positive_integer))
    stop_on: Literal["consensus", "labels"] = setting("consensus", one_of("consensus", "labels"))
    workers: int = setting(0, partial(check_integer, minimum=0))
    augment: nn.Module | None = setting(None, optional(check_module))  # noqa: RUF009 - `field`

    def __post_init__(self) -> None:
        for each in fields(self):
            value = each.metadata["check"](each.name, getattr(self, each.name))
            object.__setattr__(self, each.name, value)  # plain Python numbers, which a checkpoint can store
        if self.weight_decay and self.optimizer in ("adam", "sgd"):
            raise ValueError(f"Expected `weight_decay` with optimizer 'adamw', but got {self.optimizer!r}: use `l2`.")
        if self.l2 and self.optimizer not in ("adam", "sgd"):
            which = "'adamw'" if self.optimizer == "adamw" else "of your own"
            raise ValueError(f"Expected `weight_decay` rather than `l2` with an optimizer {which}.")
        for name, differs in (("accumulate", self.accumulate > 1), ("optimizer", callable(self.optimizer))):
            if self.cuda_graph and differs:
                raise ValueError(f"Expected `cuda_graph` to be off with this `{name}`, but got {self.cuda_graph}.")

    @property
    def stops_on_consensus(self) -> bool:
        """Whether methods that predict the true label stop on the consensus of the held-out labels."""
        return self.patience is not None and self.stop_on == "consensus"

    def rate(self, epoch: float) -> float:
        """Return the factor of the learning rate at a point in training, in epochs.

        Examples
        --------
        >>> Settings(schedule="step", milestones=(30, 60)).rate(45.0)
        0.1
        """
        warm = min(1.0, epoch / self.warmup) if self.warmup else 1.0
        if self.schedule == "step":
            warm *= STEP_FACTOR ** sum(epoch >= milestone for milestone in self.milestones)
        if self.schedule == "cosine":
            done = max(0.0, epoch - self.warmup) / max(self.epochs - self.warmup, 1e-9)
            warm *= 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
        return warm

"""The settings of the training loop."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import nn

from lupi._internal.checks import check_integer, check_number, check_positive

__all__ = ["Settings"]

NAMED = ("adam", "adamw", "sgd")
"""Optimizers by name."""
SMALLEST_BATCH, LARGEST_BATCH, MOST_BATCHES = 32, 4096, 2048
"""Limits of `choose_batch_size`."""


def choose_batch_size(annotations: int) -> int:
    """Return the smallest power of two, from 32 to 4096, with at most 2048 batches per epoch if possible."""
    size = SMALLEST_BATCH
    while size < LARGEST_BATCH and size * MOST_BATCHES < annotations:
        size *= 2
    return size


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
        Number of parts in which to process a batch, to save memory. The gradients are accumulated. Batch norm and
        `mixup` see one part at a time.
    optimizer : {"adam", "adamw", "sgd"} or callable
        Adam and AdamW are torch's fused implementations. A callable takes parameter groups and `lr`, for example
        `torch.optim.RMSprop` or ``functools.partial(torch.optim.RMSprop, alpha=0.9)``.
    learning_rate : float
        Learning rate, before `warmup` and `schedule`.
    learning_rates : dict of str to float, optional
        Learning rates of parts of the method, such as ``{"trunk": 1e-5}``; all other parts have `learning_rate`. The
        name of a part is its attribute, or a prefix of its parameter names such as "trunk.0". For nested parts, the
        innermost one counts. A part with rate 0 is frozen (see `lupi.training.fit`).
    momentum : float
        Momentum of "sgd".
    eps : float
        ε of "adam" and "adamw"; the paper's by default.
    l2 : float
        λ of the paper's penalty λ‖w‖² on all weights except biases and norms (`weight_decay` = 2λ in torch).
    weight_decay : float
        Weight decay of all weights except biases and norms: decoupled for "adamw", else as a callable `optimizer`
        defines it. If it is 0, a callable uses its own default.
    schedule : {"constant", "step", "cosine"}
        "step" multiplies the learning rate by `factor` at each of the `milestones`.
    milestones : tuple of float
        Epochs at which "step" changes the learning rate.
    factor : float
        Factor of "step".
    warmup : float
        Number of epochs in which the learning rate increases from zero.
    clip : float, optional
        Maximum norm of the gradient. Losses that train different parameters are clipped separately, so the two losses
        of TRAM do not affect each other.
    mixup : float
        α of mixup (Zhang et al., 2018); 0 for no mixup. Every step draws one λ ~ Beta(α, α), as in the authors' code,
        and trains on λ (x, a) + (1 − λ) (x', a') with the loss λ L(y) + (1 − λ) L(y'), where (x', a', y') is another
        annotation of the batch. x must be floating-point.
    precision : {"float32", "tfloat32", "bfloat16"}
        With "tfloat32" a GPU rounds the factors of matrix products to 10 bits, as torch does for cuDNN's convolutions
        by default (`torch.backends.cudnn.allow_tf32`); "bfloat16" is mixed precision. A Fabric uses its own precision.
    compile : bool
        Whether to compile the losses and their gradients. Compilation takes half a minute, so it pays off for long
        training of small networks.
    cuda_graph : bool, optional
        Whether to record a step as a CUDA graph and replay it, with one launch instead of hundreds. This speeds up
        small networks on a GPU. It has no effect on a CPU, if x is not in memory, or if batches differ in shape, as
        they do when a single method draws annotations and examples have several. By default, steps of networks with up
        to 10 million parameters are recorded where possible. Turn it off for a network whose `forward` changes
        attributes other than tensors.
    patience : int, optional
        Stop when the held-out loss has not decreased for this number of checks, at the end of the epoch, and restore
        the best weights. The held-out loss is that of the marginal head if there is one, else the sum of all losses.
        For methods that predict the true label ("pi-dual", "pi-transition"), see `stop_on`.
    stop_on : {"consensus", "labels"}
        The held-out loss of methods that predict the true label. "consensus" is the loss of the predictor on the
        consensus of the held-out labels, P(true label | all labels, x), for which a No PI network is trained first.
        "labels" is the loss on the labels, as for other methods.
    checks : int
        Number of evenly spaced checks of the held-out loss per epoch, at most one per step, if `patience` is given. The
        last check is at the end of the epoch, and its losses are part of the history.
    workers : int
        Number of processes that read x ahead if it is not in memory, such as images in files; 0 to read it in this
        process. The number of workers does not change the result.
    augment : Module, optional
        Data augmentation of x, applied on the device and in training only, such as
        ``nn.Sequential(RandomCrop(4), RandomFlip())``. It is not applied to held-out annotations, nor when teachers or
        cross-fitted networks predict. torchvision's v2 transforms apply the same change to all images of a batch.

    Examples
    --------
    >>> Settings(optimizer="adagrad")
    Traceback (most recent call last):
    ...
    ValueError: Expected `optimizer` to be one of adam, adamw, sgd, or a callable, but got 'adagrad'.
    """

    epochs: int = 20
    batch_size: int = 64
    draw: Literal["annotations", "examples"] = "annotations"
    accumulate: int = 1
    optimizer: Literal["adam", "adamw", "sgd"] | Callable[..., torch.optim.Optimizer] = "adam"
    learning_rate: float = 1e-3
    learning_rates: Mapping[str, float] | None = field(default=None, hash=False)
    momentum: float = 0.9
    eps: float = 1e-7
    l2: float = 0.0
    weight_decay: float = 0.0
    schedule: Literal["constant", "step", "cosine"] = "constant"
    milestones: tuple[float, ...] = ()
    factor: float = 0.1
    warmup: float = 0.0
    clip: float | None = None
    mixup: float = 0.0
    precision: Literal["float32", "tfloat32", "bfloat16"] = "float32"
    compile: bool = False
    cuda_graph: bool | None = None
    patience: int | None = None
    stop_on: Literal["consensus", "labels"] = "consensus"
    checks: int = 1
    workers: int = 0
    augment: nn.Module | None = None

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(Settings).items():
            value: Any = getattr(self, name)
            if name == "optimizer":
                if not (value in NAMED or callable(value)):
                    raise ValueError(
                        f"Expected `optimizer` to be one of {', '.join(NAMED)}, or a callable, but got {value!r}."
                    )
            elif name == "learning_rates":
                value = check_rates(value)
            elif name == "augment":
                if not isinstance(value, nn.Module | None):
                    raise ValueError(f"Expected `augment` to be a torch module, but got {value!r}.")
            elif kind in (bool, bool | None) or get_origin(kind) is Literal:
                choices = get_args(kind) if get_origin(kind) is Literal else (False, True)
                choices = (None, *choices) if kind == bool | None else choices
                if value not in choices:
                    raise ValueError(
                        f"Expected `{name}` to be one of {', '.join(map(str, choices))}, but got {value!r}."
                    )
            elif name == "milestones":
                if not isinstance(value, tuple | list):
                    raise ValueError(f"Expected `milestones` to be a tuple of numbers, but got {value!r}.")
                value = tuple(check_number(name, milestone) for milestone in value)
            elif value is not None or kind in (int, float):
                check = (
                    partial(check_integer, minimum=int(name != "workers"))
                    if kind in (int, int | None)
                    else check_number
                )
                value = check_positive(name, value) if name == "clip" else check(name, value)
            object.__setattr__(self, name, value)  # plain Python numbers, which a checkpoint can store
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
            warm *= self.factor ** sum(epoch >= milestone for milestone in self.milestones)
        if self.schedule == "cosine":
            done = max(0.0, epoch - self.warmup) / max(self.epochs - self.warmup, 1e-9)
            warm *= 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
        return warm


def check_rates(rates: Any) -> dict[str, float] | None:
    """Check the learning rates of parts, and return a copy with plain Python floats."""
    if rates is None:
        return None
    if not (isinstance(rates, Mapping) and all(isinstance(part, str) for part in rates)):
        raise ValueError(f"Expected `learning_rates` to be a dict from parts to numbers, but got {rates!r}.")
    return {part: check_number(f"learning_rates[{part!r}]", rate) for part, rate in rates.items()}

"""The options of the training loop."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args, get_origin, get_type_hints

import torch
from torch import nn

from lupi._internal.checks import check_integer, check_number, check_positive


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to train.

    Parameters
    ----------
    epochs : int
        Number of passes over the data.
    batch_size : int
        Number of annotations or examples in a batch, depending on `draw`.
    draw : {"annotations", "examples"}
        Draw batches of annotations, or of examples with all of their annotations.
    optimizer : {"adam", "adamw", "sgd"}
        Adam and AdamW are torch's fused implementations.
    learning_rate : float
        Learning rate, before `warmup` and `schedule`.
    momentum : float
        Momentum of "sgd".
    eps : float
        ε of "adam" and "adamw"; the paper's by default.
    l2 : float
        λ of the paper's penalty λ‖w‖² on all weights except biases and norms (`weight_decay` = 2λ in torch).
    weight_decay : float
        Decoupled weight decay of "adamw".
    schedule : {"constant", "step", "cosine"}
        "step" multiplies the learning rate by `factor` at each of the `milestones`.
    milestones : tuple of float
        Epochs at which "step" changes the learning rate.
    factor : float
        Factor of "step".
    warmup : float
        Number of epochs in which the learning rate grows from zero.
    clip : float, optional
        Maximum norm of the gradient. It limits losses that train different parameters separately, so the two losses of
        TRAM do not affect each other.
    mixup : float
        α of mixup (Zhang et al., 2018), 0 for none. Every step draws one λ ~ Beta(α, α), as the authors' code does, and
        trains on λ (x, a) + (1 − λ) (x', a') with the loss λ L(y) + (1 − λ) L(y'), where (x', a', y') is another
        annotation of the batch. x must be floating-point.
    precision : {"float32", "tfloat32", "bfloat16"}
        "tfloat32" lets a GPU round the factors of matrix products to 10 bits, as torch does for cuDNN's convolutions
        by default (`torch.backends.cudnn.allow_tf32`); "bfloat16" is mixed precision. A Fabric uses its own.
    compile : bool
        Compile the losses and their gradients. It takes half a minute, which pays for long trainings of small networks.
    cuda_graph : bool
        Record a step as a CUDA graph and replay it, with one launch instead of hundreds: for small networks on a GPU.
        Has no effect on a CPU, if x is not in memory, or if batches differ in shape, as they do when a single method
        draws annotations of examples that have several.
    patience : int, optional
        Stop when the held-out loss has not fallen for this number of checks, at the end of that epoch, and restore the
        best weights. It is the loss of the marginal head if there is one, else the sum of all losses.
    checks : int
        Number of evenly spaced checks of the held-out loss per epoch, at most one per step, if there is a `patience`.
        The last one is at the end of the epoch, and the history contains its losses.

    Examples
    --------
    >>> Settings(optimizer="adagrad")
    Traceback (most recent call last):
    ...
    ValueError: Expected `optimizer` to be one of adam, adamw, sgd, but got 'adagrad'.
    """

    epochs: int = 20
    batch_size: int = 64
    draw: Literal["annotations", "examples"] = "annotations"
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = 1e-3
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
    cuda_graph: bool = False
    patience: int | None = None
    checks: int = 1

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(Settings).items():
            value: Any = getattr(self, name)
            if kind is bool or get_origin(kind) is Literal:
                choices = get_args(kind) or (False, True)
                if value not in choices:
                    raise ValueError(
                        f"Expected `{name}` to be one of {', '.join(map(str, choices))}, but got {value!r}."
                    )
            elif name == "milestones":
                if not isinstance(value, tuple | list):
                    raise ValueError(f"Expected `milestones` to be a tuple of numbers, but got {value!r}.")
                value = tuple(check_number(name, milestone) for milestone in value)
            elif value is not None or kind in (int, float):
                check = partial(check_integer, minimum=1) if kind in (int, int | None) else check_number
                value = check_positive(name, value) if name == "clip" else check(name, value)
            object.__setattr__(self, name, value)  # Python's own numbers, which a checkpoint can store
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(f"Expected `weight_decay` with optimizer 'adamw', but got {self.optimizer!r}: use `l2`.")
        if self.l2 and self.optimizer == "adamw":
            raise ValueError("Expected `weight_decay` rather than `l2` with optimizer 'adamw'.")

    def rate(self, epoch: float) -> float:
        """Return the factor of the learning rate at a time in epochs.

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

    def make_optimizer(self, module: nn.Module, *, leading: int = 0, recorded: bool = False) -> torch.optim.Optimizer:
        """Make the optimizer of a module's trainable parameters, whose `leading` dimensions are replicas.

        If it is `recorded` in a CUDA graph, the learning rate is a tensor, which can change between replays.
        """
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        decay = self.weight_decay if self.optimizer == "adamw" else 2 * self.l2
        weights = [parameter for parameter in parameters if parameter.ndim > 1 + leading]
        others = [parameter for parameter in parameters if parameter.ndim <= 1 + leading]
        groups = [{"params": parameters, "weight_decay": 0.0}]  # one group is faster
        if decay:
            groups = [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
        rate: Any = self.learning_rate
        if recorded:
            rate = torch.tensor(self.learning_rate, device=parameters[0].device)
        if self.optimizer == "sgd":
            return torch.optim.SGD(groups, lr=rate, momentum=self.momentum, fused=recorded)
        kind = torch.optim.AdamW if self.optimizer == "adamw" else torch.optim.Adam
        return kind(groups, lr=rate, eps=self.eps, fused=True, capturable=recorded)

"""How to train: the options of the training loop."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal

import torch
from torch import nn

CHOICES = {
    "draw": ("annotations", "examples"),
    "optimizer": ("adam", "adamw", "sgd"),
    "schedule": ("constant", "step", "cosine"),
    "precision": ("float32", "bfloat16"),
}


@dataclass(frozen=True)
class Settings:
    """How to train.

    Parameters
    ----------
    epochs, batch_size : int
        Passes over the data, and what a batch holds of them.
    draw : "annotations" or "examples"
        What a batch holds: so many annotations, or so many examples with all of their annotations.
    optimizer : "adam", "adamw" or "sgd"
    learning_rate, momentum, eps : float
        `momentum` is of "sgd"; `eps` of the other two, the paper's 1e-7 by default.
    l2 : float
        λ of the paper's penalty λ‖w‖² on all weights, not on biases or norms (`weight_decay` = 2λ in torch).
    weight_decay : float
        The decoupled one of "adamw".
    schedule : "constant", "step" or "cosine"
        "step" multiplies the learning rate by `factor` at each of the `milestones`, in epochs.
    milestones : tuple of float
    factor : float
    warmup : float
        Epochs in which the learning rate grows from zero.
    clip : float, optional
        Largest norm of the gradient.
    precision : "float32" or "bfloat16"
        "bfloat16" is mixed precision. A Fabric brings its own.
    patience : int, optional
        Stop when the held-out loss has not fallen for so many epochs, and keep the best weights. It is the loss of
        the marginal head where the method has one, else the sum of all losses.

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
    precision: Literal["float32", "bfloat16"] = "float32"
    patience: int | None = None

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"Expected `{name}` to be one of {', '.join(choices)}, but got {getattr(self, name)!r}."
                )
        for name in ("epochs", "batch_size", "patience"):
            value = getattr(self, name)
            if name == "patience" and value is None:
                continue
            if not whole(value, 1):
                raise ValueError(f"Expected `{name}` to be a whole number of at least 1, but got {value!r}.")
            object.__setattr__(self, name, int(value))  # a checkpoint holds no numpy numbers
        for name in ("learning_rate", "momentum", "eps", "l2", "weight_decay", "factor", "warmup"):
            value = getattr(self, name)
            if not finite(value):
                raise ValueError(f"Expected `{name}` to be a number of at least 0, but got {value!r}.")
            object.__setattr__(self, name, float(value))
        if not isinstance(self.milestones, tuple | list) or not all(finite(value) for value in self.milestones):
            raise ValueError(f"Expected `milestones` to be numbers of at least 0, but got {self.milestones!r}.")
        object.__setattr__(self, "milestones", tuple(float(value) for value in self.milestones))
        if self.clip is not None:
            if not finite(self.clip) or self.clip == 0:
                raise ValueError(f"Expected `clip` to be None or a number of more than 0, but got {self.clip!r}.")
            object.__setattr__(self, "clip", float(self.clip))
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(f"Expected `weight_decay` with optimizer 'adamw', but got {self.optimizer!r}: use `l2`.")
        if self.l2 and self.optimizer == "adamw":
            raise ValueError("Expected `weight_decay` rather than `l2` with optimizer 'adamw'.")

    def rate(self, epoch: float) -> float:
        """Factor of the learning rate at a point in time, in epochs.

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

    def make_optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        """Make the optimizer of a module's parameters that take gradients."""
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        decay = self.weight_decay if self.optimizer == "adamw" else 2 * self.l2
        weights = [parameter for parameter in parameters if parameter.ndim > 1]
        others = [parameter for parameter in parameters if parameter.ndim <= 1]
        groups = [{"params": parameters, "weight_decay": 0.0}]  # one group is one call, and faster
        if decay:
            groups = [{"params": weights, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
        if self.optimizer == "sgd":
            return torch.optim.SGD(groups, lr=self.learning_rate, momentum=self.momentum)
        kind = torch.optim.AdamW if self.optimizer == "adamw" else torch.optim.Adam
        return kind(groups, lr=self.learning_rate, eps=self.eps, fused=True)


def whole(value: Any, least: int) -> bool:
    """Whether a value is a whole number of at least so much."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def finite(value: Any) -> bool:
    """Whether a value is a number of at least 0."""
    return isinstance(value, Real) and math.isfinite(value) and float(value) >= 0

"""The optimizer of a stage."""

from collections.abc import Callable
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn

from lupi._internal.seeding import seeded
from lupi.methods.base import Method
from lupi.settings import Settings
from lupi.training.parts import find_rate, name_parameters

ADAM_EPSILON, SGD_MOMENTUM = 1e-7, 0.9
"""ε of "adam" and "adamw", as in the paper, and the momentum of "sgd"."""


def make_optimizer(method: Method, settings: Settings, *, recorded: bool = False) -> torch.optim.Optimizer:
    """Make the optimizer of a method, with one parameter group for each learning rate and weight decay.

    If steps are `recorded` as a CUDA graph, learning rates are tensors, so that they can change between replays.
    """
    groups = group_parameters(method, settings)
    if recorded:
        for group in groups:
            group["lr"] = torch.tensor(group["lr"], device=group["params"][0].device)
    rate = groups[0]["lr"]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=SGD_MOMENTUM, fused=recorded)
    if isinstance(settings.optimizer, str):
        kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
        return kind(groups, lr=rate, eps=ADAM_EPSILON, fused=True, capturable=recorded)
    if method.is_stacked and not works_elementwise(settings.optimizer):
        raise ValueError(
            "Expected `optimizer` to change every number by its own gradients to train stacked networks, but "
            f"{describe_optimizer(settings.optimizer)} does not."
        )
    return check_optimizer(settings.optimizer(groups, lr=rate), settings)


def group_parameters(method: Method, settings: Settings) -> list[dict[str, Any]]:
    """Group the trainable parameters; those with the rate `learning_rate` come first."""
    leading, default = int(method.is_stacked), settings.learning_rate
    own = not isinstance(settings.optimizer, str)  # a callable has its own default weight decay
    decay = settings.weight_decay or 2 * settings.l2
    groups: dict[tuple[float, float], list[Tensor]] = {}
    for parameter, names in name_parameters(method, nested=True):
        if parameter.requires_grad:
            rate = find_rate(names, settings.learning_rates, default)
            groups.setdefault((rate, decay if parameter.ndim > 1 + leading else 0.0), []).append(parameter)
    if not groups:
        raise ValueError("Expected a method with parameters to train, but it has none, or all are frozen.")
    return [
        {"params": parameters, "lr": rate, "initial_lr": rate} | ({} if own and not decay else {"weight_decay": one})
        for (rate, one), parameters in sorted(groups.items(), key=lambda group: group[0][0] != default)
    ]


def check_optimizer(optimizer: Any, settings: Settings) -> torch.optim.Optimizer:
    """Check the optimizer that a user's function returned."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(f"Expected `optimizer` to make a torch.optim.Optimizer, but got {type(optimizer).__name__}.")
    name = type(optimizer).__name__
    if settings.weight_decay and "weight_decay" not in optimizer.defaults:
        raise ValueError(f"Expected an `optimizer` with `weight_decay`, but {name} has none.")
    if any(option.default is Parameter.empty for option in signature(optimizer.step).parameters.values()):
        raise ValueError(f"Expected an `optimizer` whose steps need no function, but those of {name} do.")
    return optimizer


def works_elementwise(make: Callable[..., Any]) -> bool:
    """Return whether an optimizer updates stacked weights as it would update each of them alone, by trying it out."""
    generator = torch.Generator().manual_seed(0)
    start, gradients = torch.randn(2, 3, 4, generator=generator), torch.randn(3, 2, 3, 4, generator=generator)

    def train(values: Tensor, gradients: Tensor) -> Tensor:
        weight = nn.Parameter(values.clone())
        optimizer = make([{"params": [weight]}], lr=0.1)
        for gradient in gradients:
            weight.grad = gradient.clone()
            optimizer.step()
        return weight.detach()

    try:
        with seeded(0):
            together = train(start, gradients)
            apart = [train(start[number], gradients[:, number]) for number in range(2)]
    except (RuntimeError, ValueError, TypeError):  # such as optimizers for matrices only
        return False
    return torch.allclose(together, torch.stack(apart))


def describe_optimizer(value: Any) -> str:
    """Describe an optimizer the same way in every process: its name, and its options if it is a `partial`."""
    if isinstance(value, str):
        return value
    if isinstance(value, partial):
        options = [*map(repr, value.args), *(f"{name}={option!r}" for name, option in sorted(value.keywords.items()))]
        return f"{describe_optimizer(value.func)}({', '.join(options)})"
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"

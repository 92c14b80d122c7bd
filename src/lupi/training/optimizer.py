"""The parameters of a method in training: optimizer, learning rates of parts, frozen parts, clipping, memory format."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn

from lupi._internal.devices import seeded
from lupi.methods.base import Method
from lupi.settings import Settings
from lupi.training.replicas import Replicas

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
        on_gpu = groups[0]["params"][0].is_cuda
        return torch.optim.SGD(groups, lr=rate, momentum=SGD_MOMENTUM, fused=on_gpu)
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


def name_parameters(method: Method, *, nested: bool = False) -> list[tuple[Tensor, list[str]]]:
    """List the parameters of a method with all of their names; for `Replicas`, the stacked parameters.

    With `nested`, the names include those within nested methods, such as "trunk.weight" for "student.trunk.weight".
    """
    one = method.replicas[0]
    names: dict[Tensor, list[str]] = {}
    for module in list_contained(one) if nested else [one]:
        for name, own in module.named_parameters(remove_duplicate=False):  # modules may share parameters
            names.setdefault(own, []).append(name)
    if isinstance(method, Replicas):
        return [(method.stacked[aliases[0]], aliases) for aliases in names.values()]
    return list(names.items())


def belongs_to(names: Sequence[str], part: str) -> bool:
    """Return whether a parameter with these names belongs to a part."""
    return any(f"{name}.".startswith(f"{part}.") for name in names)


def find_rate(names: Sequence[str], rates: Mapping[str, float] | None, default: float) -> float:
    """Return the learning rate of a parameter, that of the innermost part it belongs to."""
    own = [part for part in rates or () if belongs_to(names, part)]
    return (rates or {})[max(own, key=lambda part: part.count("."))] if own else default


def check_parts(method: Method, rates: Mapping[str, float] | None) -> None:
    """Check that every part with a learning rate has parameters, in the method or in networks of its stages."""
    if not rates:
        return
    names = list_names([method])
    left = [part for part in rates if not belongs_to(names, part)]
    if left:
        with seeded(0):  # new networks draw initial weights
            made = [one for own in list_contained(method) for one in own.make_temporary()]
        names += list_names(made)
    for part in left:
        if not belongs_to(names, part):
            known = ", ".join(sorted({name.split(".")[0] for name in names}))
            raise ValueError(f"Expected `learning_rates` to name parts of the method, among {known}, but got {part!r}.")


def list_names(methods: Sequence[Method]) -> list[str]:
    """List the names of the parameters of methods and of the methods nested in them."""
    every = [own for method in methods for own in list_contained(method)]
    return [name for own in every for name, _ in own.named_parameters(remove_duplicate=False)]


def list_contained(method: Method) -> list[Method]:
    """List a method and the methods nested in it."""
    return [module for module in method.modules() if isinstance(module, Method)]


@contextmanager
def freeze_parts(method: Method, rates: Mapping[str, float] | None) -> Iterator[None]:
    """Compute no gradients for parts whose learning rate is 0."""
    named = name_parameters(method, nested=True) if rates else []
    frozen = [one for one, names in named if one.requires_grad and find_rate(names, rates, 1.0) == 0]
    for parameter in frozen:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(True)


def set_training_mode(method: Method) -> None:
    """Set a method to training mode, except for modules with only frozen parameters, which stay in evaluation mode.

    A frozen module is a fixed function: batch norm keeps its statistics, and dropout is off.
    """
    method.train()
    named = name_parameters(method)
    if all(parameter.requires_grad for parameter, _ in named):
        return
    trained = {name for parameter, names in named if parameter.requires_grad for name in names}
    for member in method.replicas:
        for path, module in member.named_modules():
            own = [f"{path}.{name}".lstrip(".") for name, _ in module.named_parameters()]
            if own and not trained.intersection(own):
                module.eval()


def group_by_loss(method: Method) -> list[list[Tensor]]:
    """Group the parameters of a method by the losses that train them, according to its `gradients`.

    Losses that share a parameter form one group, since its gradient is a sum over them. Parameters that `gradients`
    does not mention form a separate group. The parameters of `Replicas` are the stacked ones.
    """
    groups: list[tuple[set[str], list[Tensor]]] = []
    for parameter, names in name_parameters(method):
        losses = {
            loss
            for loss, parts in method.replicas[0].gradients.items()
            if any(belongs_to(names, part) for part in parts)
        } or {""}
        sharing = [group for group in groups if group[0] & losses]
        groups = [group for group in groups if not group[0] & losses]
        members = [one for _, group in reversed(sharing) for one in group]
        groups.append((losses.union(*(own for own, _ in sharing)), [*members, parameter]))
    return [group for _, group in groups]


def clip_each(parameters: Sequence[Tensor], maximum: float) -> None:
    """Limit the norm of every replica's gradient, as `torch.nn.utils.clip_grad_norm_` does for one method."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return
    norms = [torch.linalg.vector_norm(gradient.reshape(gradient.shape[0], -1), dim=1) for gradient in gradients]
    factor = (maximum / (torch.linalg.vector_norm(torch.stack(norms), dim=0) + 1e-6)).clamp(max=1.0)  # [replicas]
    for gradient in gradients:
        gradient.mul_(factor.reshape(-1, *[1] * (gradient.ndim - 1)))


@contextmanager
def channels_last(modules: Sequence[nn.Module], device: torch.device) -> Iterator[None]:
    """Store the weights of 2-D convolutions in the channels-last format while they are trained on a GPU.

    The fast kernels for mixed precision need this format. A convolution with such weights converts its input and
    returns its output in the same format, so the input of the network need not change. On exit the weights are
    contiguous again, as needed to save them.
    """
    convolutions = [
        part
        for module in modules
        for part in module.modules()
        if device.type == "cuda" and isinstance(part, nn.Conv2d | nn.ConvTranspose2d)
    ]
    try:
        for part in convolutions:
            part.weight.data = part.weight.data.contiguous(memory_format=torch.channels_last)
        yield
    finally:
        for part in convolutions:
            part.weight.data = part.weight.data.contiguous()

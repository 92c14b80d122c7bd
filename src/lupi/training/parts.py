"""Learning rates of parts of a method, and frozen parts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from torch import Tensor

from lupi._internal.seeding import seeded
from lupi.methods.base import Method
from lupi.training.replicas import Replicas


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

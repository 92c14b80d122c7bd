"""Random number generators of a training run, so that runs in different threads do not affect each other.

Torch's modules draw from global generators, for initial weights, dropout or Monte Carlo samples. `Noise` redirects them
to separate generators, within a block and for one thread. Code in the innermost loop calls `draw_normal`, which needs
no redirection.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

IN_PLACE = {torch.ops.aten.randn_like: "normal_", torch.ops.aten.rand_like: "uniform_"}
"""In-place replacements for operators that take no generator in older versions of torch."""
turn = threading.RLock()
"""Lock of the thread that uses torch's global generators in place of its own."""


class Active(threading.local):
    """The noise that a thread draws from; None for torch's global generators."""

    noise: "Noise | None" = None


active = Active()


class Noise:
    """Generators of random numbers, one for the CPU and one for a GPU.

    Parameters
    ----------
    seed : int
        The seed.
    device : torch.device or str
        A device that gets a generator in addition to the CPU.

    Examples
    --------
    >>> noise = Noise(0)
    >>> with noise.redirect():
    ...     first = torch.randn(2)
    >>> bool((first == torch.randn(2, generator=torch.Generator().manual_seed(0))).all())
    True
    """

    def __init__(self, seed: int, device: torch.device | str = "cpu") -> None:
        device = torch.device(device)
        self.generators = {"cpu": Generator().manual_seed(seed)}
        if device.type == "cuda":
            self.generators["cuda"] = Generator(device).manual_seed(seed)

    @contextmanager
    def use(self) -> Iterator[None]:
        """Make `draw_normal` draw from these generators in this thread."""
        before, active.noise = active.noise, self
        try:
            yield
        finally:
            active.noise = before

    @contextmanager
    def redirect(self) -> Iterator["Redirection"]:
        """Make all operators draw from these generators in this thread, which slows every operator down."""
        with self.use(), Redirection(self) as redirection:
            yield redirection

    @contextmanager
    def lend(self) -> Iterator[None]:
        """Set the state of torch's global generators, the only ones that compiled code can use, to that of these.

        Only one thread can do so at a time. The global generators are restored on exit.
        """
        with turn:
            owners = {"cpu": torch.default_generator}
            if "cuda" in self.generators:
                owners["cuda"] = torch.cuda.default_generators[self.generators["cuda"].device.index]
            before = {name: owner.get_state() for name, owner in owners.items()}
            outer, active.noise = active.noise, None
            try:
                for name, owner in owners.items():
                    owner.set_state(self.generators[name].get_state())
                yield
            finally:
                active.noise = outer
                for name, owner in owners.items():
                    self.generators[name].set_state(owner.get_state())
                    owner.set_state(before[name])

    def get_state(self) -> dict[str, Tensor]:
        """Return the states of the generators by type of device."""
        return {name: generator.get_state() for name, generator in self.generators.items()}

    def set_state(self, states: Mapping[str, Tensor]) -> None:
        """Restore the states of the generators; states of other devices are ignored."""
        for name, generator in self.generators.items():
            if name in states:
                generator.set_state(states[name].clone())  # torch crashes on a slice of a larger tensor


class Redirection(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Pass a generator to every operator that draws random numbers without one.

    Attributes
    ----------
    used : bool
        Whether any operator drew random numbers.
    """

    def __init__(self, noise: Noise) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.noise, self.used = noise, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or active.noise is None:  # None while noise is lent
            return func(*args, **kwargs)
        given = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False)) | kwargs
        tensors = [value for value in given.values() if isinstance(value, Tensor)]
        kind = torch.device(kwargs.get("device") or (tensors[0].device if tensors else "cpu")).type
        generator = self.noise.generators.get(kind)
        if given.get("generator") is not None or given.get("dropout_p") == 0 or generator is None:
            return func(*args, **kwargs)
        self.used = True
        if (variant := find_variant(func)) is not None:
            return variant(*args, **{**kwargs, "generator": generator})
        if func is torch.ops.aten.native_dropout.default:
            return drop(*args, generator=generator)
        if (fill := IN_PLACE.get(func.overloadpacket)) is not None:
            return getattr(torch.empty_like(*args, **kwargs), fill)(generator=generator)
        with self.noise.lend():
            return func(*args, **kwargs)


@cache
def find_variant(operator: Any) -> Any:
    """Return the variant of an operator that takes a generator; None if there is none.

    Examples
    --------
    >>> find_variant(torch.ops.aten.randint.low)
    <OpOverload(op='aten.randint', overload='low_generator')>
    """
    names = [argument.name for argument in operator._schema.arguments]
    if "generator" in names:
        return operator
    packet = operator.overloadpacket
    for variant in (getattr(packet, name) for name in packet.overloads()):
        others = [argument.name for argument in variant._schema.arguments]
        if "generator" in others and [name for name in others if name != "generator"] == names:
            return variant
    return None


def drop(values: Tensor, p: float, train: bool | None, *, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return the scaled values and the mask, as `torch.native_dropout` does, which takes no generator."""
    if train is False or p == 0:
        return values.clone(), torch.ones_like(values, dtype=torch.bool)
    mask = torch.empty_like(values, dtype=torch.bool).bernoulli_(1 - p, generator=generator)
    return values * mask * (0.0 if p == 1 else 1 / (1 - p)), mask


def draw_normal(*shape: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Draw standard normal numbers, from the `Noise` of this thread if there is one.

    Compiled code draws from torch's global generators (`Noise.lend`).

    Examples
    --------
    >>> with Noise(0).use():
    ...     first = draw_normal(2, dtype=torch.float32, device=torch.device("cpu"))
    >>> bool((first == torch.randn(2, generator=torch.Generator().manual_seed(0))).all())
    True
    """
    if torch.compiler.is_compiling() or active.noise is None:
        return torch.randn(shape, dtype=dtype, device=device)
    return torch.randn(shape, dtype=dtype, device=device, generator=active.noise.generators.get(device.type))


@contextmanager
def seed_noise(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Draw all random numbers of torch in this thread from separate generators with the given seed.

    Torch's global generators are neither used nor changed, and other threads are not affected.

    Parameters
    ----------
    seed : int
        The seed.
    device : torch.device or str
        A device to seed in addition to the CPU.

    Examples
    --------
    >>> with seed_noise(0):
    ...     first = torch.nn.Linear(2, 1).weight
    >>> with seed_noise(0):
    ...     bool((torch.nn.Linear(2, 1).weight == first).all())
    True
    """
    with Noise(seed, device).redirect():
        yield

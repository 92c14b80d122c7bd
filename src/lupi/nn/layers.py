"""Linear layers, of which a small one on a GPU costs less than starting the kernels that torch divides it into."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import ModuleType

import torch
from torch import Tensor, nn

ROWS, PRODUCTS = 256, 2**24
"""Rows of a batch, and products of two numbers in a layer on it, up to which our own kernels are the faster ones."""


class Linear(nn.Linear):
    """A linear layer, with a ReLU behind it where it is asked for: x Wᵀ + b or relu(x Wᵀ + b).

    Parameters
    ----------
    inputs, outputs : int
        Number of features.
    relu : bool
        Whether the ReLU is a part of it.

    Examples
    --------
    >>> Linear(3, 8, relu=True)
    Linear(in_features=3, out_features=8, bias=True, relu=True)
    """

    def __init__(self, inputs: int, outputs: int, *, relu: bool = False) -> None:
        super().__init__(inputs, outputs)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        """From [..., inputs] to [..., outputs]."""
        if x.is_cuda and self.is_small(x) and (own := kernels(x)) is not None:
            return own.SmallLinear.apply(x, self.weight, self.bias, self.relu)  # type: ignore[no-any-return]
        y = super().forward(x)
        return torch.relu_(y) if self.relu else y

    def is_small(self, x: Tensor) -> bool:
        """Tell whether our own kernels are the faster ones, for which a step must be recorded."""
        small = x.ndim == 2 and x.shape[0] <= ROWS and x.numel() * self.out_features <= PRODUCTS
        return small and not torch.compiler.is_compiling() and allowed.get()

    def extra_repr(self) -> str:
        """Say whether there is a ReLU."""
        return super().extra_repr() + (", relu=True" if self.relu else "")


allowed: ContextVar[bool] = ContextVar("allowed", default=False)


@contextmanager
def small_kernels() -> Iterator[None]:
    """Compute as for a step that is recorded: there a kernel of our own costs no more to start than torch's.

    Examples
    --------
    >>> with small_kernels():
    ...     Linear(3, 8)(torch.ones(2, 3)).shape
    torch.Size([2, 8])
    """
    before = allowed.set(True)
    try:
        yield
    finally:
        allowed.reset(before)


def kernels(x: Tensor) -> ModuleType | None:
    """Give our own kernels for x, where it lies on a GPU and they can be had; None otherwise."""
    plain = x.dtype == torch.float32 and not torch.is_autocast_enabled("cuda") and not torch.compiler.is_compiling()
    return own_kernels() if x.is_cuda and plain else None


@cache
def own_kernels() -> ModuleType | None:
    """Import the kernels; None without Triton."""
    try:
        from lupi.nn import kernels
    except ImportError:
        return None
    return kernels

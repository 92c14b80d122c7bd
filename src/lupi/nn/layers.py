"""Linear layers; for a small one on a GPU starting torch's kernels takes longer than their work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lupi.nn.mobilenet.triton_backend import kernels_for

ROWS, OUTPUTS, PRODUCTS = 256, 512, 2**24
"""Rows of a batch, outputs, and products of two numbers up to which a layer is small (`benchmarks.images layers`)."""


class Linear(nn.Linear):
    """A linear layer, x Wᵀ + b, whose ReLU can be computed with it.

    Parameters
    ----------
    inputs, outputs : int
        Number of features.

    Examples
    --------
    >>> layer = Linear(3, 8)
    >>> layer(torch.ones(2, 3), relu=True).min() >= 0
    tensor(True)
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)

    def forward(self, x: Tensor, relu: bool = False) -> Tensor:
        """From [..., inputs] to [..., outputs]."""
        if not torch.jit.is_scripting():  # type: ignore[attr-defined]
            own = kernels_for(x)
            if own is not None and use_small_kernels.get() and self.is_small(x):
                return own.SmallLinear.apply(x, self.weight, self.bias, relu)  # type: ignore[no-any-return]
        y = F.linear(x, self.weight, self.bias)
        return torch.relu_(y) if relu else y

    def is_small(self, x: Tensor) -> bool:
        """Tell whether all gradients of the layer in one kernel are faster than torch's, which are several."""
        return (
            x.ndim == 2
            and x.shape[0] <= ROWS
            and self.out_features <= OUTPUTS
            and x.numel() * self.out_features <= PRODUCTS
            and not torch._C._are_functorch_transforms_active()
        )


use_small_kernels: ContextVar[bool] = ContextVar("use_small_kernels", default=False)


@contextmanager
def small_kernels() -> Iterator[None]:
    """Compute small layers by kernels of our own, which pays in a step that is recorded: else the CPU starts them.

    Examples
    --------
    >>> with small_kernels():
    ...     Linear(3, 8)(torch.ones(2, 3)).shape
    torch.Size([2, 8])
    """
    before = use_small_kernels.set(True)
    try:
        yield
    finally:
        use_small_kernels.reset(before)

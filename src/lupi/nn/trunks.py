"""Trunks φ(x). Any module that maps a batch of x to [examples, features] is one; this is the one for tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import nn


class MLP(nn.Sequential):
    """A multi-layer perceptron.

    Parameters
    ----------
    inputs : int
        Number of input features.
    widths : sequence of int
        Widths of the layers, an activation after each.
    outputs : int, optional
        Width of a last layer without an activation.
    activation : callable
        Makes the activation.

    Examples
    --------
    >>> MLP(3, (8, 4))
    MLP(
      (0): Linear(in_features=3, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=4, bias=True)
      (3): ReLU()
    )
    """

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int] = (64, 64),
        outputs: int | None = None,
        *,
        activation: Callable[[], nn.Module] = nn.ReLU,
    ) -> None:
        super().__init__()
        for width in widths:
            self.append(nn.Linear(inputs, width))
            self.append(activation())
            inputs = width
        if outputs is not None:
            self.append(nn.Linear(inputs, outputs))

"""Trunks φ(x). Any module that maps a batch of x to [examples, features] can be a trunk; `MLP` is for tables."""

from collections.abc import Callable, Sequence

from torch import nn


class MLP(nn.Sequential):
    """A multi-layer perceptron.

    Parameters
    ----------
    inputs : int
        Number of input features.
    widths : sequence of int
        Widths of the layers, each followed by an activation.
    outputs : int, optional
        Width of a final layer without activation; by default there is none.
    activation : callable
        Makes the activation.

    Attributes
    ----------
    features : int
        Width of the output.

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
        self.features = inputs if outputs is None else outputs


class Projected(nn.Sequential):
    """A trunk followed by a layer that reduces the number of features, as in the paper for pretrained trunks.

    Parameters
    ----------
    trunk : Module
        A trunk with an attribute `features`, the width of its output.
    width : int
        Number of features to project to.

    Attributes
    ----------
    features : int
        Width of the output: `width`.

    Examples
    --------
    >>> Projected(MLP(3, (8,)), width=4)
    Projected(
      (0): MLP(
        (0): Linear(in_features=3, out_features=8, bias=True)
        (1): ReLU()
      )
      (1): Linear(in_features=8, out_features=4, bias=True)
      (2): ReLU()
    )
    """

    def __init__(self, trunk: nn.Module, width: int = 64) -> None:
        features = getattr(trunk, "features", None)
        if not isinstance(features, int):
            raise ValueError(
                f"Expected `trunk` to have an integer attribute `features`, but got a {type(trunk).__name__} without."
            )
        super().__init__(trunk, nn.Linear(features, width), nn.ReLU())
        self.features = width

"""Parts of networks: trunks φ(x), the tower ψ(φ(x), a) on features and privileged information, and `Parts`.

Any module that maps a batch of x to [examples, features] can be a trunk; `MLP` is for tables.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lupi.likelihoods import Bernoulli, Categorical, Likelihood


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


class Tower(nn.Module):
    r"""The tower of the paper: layer 1 sees only a, and layer 2 sees [layer 1, φ(x)].

    ψ = relu(W₂ [relu(W₁ a + b₁), φ] + b₂). Layer 2 is affine in [layer 1, φ] before the ReLU. For a fixed a, it is a
    linear layer on φ plus an offset (`split_at`), which is computed once per row of a.

    Parameters
    ----------
    privileged : int
        Number of privileged features.
    features : int
        Width of φ(x).
    widths : (int, int)
        Widths of the two layers.
    skip : bool
        Return [ψ, φ(x)] instead of ψ, as the paper does for ImageNet.

    Attributes
    ----------
    width : int
        Width of the output.

    Examples
    --------
    >>> tower = Tower(privileged=3, features=8)
    >>> tower(torch.zeros(5, 8), torch.zeros(5, 3)).shape
    torch.Size([5, 64])
    """

    def __init__(
        self, privileged: int, features: int, widths: tuple[int, int] = (64, 64), *, skip: bool = False
    ) -> None:
        super().__init__()
        self.first = nn.Linear(privileged, widths[0])
        self.second = nn.Linear(widths[0] + features, widths[1])
        self.skip = skip
        self.width = widths[1] + features * skip

    def forward(self, features: Tensor, a: Tensor) -> Tensor:
        """Return ψ for features [n, F] and privileged information [n, P]."""
        hidden = F.relu(self.first(a))
        psi = F.relu(self.second(torch.cat([hidden, features], -1)))
        return torch.cat([psi, features], -1) if self.skip else psi

    def split_at(self, a: Tensor) -> tuple[Tensor, Tensor]:
        """Split layer 2 for fixed rows a, [S, P], into weights on φ, [width, F], and one offset per row, [S, width]."""
        on_hidden, on_features = self.second.weight.detach().tensor_split([self.first.out_features], 1)
        with torch.no_grad():
            offset = on_hidden @ F.relu(self.first(a)).T
            return on_features.clone(memory_format=torch.contiguous_format), offset.T + self.second.bias


class FixedTower(nn.Module):
    """The tower at a fixed row a: a linear layer on φ and a ReLU."""

    def __init__(self, tower: Tower, a: Tensor) -> None:
        super().__init__()
        on_features, offset = tower.split_at(a[None])
        self.on_features, self.offset, self.skip = nn.Buffer(on_features), nn.Buffer(offset[0]), tower.skip

    def forward(self, features: Tensor) -> Tensor:
        """Return ψ for features [n, F]."""
        psi = F.relu(F.linear(features, self.on_features) + self.offset)
        return torch.cat([psi, features], -1) if self.skip else psi


@dataclass(frozen=True)
class Parts:
    """Make the parts of a network. Every call returns a newly initialized part.

    Parameters
    ----------
    trunk : callable
        Makes a trunk φ(x).
    features : int
        Width of φ(x).
    privileged : int
        Number of privileged features.
    outputs : int
        Number of outputs of a plain head: classes, labels, or 1 for regression.
    likelihood : Likelihood
        The likelihood of the labels.
    annotators : int
        Number of annotators, for methods that have parameters for each of them.
    tower_widths : (int, int)
        Widths of the layers of the tower. Networks that see only a have one layer of the first width.
    tower_skip : bool
        Whether the head on the tower also sees the features directly (see `lupi.nn.Tower`).
    predicts : {"truth", "labels"}
        What methods that can predict either are to predict: the true label, or how people would answer.
    odd : bool
        Whether φ is an odd function, as in `lupi.nn.Pairwise`. Plain heads on it then have no bias, so that they are
        odd too.

    Examples
    --------
    >>> from lupi.likelihoods import Categorical
    >>> from lupi.nn import MLP
    >>> parts = Parts(lambda: MLP(5, (8,)), features=8, privileged=3, outputs=2, likelihood=Categorical())
    >>> parts.head()
    Linear(in_features=8, out_features=2, bias=True)
    """

    trunk: Callable[[], nn.Module]
    _: KW_ONLY
    features: int
    privileged: int
    outputs: int
    likelihood: Likelihood
    annotators: int = 1
    tower_widths: tuple[int, int] = (64, 64)
    tower_skip: bool = False
    predicts: str = "truth"
    odd: bool = False

    def __post_init__(self) -> None:
        binary = isinstance(self.likelihood, Bernoulli) or (
            isinstance(self.likelihood, Categorical) and self.outputs == 2
        )
        if self.odd and not binary:
            got = f"{self.outputs} classes" if isinstance(self.likelihood, Categorical) else self.likelihood.y
            raise ValueError(f"Expected y to have two classes, since the trunk compares pairs, but got {got}.")

    def tower(self, random: int = 0) -> Tower:
        """Make a tower for privileged information followed by `random` random features."""
        return Tower(self.privileged + random, self.features, self.tower_widths, skip=self.tower_skip)

    @property
    def tower_features(self) -> int:
        """Width of the tower's output."""
        return self.tower_widths[1] + self.features * self.tower_skip

    def head(self) -> nn.Linear:
        """Make a plain head on the features."""
        return nn.Linear(self.features, self.outputs, bias=not self.odd)

    def tower_head(self) -> nn.Linear:
        """Make a plain head on the tower."""
        return nn.Linear(self.tower_features, self.outputs)

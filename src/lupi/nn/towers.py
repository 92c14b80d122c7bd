"""The tower ψ(φ(x), a), which combines features and privileged information."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


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

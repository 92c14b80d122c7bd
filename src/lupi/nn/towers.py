"""The tower ψ(φ(x), a), which joins features and privileged information."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Tower(nn.Module):
    r"""The tower of the paper: layer 1 sees a alone, layer 2 sees [layer 1, φ(x)].

    ψ = relu(W₂ [relu(W₁ a + b₁), φ] + b₂). Layer 2 is affine in [layer 1, φ]. For a fixed a it is therefore a linear
    layer on φ plus an offset (`split_at`), which is computed once per row of a.

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
        """Return ψ for pairs of features [n, F] and privileged information [n, P]."""
        hidden = F.relu(self.first(a))
        psi = F.relu(self.second(torch.cat([hidden, features], -1)))
        return append_features(psi, features) if self.skip else psi

    def split_at(self, a: Tensor) -> tuple[nn.Linear, Tensor]:
        """Split layer 2 for fixed rows a [S, P] into a layer on φ and one offset per row, [S, width]."""
        split = self.first.out_features
        inputs, outputs, dtype = self.second.in_features - split, self.second.out_features, self.second.weight.dtype
        on_features = nn.Linear(inputs, outputs, bias=False, device="meta", dtype=dtype)  # draws no random number
        on_features.to_empty(device=a.device)
        with torch.no_grad():
            on_features.weight.copy_(self.second.weight[:, split:])
            offset = self.second.weight[:, :split] @ F.relu(self.first(a)).T
            return on_features, offset.T + self.second.bias


class FixedTower(nn.Module):
    """The tower at one fixed row a: a linear layer on φ alone, and a ReLU."""

    def __init__(self, tower: Tower, a: Tensor) -> None:
        super().__init__()
        self.on_features, offset = tower.split_at(a[None])
        self.offset = nn.Buffer(offset[0])
        self.skip = tower.skip

    def forward(self, features: Tensor) -> Tensor:
        """Return ψ for features [n, F]."""
        psi = F.relu(self.on_features(features) + self.offset)
        return append_features(psi, features) if self.skip else psi


def append_features(psi: Tensor, features: Tensor) -> Tensor:
    """Return [ψ, φ(x)]."""
    return torch.cat([psi, features.expand(*psi.shape[:-1], -1)], -1)

"""The tower ψ(φ(x), a): where privileged information meets the features."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lupi.nn.layers import Linear


class Tower(nn.Module):
    r"""The tower of the paper: layer 1 sees a alone, layer 2 sees [layer 1, φ(x)].

    ψ = relu(W₂ [relu(W₁ a + b₁), φ] + b₂). Layer 2 is affine in [layer 1, φ], so that for a fixed a it is φ's
    share plus an offset (`at`): what depends on a alone is computed once per row of a.

    Parameters
    ----------
    privileged : int
        Number of privileged features.
    features : int
        Width of φ(x).
    widths : (int, int)
        Widths of the two layers.
    skip : bool
        Return [ψ, φ(x)] rather than ψ, as the paper does for ImageNet.

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
        self.first = Linear(privileged, widths[0])
        self.second = Linear(widths[0] + features, widths[1])
        self.skip = skip
        self.width = widths[1] + features * skip

    def forward(self, features: Tensor, a: Tensor) -> Tensor:
        """ψ for pairs of features [n, F] and privileged information [n, P]."""
        hidden = self.first(a, relu=True)
        return joined(self.second(torch.cat([hidden, features], -1), relu=True), features, self.skip)

    def at(self, a: Tensor) -> tuple[nn.Linear, Tensor]:
        """Split layer 2 for fixed rows a [S, P]: the layer on φ, and the offset that each row adds, [S, width]."""
        split = self.first.out_features
        inputs, outputs, dtype = self.second.in_features - split, self.second.out_features, self.second.weight.dtype
        on_features = nn.Linear(inputs, outputs, bias=False, device="meta", dtype=dtype)  # draws no random number
        on_features.to_empty(device=a.device)
        with torch.no_grad():
            on_features.weight.copy_(self.second.weight[:, split:])
            offset = self.second.weight[:, :split] @ self.first(a, relu=True).T
            return on_features, offset.T + self.second.bias


class FixedTower(nn.Module):
    """The tower where a is one fixed row: a layer on φ alone."""

    def __init__(self, tower: Tower, a: Tensor) -> None:
        super().__init__()
        self.on_features, offset = tower.at(a[None])
        self.offset = nn.Buffer(offset[0])
        self.skip = tower.skip

    def forward(self, features: Tensor) -> Tensor:
        """ψ for features [n, F]."""
        return joined(torch.relu_(self.on_features(features) + self.offset), features, self.skip)


def joined(psi: Tensor, features: Tensor, skip: bool) -> Tensor:
    """Put the features beside ψ where they skip the tower."""
    return torch.cat([psi, features.expand(*psi.shape[:-1], -1)], -1) if skip else psi

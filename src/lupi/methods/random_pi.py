"""Random privileged information, with which the tower can memorize wrong labels so that the trunk does not (TRAM++).

Ortiz-Jimenez, Collier, Nawalgaria, D'Amour, Berent, Jenatton and Kokiopoulou, "When does privileged information
explain away label noise?" (ICML 2023), https://arxiv.org/abs/2303.01806.
"""

import torch
from torch import Tensor, nn

from lupi._internal.checks import check_integer
from lupi.data import Annotations


class RandomPI(nn.Module):
    """Append r_i ~ N(0, I) to the privileged information of annotation i, the same in every call."""

    seed: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = check_integer("random", features, 0)
        self.register_buffer("seed", torch.randint(2**31, ()))  # a buffer, to be part of checkpoints

    def append(self, data: Annotations) -> Annotations:
        """Append the random features."""
        if self.features == 0:
            return data
        generator = torch.Generator().manual_seed(int(self.seed))
        r = torch.randn(len(data), self.features, generator=generator)
        return data.with_privileged(r.to(data.row.device))

    def append_zeros(self, data: Annotations) -> Annotations:
        """Append zeros instead, for held-out annotations."""
        return data.with_privileged(torch.zeros(len(data), self.features, device=data.row.device))

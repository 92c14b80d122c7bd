"""Mixup: train on points between annotations.

Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: Beyond empirical risk minimization" (ICLR 2018),
https://arxiv.org/abs/1710.09412.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import vmap

from lupi.data import Batch
from lupi.methods.base import Method


class Mixup(nn.Module):
    """The mixup losses of a method on pairs of annotations (x, a, y) and (x', a', y') of a batch.

    They are λ L(x̃, ã, y) + (1 − λ) L(x̃, ã, y') with x̃ = λ x + (1 − λ) x' and ã = λ a + (1 − λ) a'. If a loss is
    linear in y, this is the same as mixing y; otherwise it is the expected loss for a label that is y with probability
    λ. Each label has the weight of its annotation. The network runs once.

    Annotation i is paired with annotation (i + ⌊n / 2⌋) modulo n. The pairs are random because batches are shuffled.
    """

    def __init__(self, method: Method, leading: int) -> None:
        super().__init__()
        self.method, self.leading = method, leading

    def losses(self, batch: Batch, weight: Tensor) -> dict[str, Tensor]:
        """Return the mixup losses; `weight` is λ, one number or one per replica."""
        x = batch.x
        if not isinstance(x, Tensor):
            raise ValueError(f"Expected `x` to be one tensor with `mixup`, but got {', '.join(x)}.")
        for name, values in (("x", x), ("a", batch.a)):
            if not values.is_floating_point():
                raise ValueError(f"Expected `{name}` to be floating-point with `mixup`, but got {values.dtype}.")
        x = x if batch.one_to_one else x.index_select(self.leading, batch.row)
        row = torch.arange(batch.row.shape[0], device=batch.row.device)
        mixed = Batch(self.mix(x, weight), row, self.mix(batch.a, weight), batch.y, one_to_one=True)
        both = [None if own is None else torch.stack([own, self.partner(own)]) for own in (batch.y, batch.weight)]
        # Operations that do not depend on y, such as the trunk, are not batched by vmap and run once.
        losses = vmap(
            lambda y, weights: self.method.losses(mixed._replace(y=y, weight=weights)),
            in_dims=(0, None if batch.weight is None else 0),
            randomness="same",
        )(*both)
        return {name: weight * own + (1 - weight) * other for name, (own, other) in losses.items()}

    def mix(self, values: Tensor, weight: Tensor) -> Tensor:
        """Return λ v + (1 − λ) v'."""
        weight = weight.to(values.dtype)
        return self.partner(values).lerp(values, weight.reshape(*weight.shape, *[1] * (values.ndim - weight.ndim)))

    def partner(self, values: Tensor) -> Tensor:
        """Return the values of every annotation's partner."""
        return values.roll(-(values.shape[self.leading] // 2), self.leading)


def draw_weights(alpha: float, steps: int, entropy: Sequence[int]) -> Tensor:
    """Draw λ ~ Beta(α, α) for every step; `entropy` is the seed."""
    source = np.random.SeedSequence(entropy, spawn_key=(1,))  # independent of the order of batches
    return torch.from_numpy(np.random.default_rng(source).beta(alpha, alpha, steps).astype(np.float32))

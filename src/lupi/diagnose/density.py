"""Mixture density networks: the density of a real y given x and a may have several modes.

Bishop, "Mixture density networks" (1994).
"""

import math
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lupi._internal.arrays import Floats
from lupi.data import Annotations, Batch
from lupi.estimators import PrivilegedRegressor
from lupi.methods import Method
from lupi.nn import Parts, Tower
from lupi.nn.inference import over_annotations
from lupi.nn.parts import FixedTower

COMPONENTS = 8
"""Number of Gaussians in a mixture."""
SMALLEST_SCALE = 1e-2
"""Smallest standard deviation of a component, for a y with standard deviation 1."""


class MixtureDensity(Method):
    """Model the density of y as a mixture Σ_j π_j N(m_j, s_j²), whose parameters are functions of ψ(φ(x), a)."""

    gradients: ClassVar = {"conditional": ("trunk", "tower", "conditional")}
    places: Tensor

    def __init__(self, trunk: nn.Module, tower: Tower, conditional: nn.Module) -> None:
        super().__init__()
        self.trunk, self.tower, self.conditional = trunk, tower, conditional
        self.register_buffer("places", torch.linspace(-1.5, 1.5, COMPONENTS))

    def loss_per_annotation(self, batch: Batch) -> Tensor:
        """Return −log q(y | x, a) of each annotation, for a y with mean 0 and standard deviation 1."""
        output = self.conditional(self.tower(batch.spread(self.trunk(batch.x)), batch.a))
        weight, mean, scale = output.chunk(3, -1)
        scale = F.softplus(scale) + SMALLEST_SCALE
        z = (batch.y[:, None] - self.places - mean) / scale  # components that start apart do not collapse
        log_component = -0.5 * z.square() - scale.log() - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(torch.log_softmax(weight, -1) + log_component, -1)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the mean of −log q(y | x, a)."""
        return {"conditional": batch.mean(self.loss_per_annotation(batch))}

    def predictor(self) -> nn.Module:
        """Return the network of x that outputs the parameters of the density at a = 0."""
        blank = self.places.new_zeros(self.tower.first.in_features)
        return nn.Sequential(self.trunk, FixedTower(self.tower, blank), self.conditional)


def make_mixture(parts: Parts) -> MixtureDensity:
    """Build a mixture density network from parts."""
    return MixtureDensity(parts.trunk(), parts.tower(), nn.Linear(parts.tower_features, 3 * COMPONENTS))


def density_losses(model: PrivilegedRegressor, X: Any, y: Floats, A: Any) -> Floats:
    """Return −log q(y | x, a) of real numbers."""
    x = model._encode_inputs(model._read_inputs(X, reset=False))
    method: Any = model.method_
    data = Annotations(x, torch.arange(len(y)), model._encode_privileged(A, len(y)), model.target_.code(y, "y"))
    losses = over_annotations(method, method.loss_per_annotation, data)
    return losses.double().cpu().numpy() + math.log(model._scale)

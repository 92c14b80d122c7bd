"""Zero and mean imputation: learn q(y | x, a) and predict at a fixed a."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from lupi.data import Annotations
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import ConditionalMethod
from lupi.nn import Parts, Tower
from lupi.nn.parts import FixedTower


class ZeroImputation(ConditionalMethod):
    """Learn q(y | x, a) and predict with q(y | x, a = 0).

    Parameters
    ----------
    trunk : Module
        φ(x).
    tower : Tower
        ψ(φ, a).
    conditional : Module
        Head on ψ.
    likelihood : Likelihood
        The likelihood of the labels.
    """

    name: ClassVar = "zero-imputation"
    title: ClassVar = "Zero imputation"
    imputed: Tensor

    def __init__(
        self, trunk: nn.Module, tower: Tower, conditional: nn.Module, *, likelihood: Likelihood = Categorical()
    ) -> None:
        super().__init__(trunk, tower, conditional, likelihood=likelihood)
        self.register_buffer("imputed", torch.zeros(tower.first.in_features))

    def predictor(self) -> nn.Module:
        """Return q(y | x, a) at the imputed a. The first layer of the tower is folded into an offset."""
        return nn.Sequential(self.trunk, FixedTower(self.tower, self.imputed), self.conditional)


class MeanImputation(ZeroImputation):
    """Learn q(y | x, a) and predict at the mean of the encoded a over the training set."""

    name: ClassVar = "mean-imputation"
    title: ClassVar = "Mean imputation"
    ships_privileged: ClassVar = True

    def observe(self, data: Annotations) -> None:
        """Compute the weighted mean of a."""
        self.imputed = data.mean_privileged().to(self.imputed)


def zero_imputation(parts: Parts) -> ZeroImputation:
    """Make the method "zero-imputation", in training a plain network with x and a as inputs."""
    return ZeroImputation(parts.trunk(), parts.tower(), parts.tower_head(), likelihood=parts.likelihood)


def mean_imputation(parts: Parts) -> MeanImputation:
    """Make the method "mean-imputation"."""
    return MeanImputation(parts.trunk(), parts.tower(), parts.tower_head(), likelihood=parts.likelihood)

"""Learn q(y | x, a) with a tower: shared by imputation, full marginalization and TRAM."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from lupi.data import Batch
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import Conditional
from lupi.nn import Tower


class ConditionalMethod(Conditional):
    """Learn q(y | x, a) with a tower; subclasses define how to predict without a.

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

    gradients: ClassVar = {"conditional": ("trunk", "tower", "conditional")}

    def __init__(
        self, trunk: nn.Module, tower: Tower, conditional: nn.Module, *, likelihood: Likelihood = Categorical()
    ) -> None:
        super().__init__()
        self.trunk, self.tower, self.conditional = trunk, tower, conditional
        self.likelihood = likelihood

    def given(self, batch: Batch) -> Tensor:
        """Return q(y | x, a)."""
        return self.conditional(self.tower(batch.spread(self.trunk(batch.x)), batch.a))  # type: ignore[no-any-return]

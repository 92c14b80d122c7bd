"""No PI: ordinary supervised learning, the baseline for all other methods."""

from typing import ClassVar

from torch import Tensor, nn

from lupi.data import Batch
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import Method
from lupi.nn import Parts


class NoPI(Method):
    """Learn q(y | x) with the loss L(y, q(y | x)), and predict with it.

    Parameters
    ----------
    trunk : Module
        φ(x).
    marginal : Module
        Head on φ(x).
    likelihood : Likelihood
        The likelihood of the labels.
    """

    name: ClassVar = "no-pi"
    title: ClassVar = "No PI"
    uses_privileged: ClassVar = False
    needs_privileged: ClassVar = False
    by_row: ClassVar = True
    gradients: ClassVar = {"marginal": ("trunk", "marginal")}

    def __init__(self, trunk: nn.Module, marginal: nn.Module, *, likelihood: Likelihood = Categorical()) -> None:
        super().__init__()
        self.trunk, self.marginal = trunk, marginal
        self.likelihood = likelihood

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return L(y, q(y | x))."""
        marginal = batch.spread(self.marginal(self.trunk(batch.x)))
        return {"marginal": self.likelihood.loss(marginal, batch.y, batch.weight)}


def no_pi(parts: Parts) -> NoPI:
    """Make the method "no-pi"."""
    return NoPI(parts.trunk(), parts.head(), likelihood=parts.likelihood)

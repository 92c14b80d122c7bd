"""MIML-FCN+: a network on privileged information predicts the loss, as SVM+ predicts its slack.

Yang, Zhou, Cai and Ong, "MIML-FCN+: Multi-instance multi-label learning via fully convolutional networks with
privileged information" (CVPR 2017), https://arxiv.org/abs/1702.08681.
"""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from lupi._internal.checks import check_number
from lupi.data import Batch
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import Method
from lupi.nn import MLP, Parts


class MIMLFCNPlus(Method):
    """Train q(y | x) so that its loss on each annotation can be predicted from a.

    The loss is mean[ℓ + λ (ℓ − s(a))²] with ℓ = L(y, q(y | x)) and s = softplus(slack(a)) ≥ 0. The two networks share
    no weights.

    Parameters
    ----------
    trunk : Module
        φ(x).
    marginal : Module
        Head on φ(x).
    slack : Module
        Maps a to a single number.
    likelihood : Likelihood
        The likelihood of the labels.
    weight : float
        λ, the weight of the second term.
    """

    name: ClassVar = "miml-fcn-plus"
    title: ClassVar = "MIML-FCN+"
    gradients: ClassVar = {"marginal": ("trunk", "marginal"), "slack": ("trunk", "marginal", "slack")}

    def __init__(
        self,
        trunk: nn.Module,
        slack: nn.Module,
        marginal: nn.Module,
        *,
        likelihood: Likelihood = Categorical(),
        weight: float = 0.1,
    ) -> None:
        super().__init__()
        self.trunk, self.slack, self.marginal = trunk, slack, marginal
        self.likelihood, self.weight = likelihood, check_number("weight", weight)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return ℓ and λ (ℓ − s(a))²."""
        loss = self.likelihood.loss_per_annotation(batch.spread(self.marginal(self.trunk(batch.x))), batch.y)
        slack = F.softplus(self.slack(batch.a)).squeeze(-1)
        return {"marginal": batch.mean(loss), "slack": self.weight * batch.mean((loss - slack).square())}


def miml_fcn_plus(parts: Parts, *, weight: float = 0.1) -> MIMLFCNPlus:
    """Make the method "miml-fcn-plus"."""
    slack = MLP(parts.privileged, parts.tower_widths, 1)
    return MIMLFCNPlus(parts.trunk(), slack, parts.head(), likelihood=parts.likelihood, weight=weight)

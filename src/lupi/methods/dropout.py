"""Heteroscedastic dropout: the scale of Gaussian dropout is a function of privileged information.

Lambert, Sener and Savarese, "Deep learning under privileged information using heteroscedastic dropout" (CVPR
2018), https://arxiv.org/abs/1805.11614.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lupi._internal.checks import check_number
from lupi.data import Batch
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import Method
from lupi.nn import MLP, Parts


class HeteroscedasticDropout(Method):
    r"""Multiply the features by noise 1 + σ(a) ε in training, with σ(a) ∈ (0, 1), and predict without noise.

    The loss is L(y, q(y | φ(x)·(1 + σ(a) ε))) − λ mean log σ(a). Up to a constant, the penalty is that of information
    dropout, the KL divergence from a log-uniform prior. It rewards noise everywhere; the first term reduces the noise
    where a indicates that the label is reliable.

    The authors' code has a penalty of the opposite sign: it adds a multiple of the norm ‖σ(a)‖₂, with an unbounded
    σ(a) on two layers (``loss_fn_of_xstar`` in https://github.com/johnwlambert/dlupi-heteroscedastic-dropout). There,
    both terms favour less noise, and without noise the method reduces to No PI. Here the penalty keeps the noise from
    vanishing, so values of `penalty` and results are not comparable with theirs.

    Parameters
    ----------
    trunk : Module
        φ(x).
    marginal : Module
        Head on φ(x).
    scale : Module
        Maps a to the logit of σ(a), one per feature.
    likelihood : Likelihood
        The likelihood of the labels.
    penalty : float
        λ, the weight of the penalty.
    """

    name: ClassVar = "heteroscedastic-dropout"
    title: ClassVar = "Heteroscedastic dropout (Lambert et al.)"
    gradients: ClassVar = {"marginal": ("trunk", "scale", "marginal"), "penalty": ("scale",)}

    def __init__(
        self,
        trunk: nn.Module,
        scale: nn.Module,
        marginal: nn.Module,
        *,
        likelihood: Likelihood = Categorical(),
        penalty: float = 0.1,
    ) -> None:
        super().__init__()
        self.trunk, self.scale, self.marginal = trunk, scale, marginal
        self.likelihood, self.penalty = likelihood, check_number("penalty", penalty)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss on noisy features and the penalty on the scale."""
        features = batch.spread(self.trunk(batch.x))
        log_scale = F.logsigmoid(self.scale(batch.a))
        if self.training:
            noise = torch.randn_like(features)
            features = features * (1 + log_scale.exp() * noise)
        return {
            "marginal": self.likelihood.loss(self.marginal(features), batch.y, batch.weight),
            "penalty": -self.penalty * batch.mean(log_scale),
        }


def heteroscedastic_dropout(parts: Parts, *, penalty: float = 0.1) -> HeteroscedasticDropout:
    """Make the method "heteroscedastic-dropout"."""
    scale = MLP(parts.privileged, parts.tower_widths[:1], parts.features)
    return HeteroscedasticDropout(parts.trunk(), scale, parts.head(), likelihood=parts.likelihood, penalty=penalty)

"""Pi-DUAL: a gate on privileged information chooses between a clean label and a noise label.

Wang, Ortiz-Jimenez, Jenatton, Collier, Kokiopoulou and Frossard, "Pi-DUAL: Using privileged information to
distinguish clean from noisy labels" (ICML 2024), https://arxiv.org/abs/2310.06600.
"""

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn

from lupi._internal.checks import check_integer
from lupi.data import Annotations, Batch
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import Conditional, Stage
from lupi.methods.tram import RandomPI
from lupi.nn import MLP, Parts


class PiDUAL(Conditional):
    r"""Train the logits (1 − γ(a)) f(x) + γ(a) ε(a), and predict with f(x).

    Both γ(a) = sigmoid(gate(a)) and 1 − softmax(f(x))[y] can serve as scores of how likely a label is wrong.

    Parameters
    ----------
    trunk : Module
        φ(x).
    marginal : Module
        Head on φ(x), which gives f(x).
    gate : Module
        Maps a, followed by its random features, to the logit of γ(a).
    noise : Module
        Maps a, followed by its random features, to ε(a).
    likelihood : Likelihood
        The likelihood of the labels.
    random : int
        Number of random features appended to a.
    """

    name: ClassVar = "pi-dual"
    title: ClassVar = "Pi-DUAL"
    predicts_truth: ClassVar = True
    by_row: ClassVar = True
    gradients: ClassVar = {"conditional": ("trunk", "marginal", "gate", "noise")}

    def __init__(
        self,
        trunk: nn.Module,
        marginal: nn.Module,
        gate: nn.Module,
        noise: nn.Module,
        *,
        likelihood: Likelihood = Categorical(),
        random: int = 0,
    ) -> None:
        super().__init__()
        self.trunk, self.marginal, self.gate, self.noise = trunk, marginal, gate, noise
        self.likelihood = likelihood
        self.random_pi = RandomPI(random)
        self.random = self.random_pi.features

    def conditional_output(self, batch: Batch) -> Tensor:
        """Return (1 − γ) f + γ ε."""
        clean = batch.spread(self.marginal(self.trunk(batch.x)))
        return torch.lerp(clean, self.noise(batch.a), torch.sigmoid(self.gate(batch.a)))

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield one stage, with random features appended to a."""
        yield Stage("train", self, self.random_pi.append, self.random_pi.append_zeros)


def pi_dual(parts: Parts, *, random: int = 16) -> PiDUAL:
    """Make the method "pi-dual"."""
    inputs = parts.privileged + check_integer("random", random, 0)
    trunk, marginal, gate = parts.trunk(), parts.head(), MLP(inputs, parts.tower_widths, 1)
    noise = MLP(inputs, parts.tower_widths, parts.outputs)
    return PiDUAL(trunk, marginal, gate, noise, likelihood=parts.likelihood, random=random)

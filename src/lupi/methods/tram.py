"""TRAM: transfer by weight sharing, marginalize with a second head.

Collier, Jenatton, Kokiopoulou and Berent, "Transfer and marginalize: explaining away label noise with privileged
information" (ICML 2022), https://arxiv.org/abs/2202.09244.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lupi._internal.checks import check_integer, check_number
from lupi.data import Annotations, Batch
from lupi.likelihoods import Categorical, Likelihood
from lupi.methods.base import ConditionalMethod, Stage
from lupi.methods.imputation import ZeroImputation
from lupi.methods.no_pi import NoPI
from lupi.nn import Parts, Tower, heteroscedastic_head
from lupi.nn.inference import over_examples


class TRAM(ConditionalMethod):
    r"""Train the trunk through a conditional head, and ship a marginal head behind a stop-gradient.

    The loss is L₂(y, q(y | stop_gradient(φ(x)))) + β L₁(y, q(y | x, a)). The two terms train disjoint parameters.

    Parameters
    ----------
    trunk : Module
        φ(x).
    tower : Tower
        ψ(φ, a).
    conditional : Module
        Head on ψ.
    marginal : Module
        Head on φ(x).
    likelihood : Likelihood
        The likelihood of the labels.
    beta : float
        β. Since the parameters are disjoint, it only rescales the learning rate of the trunk, tower and conditional
        head.
    random : int
        Number of random features appended to a (TRAM++).

    Examples
    --------
    >>> import torch
    >>> from lupi.nn import MLP, Tower
    >>> tram = TRAM(MLP(5), Tower(privileged=3, features=64), nn.Linear(64, 2), nn.Linear(64, 2))
    >>> batch = Batch(torch.ones(4, 5), torch.tensor([0, 1, 2, 3, 3]), torch.ones(5, 3), torch.tensor([0, 1, 1, 1, 0]))
    >>> tram(batch).backward()
    >>> tram.predictor()(batch.x).shape
    torch.Size([4, 2])
    """

    name: ClassVar = "tram"
    title: ClassVar = "TRAM"
    by_row: ClassVar = True
    gradients: ClassVar = {"marginal": ("marginal",), "conditional": ("trunk", "tower", "conditional")}

    def __init__(
        self,
        trunk: nn.Module,
        tower: Tower,
        conditional: nn.Module,
        marginal: nn.Module,
        *,
        likelihood: Likelihood = Categorical(),
        beta: float = 1.0,
        random: int = 0,
    ) -> None:
        super().__init__(trunk, tower, conditional, likelihood=likelihood)
        self.marginal, self.beta = marginal, check_number("beta", beta)
        self.random_pi = RandomPI(random)
        self.random = self.random_pi.features

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss L₂ of the marginal head and β L₁ of the conditional head."""
        of_conditional, of_marginal = self.targets(batch)
        features = self.trunk(batch.x)
        conditional = self.conditional(self.tower(batch.spread(features), batch.a))
        marginal = batch.spread(self.marginal(features.detach()))
        loss = self.likelihood.loss(conditional, of_conditional, batch.weight)
        if self.beta != 1:  # multiplying by 1 would launch two kernels per step on a GPU
            loss = self.beta * loss
        return {"marginal": self.likelihood.loss(marginal, of_marginal, batch.weight), "conditional": loss}

    def targets(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the targets of the conditional head and of the marginal head."""
        return batch.y, batch.y

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield one stage, with random features appended to a."""
        yield Stage("train", self, self.random_pi.append, self.random_pi.append_zeros)


class TwoStepTRAM(TRAM):
    """Train TRAM in two steps: first φ, ψ and the conditional head; then, with φ frozen, the marginal head."""

    name: ClassVar = "two-step-tram"
    title: ClassVar = "Two-step TRAM"

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield the stage of the conditional head, then that of the marginal head on precomputed features."""
        transfer = ZeroImputation(self.trunk, self.tower, self.conditional, likelihood=self.likelihood)
        yield Stage("transfer", transfer, self.random_pi.append, self.random_pi.append_zeros)
        marginalize = NoPI(nn.Identity(), self.marginal, likelihood=self.likelihood)
        yield Stage(
            "marginalize",
            marginalize,
            lambda data: replace(data, x=over_examples(self.trunk, data.x)),
            adapt=lambda settings: replace(settings, augment=None),  # x are features
        )


class HetTRAM(TRAM):
    """TRAM with one or two heteroscedastic heads."""

    name: ClassVar = "het-tram"
    title: ClassVar = "Het-TRAM"


class TRAMPlusPlus(TRAM):
    """TRAM with random features appended to a (Ortiz-Jimenez et al., 2023)."""

    name: ClassVar = "tram-plus-plus"
    title: ClassVar = "TRAM++"


def tram(parts: Parts, *, beta: float = 1.0) -> TRAM:
    """Make the method "tram"."""
    return TRAM(parts.trunk(), parts.tower(), parts.tower_head(), parts.head(), likelihood=parts.likelihood, beta=beta)


def two_step_tram(parts: Parts) -> TwoStepTRAM:
    """Make the method "two-step-tram"."""
    return TwoStepTRAM(parts.trunk(), parts.tower(), parts.tower_head(), parts.head(), likelihood=parts.likelihood)


def het_tram(
    parts: Parts,
    *,
    beta: float = 1.0,
    heads: Literal["both", "conditional", "marginal"] = "both",
    factors: int = 4,
    temperature: float = 3.0,
    samples: int = 100,
) -> HetTRAM:
    """Make the method "het-tram"."""
    if heads not in ("both", "conditional", "marginal"):
        raise ValueError(f"Expected `heads` to be 'both', 'conditional' or 'marginal', but got {heads!r}.")

    def noisy(features: int) -> nn.Module:
        return heteroscedastic_head(
            features, parts.outputs, parts.likelihood, factors=factors, temperature=temperature, samples=samples
        )

    conditional = parts.tower_head() if heads == "marginal" else noisy(parts.tower_features)
    marginal = parts.head() if heads == "conditional" else noisy(parts.features)
    return HetTRAM(parts.trunk(), parts.tower(), conditional, marginal, likelihood=parts.likelihood, beta=beta)


def tram_plus_plus(parts: Parts, *, beta: float = 1.0, random: int = 16) -> TRAMPlusPlus:
    """Make the method "tram-plus-plus"."""
    trunk, tower = parts.trunk(), parts.tower(check_integer("random", random, 0))
    heads = parts.tower_head(), parts.head()
    return TRAMPlusPlus(trunk, tower, *heads, likelihood=parts.likelihood, beta=beta, random=random)


class RandomPI(nn.Module):
    """Append r_i ~ N(0, I) to the privileged information of annotation i, the same in every call.

    The tower can memorize wrong labels with it, so that the trunk does not (TRAM++).

    Ortiz-Jimenez, Collier, Nawalgaria, D'Amour, Berent, Jenatton and Kokiopoulou, "When does privileged information
    explain away label noise?" (ICML 2023), https://arxiv.org/abs/2303.01806.
    """

    seed: Tensor

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = check_integer("random", features, 0)
        self.register_buffer("seed", torch.randint(2**31, (), device="cpu"))  # a buffer, to be part of checkpoints

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

"""Ensembles: several networks of one method with averaged predictions."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from lupi.data import Annotations, Batch
from lupi.likelihoods import Likelihood
from lupi.methods.base import Group, Stage, join_stages


class Ensemble(Group):
    """Train several networks of one method independently, stacked where that is faster, and average their predictions.

    Parameters
    ----------
    members : sequence of Method
        Networks of one method, with different initial weights.

    Examples
    --------
    >>> from lupi.methods import NoPI
    >>> ensemble = Ensemble([NoPI(nn.Identity(), nn.Linear(4, 2)) for member in range(5)])
    >>> ensemble.predictor()(torch.eye(4)).shape
    torch.Size([4, 2])
    """

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the mean of each loss over the members."""
        every = [member.losses(batch) for member in self.members]
        return {name: torch.stack([losses[name] for losses in every]).mean() for name in every[0]}

    def observe(self, data: Annotations) -> None:
        """Let every member observe the data."""
        for member in self.members:
            member.observe(data)

    def stages(self, data: Annotations) -> Iterator[Stage]:
        """Yield the stages, each joined over all members."""
        for stages in zip(*(member.stages(data) for member in self.members), strict=True):
            yield join_stages(stages, lambda data: [data] * len(self.members))

    def predictor(self) -> nn.Module:
        """Return the average of the members' predictions."""
        return Average([member.predictor() for member in self.members], self.likelihood)


class Average(nn.Module):
    """Average the distributions of several predictors, and return the average as one output tensor."""

    def __init__(self, predictors: Sequence[nn.Module], likelihood: Likelihood) -> None:
        super().__init__()
        self.predictors, self.likelihood = nn.ModuleList(predictors), likelihood

    def forward(self, x: Tensor) -> Tensor:
        """Return the output tensor of the mixture with equal weights."""
        moments = torch.stack([self.likelihood.moments(predictor(x)) for predictor in self.predictors])
        return self.likelihood.from_moments(moments.mean(0))


class Mixture(nn.Module):
    """Mix the averages of several groups of classifiers."""

    weights: Tensor

    def __init__(self, groups: Sequence[Sequence[nn.Module]], likelihood: Likelihood, weights: Tensor) -> None:
        super().__init__()
        self.groups = nn.ModuleList(Average(group, likelihood) for group in groups)
        self.likelihood = likelihood
        self.register_buffer("weights", weights)

    def forward(self, x: Tensor) -> Tensor:
        """Return the output tensor of the mixture."""
        outputs = zip(self.groups, self.weights, strict=True)
        mixed = [weight * self.likelihood.moments(group(x)) for group, weight in outputs]
        return self.likelihood.from_moments(torch.stack(mixed).sum(0))

"""What a head's output tensor means: the distribution of y that it stands for.

A likelihood has no state. Every function takes the one tensor that a head returns. Targets may be hard labels or
the means that another model predicts for them, since each loss is linear in the target up to a constant (that of
a Gaussian where its variance is fixed).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

SMALLEST = 1e-7
"""Averaged probabilities are clipped here before their logarithm is taken."""


class Likelihood(ABC):
    """The distribution of y that an output tensor stands for."""

    y: ClassVar[str]
    """What y is, in words."""

    @abstractmethod
    def each(self, output: Tensor, y: Tensor) -> Tensor:
        """Negative log-likelihood of each annotation, [annotations]."""

    @abstractmethod
    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Mean of `each`."""

    @abstractmethod
    def mean(self, output: Tensor, temperature: float = 1.0) -> Tensor:
        """Expected y: probabilities, of the logits over a temperature, or the mean of a Gaussian."""

    @abstractmethod
    def target(self, y: Tensor, outputs: int) -> Tensor:
        """Labels in the form of `mean`."""

    @abstractmethod
    def moments(self, output: Tensor, dim: int = -1) -> Tensor:
        """Give the quantities whose average over a mixture describes it; the outputs are along `dim`."""

    @abstractmethod
    def from_moments(self, moments: Tensor) -> Tensor:
        """Give the output tensor of the distribution with these moments."""


@dataclass(frozen=True)
class Categorical(Likelihood):
    r"""One of K classes; the output is logits, [..., K]: −log softmax(output)[y].

    Examples
    --------
    >>> Categorical().loss(torch.zeros(2, 4), torch.tensor([1, 3])).exp()
    tensor(4.)
    """

    y: ClassVar = "one of several classes"

    def each(self, output: Tensor, y: Tensor) -> Tensor:
        """−log p(y); y holds classes [n], or distributions over them [n, K]."""
        return F.cross_entropy(output, y, reduction="none")

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Mean of −log p(y)."""
        return F.cross_entropy(output, y)

    def mean(self, output: Tensor, temperature: float = 1.0) -> Tensor:
        """Probabilities of the classes."""
        return torch.softmax(output / temperature, -1)

    def target(self, y: Tensor, outputs: int) -> Tensor:
        """One-hot labels."""
        return F.one_hot(y, outputs).float()

    def moments(self, output: Tensor, dim: int = -1) -> Tensor:
        """Probabilities."""
        return torch.softmax(at_least_float32(output), dim)

    def from_moments(self, moments: Tensor) -> Tensor:
        """Log-probabilities, which are logits."""
        return moments.clamp_min(SMALLEST).log()


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """L labels that are on or off; the output is logits, [..., L]; the loss is averaged over the labels.

    Examples
    --------
    >>> Bernoulli().loss(torch.zeros(2, 3), torch.ones(2, 3)).exp()
    tensor(2.)
    """

    y: ClassVar = "labels that are on or off"

    def each(self, output: Tensor, y: Tensor) -> Tensor:
        """−log p(y), averaged over the labels; y holds 0, 1 or probabilities, [n, L]."""
        return F.binary_cross_entropy_with_logits(output, y, reduction="none").mean(-1)

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Mean of −log p(y)."""
        return F.binary_cross_entropy_with_logits(output, y)

    def mean(self, output: Tensor, temperature: float = 1.0) -> Tensor:
        """Probabilities of the labels being on."""
        return torch.sigmoid(output / temperature)

    def target(self, y: Tensor, outputs: int) -> Tensor:  # noqa: ARG002 - the other likelihoods' signature
        """Labels as they are."""
        return y

    def moments(self, output: Tensor, dim: int = -1) -> Tensor:  # noqa: ARG002 - each label is on its own
        """Probabilities."""
        return torch.sigmoid(at_least_float32(output))

    def from_moments(self, moments: Tensor) -> Tensor:
        """Logits."""
        return torch.logit(moments, SMALLEST)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    r"""A real number; the output is the mean, [..., 1], with variance 1, or mean and variance, [..., 2].

    −log p(y) = ½ log 2πσ² + (y − μ)²/2σ².

    Examples
    --------
    >>> Gaussian().each(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
    tensor([0.9189, 2.9189])
    """

    y: ClassVar = "a real number"

    def each(self, output: Tensor, y: Tensor) -> Tensor:
        """−log p(y); y holds real numbers, [n]."""
        squared = (y - output[..., 0]).square()
        if output.shape[-1] == 1:
            return 0.5 * (squared + math.log(2 * math.pi))
        variance = output[..., 1]
        return 0.5 * (squared / variance + torch.log(2 * math.pi * variance))

    def loss(self, output: Tensor, y: Tensor) -> Tensor:
        """Mean of −log p(y)."""
        return self.each(output, y).mean()

    def mean(self, output: Tensor, temperature: float = 1.0) -> Tensor:  # noqa: ARG002 - nothing to soften
        """Mean; a temperature changes nothing."""
        return output[..., 0]

    def target(self, y: Tensor, outputs: int) -> Tensor:  # noqa: ARG002 - the other likelihoods' signature
        """Labels as they are."""
        return y

    def moments(self, output: Tensor, dim: int = -1) -> Tensor:
        """Mean and, where there is a variance, second moment."""
        if output.shape[dim] == 1:
            return output
        mean, variance = output.narrow(dim, 0, 1), output.narrow(dim, 1, 1)
        return torch.cat([mean, variance + mean.square()], dim)

    def from_moments(self, moments: Tensor) -> Tensor:
        """Mean and variance."""
        if moments.shape[-1] == 1:
            return moments
        mean, second = moments[..., :1], moments[..., 1:]
        return torch.cat([mean, (second - mean.square()).clamp_min(SMALLEST)], -1)


def at_least_float32(output: Tensor) -> Tensor:
    """Leave bfloat16, in which probabilities near 1 are 1."""
    return output.to(torch.promote_types(output.dtype, torch.float32))

"""Likelihoods, which map the output tensor of a head to the distribution of y.

Likelihoods are stateless, and each function takes the single tensor that a head returns. Targets may be hard labels or
means predicted by another model, since each loss is linear in the target up to a constant (for a Gaussian, if its
variance is fixed).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["Bernoulli", "Categorical", "Gaussian", "Likelihood", "Ordinal"]

MIN_MOMENT = 1e-7
"""Lower bound of probabilities and variances in `from_moments`. The gradient is zero below it."""


class Likelihood(ABC):
    """The distribution of y given an output tensor."""

    y: ClassVar[str]
    """Description of y."""

    @abstractmethod
    def loss_per_annotation(self, output: Tensor, y: Tensor) -> Tensor:
        """Return the negative log-likelihood of each annotation, [annotations]."""

    def loss(self, output: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the mean of `loss_per_annotation`, multiplied by the weights of the annotations if there are any."""
        losses = self.loss_per_annotation(output, y)
        return losses.mean() if weight is None else (weight * losses).mean()

    @abstractmethod
    def mean(self, output: Tensor, temperature: float = 1.0) -> Tensor:
        """Return the expected y: probabilities, from logits divided by the temperature, or the mean of a Gaussian."""

    def target(self, y: Tensor, outputs: int) -> Tensor:  # noqa: ARG002 - `Categorical` needs it
        """Return labels in the form of `mean`."""
        return y

    @abstractmethod
    def moments(self, output: Tensor, dim: int = -1) -> Tensor:
        """Return moments that can be averaged to get those of a mixture; `dim` is the axis of outputs."""

    @abstractmethod
    def from_moments(self, moments: Tensor) -> Tensor:
        """Return the output tensor of the distribution with these moments."""


@dataclass(frozen=True)
class Categorical(Likelihood):
    r"""One of K classes, with logits [..., K] as output: −log p(y) = −log softmax(output)[y].

    Examples
    --------
    >>> Categorical().loss(torch.zeros(2, 4), torch.tensor([1, 3])).exp()
    tensor(4.)
    """

    y: ClassVar = "one of several classes"

    def loss_per_annotation(self, output: Tensor, y: Tensor) -> Tensor:
        """Return −log p(y) for classes y, [n], or distributions over classes, [n, K]."""
        return F.cross_entropy(output, y, reduction="none")

    def loss(self, output: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the weighted mean of −log p(y)."""
        return F.cross_entropy(output, y) if weight is None else super().loss(output, y, weight)

    def mean(self, output: Tensor, temperature: float = 1.0) -> Tensor:
        """Return class probabilities."""
        return torch.softmax(output / temperature, -1)

    def target(self, y: Tensor, outputs: int) -> Tensor:
        """Return one-hot labels; distributions over classes are returned unchanged."""
        return F.one_hot(y, outputs).float() if y.ndim == 1 else y

    def moments(self, output: Tensor, dim: int = -1) -> Tensor:
        """Return probabilities."""
        return torch.softmax(at_least_float32(output), dim)

    def from_moments(self, moments: Tensor) -> Tensor:
        """Return log-probabilities, which are logits."""
        return moments.clamp_min(MIN_MOMENT).log()

    def log_probabilities(self, output: Tensor, dim: int = -1) -> Tensor:
        """Return the log-probabilities of the classes; `dim` is the axis of outputs and of classes."""
        return torch.log_softmax(at_least_float32(output), dim)

    def from_log_probabilities(self, log_p: Tensor, dim: int = -1) -> Tensor:  # noqa: ARG002 - `Bernoulli` needs it
        """Return log-probabilities unchanged, since they are logits."""
        return log_p


@dataclass(frozen=True)
class Ordinal(Categorical):
    """One of K grades in order, such as those of a rating scale, with logits [..., K] as output.

    The loss is that of classes. The order counts where grades are decided and where annotators are modelled: `predict`
    returns the median grade, and annotators have a bias and a spread on the scale.

    Examples
    --------
    >>> isinstance(Ordinal(), Categorical)  # so every method for classes takes grades
    True
    """

    y: ClassVar = "grades of a rating scale"


@dataclass(frozen=True)
class Bernoulli(Likelihood):
    """L binary labels, with logits [..., L] as output; the loss is averaged over the labels.

    Examples
    --------
    >>> Bernoulli().loss(torch.zeros(2, 3), torch.ones(2, 3)).exp()
    tensor(2.)
    """

    y: ClassVar = "several binary labels"

    def loss_per_annotation(self, output: Tensor, y: Tensor) -> Tensor:
        """Return −log p(y), averaged over the labels, for labels 0 and 1 or probabilities, [n, L]."""
        return F.binary_cross_entropy_with_logits(output, y, reduction="none").mean(-1)

    def loss(self, output: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
        """Return the weighted mean of −log p(y)."""
        return F.binary_cross_entropy_with_logits(output, y) if weight is None else super().loss(output, y, weight)

    def mean(self, output: Tensor, temperature: float = 1.0) -> Tensor:
        """Return the probabilities that the labels are 1."""
        return torch.sigmoid(output / temperature)

    def moments(self, output: Tensor, dim: int = -1) -> Tensor:  # noqa: ARG002 - labels are independent
        """Return probabilities."""
        return torch.sigmoid(at_least_float32(output))

    def from_moments(self, moments: Tensor) -> Tensor:
        """Return logits."""
        return torch.logit(moments, MIN_MOMENT)

    def log_probabilities(self, output: Tensor, dim: int = -1) -> Tensor:
        """Return the log-probabilities of 0 and 1, along a new axis `dim`."""
        output = at_least_float32(output)
        # Avoid `logsigmoid`, which is exported to ONNX as the log of a sigmoid.
        return -torch.stack([F.softplus(output), F.softplus(-output)], dim)

    def from_log_probabilities(self, log_p: Tensor, dim: int = -1) -> Tensor:
        """Return the logits of labels whose log-probabilities of 0 and 1 are along the axis `dim`."""
        return log_p.select(dim, 1) - log_p.select(dim, 0)


@dataclass(frozen=True)
class Gaussian(Likelihood):
    r"""A real number, with its mean, [..., 1] (variance 1), or mean and variance, [..., 2], as output.

    −log p(y) = ½ log 2πσ² + (y − μ)²/2σ².

    Examples
    --------
    >>> Gaussian().loss_per_annotation(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
    tensor([0.9189, 2.9189])
    """

    y: ClassVar = "a real number"

    def loss_per_annotation(self, output: Tensor, y: Tensor) -> Tensor:
        """Return −log p(y) for real numbers y, [n]."""
        squared = (y - output[..., 0]).square()
        if output.shape[-1] == 1:
            return 0.5 * (squared + math.log(2 * math.pi))
        variance = output[..., 1]
        return 0.5 * (squared / variance + torch.log(2 * math.pi * variance))

    def mean(self, output: Tensor, temperature: float = 1.0) -> Tensor:  # noqa: ARG002 - nothing to soften
        """Return the mean, whatever the temperature."""
        return output[..., 0]

    def moments(self, output: Tensor, dim: int = -1) -> Tensor:
        """Return the mean and, if there is a variance, the second moment."""
        if output.shape[dim] == 1:
            return output
        mean, variance = output.narrow(dim, 0, 1), output.narrow(dim, 1, 1)
        return torch.cat([mean, variance + mean.square()], dim)

    def from_moments(self, moments: Tensor) -> Tensor:
        """Return the mean and the variance."""
        if moments.shape[-1] == 1:
            return moments
        mean, second = moments[..., :1], moments[..., 1:]
        return torch.cat([mean, (second - mean.square()).clamp_min(MIN_MOMENT)], -1)


def at_least_float32(output: Tensor) -> Tensor:
    """Convert bfloat16, in which probabilities near 1 are rounded to 1, to float32."""
    return output.to(torch.promote_types(output.dtype, torch.float32))

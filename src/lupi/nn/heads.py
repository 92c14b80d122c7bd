"""Heads, which map features to the output tensor of a likelihood. The plain head is `torch.nn.Linear`.

The heteroscedastic heads follow Collier et al., "Correlated input-dependent label noise in large-scale image
classification" (CVPR 2021), https://arxiv.org/abs/2105.10305.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lupi._internal.checks import check_integer, check_positive
from lupi.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, at_least_float32

MIN_SCALE = 1e-3
MANY_OUTPUTS = 1000
"""Number of outputs above which a head draws fewer samples."""
MAX_NOISY_LOGITS = 2**22
"""Maximum number of noisy logits in memory at once in evaluation, unless a single row has more."""


def limit_samples(samples: int, outputs: int) -> int:
    """Return the number of samples for a head: above 1000 outputs inversely proportional to them, at least a tenth."""
    return samples if outputs <= MANY_OUTPUTS else max(-(-samples // 10), samples * MANY_OUTPUTS // outputs)


def average_noisy_logits(
    likelihood: Categorical | Bernoulli,
    mean: Tensor,
    factor: Tensor | None,
    scale: Tensor,
    noise: tuple[Tensor, Tensor],
    temperature: float,
) -> Tensor:
    r"""Average the probabilities of the noisy logits u = μ + V ε_R + d ε_K, and return the average as logits.

    p = (1/S) Σ_s softmax(u_s / τ), with a sigmoid instead of the softmax for a `Bernoulli` likelihood. The average is
    computed with log-sum-exp, so that the gradient of a confidently wrong head does not vanish.
    """
    logits = mean.unsqueeze(-1) + scale.unsqueeze(-1) * noise[1].mT  # [n, K, S]: a softmax over a last dim K is slow
    if factor is not None:
        logits = logits + factor @ noise[0].mT
    log_p = likelihood.log_probabilities(logits / temperature, 1)
    return likelihood.from_log_probabilities(log_p.logsumexp(-1) - math.log(logits.shape[-1]), 1)


class HeteroscedasticHead(nn.Module):
    r"""Logits whose noise depends on the features: u = μ(φ) + V(φ) ε_R + d(φ) ε_K, with d = softplus(·) + 1e-3.

    Training draws new noise for every row. Evaluation uses noise drawn once, when the head is created, so predictions
    are reproducible and the exported graph contains no random operators.

    The time and memory of a training step are proportional to rows × outputs × samples. A head with more than 1000
    outputs therefore draws fewer samples, inversely proportional to the number of outputs, but at least a tenth. For
    5000 outputs these are by default 20 in training and 200 in evaluation. Evaluation processes blocks of rows with at
    most 4 million noisy logits each.

    Parameters
    ----------
    features : int
        Width of φ.
    outputs : int
        Number of classes or labels.
    likelihood : Categorical or Bernoulli
        The likelihood of the labels.
    factors : int
        R, the rank of the correlated noise; 0 for the diagonal head.
    temperature : float
        τ of the softmax or sigmoid.
    samples : int
        Number of noise samples in training, for up to 1000 outputs.
    evaluation_samples : int
        Number of noise samples in evaluation, for up to 1000 outputs.

    Examples
    --------
    >>> from lupi.likelihoods import Categorical
    >>> head = HeteroscedasticHead(8, 3, Categorical()).eval()
    >>> bool((head(torch.ones(2, 8)) == head(torch.ones(2, 8))).all())
    True
    """

    evaluation_noise: Tensor

    def __init__(
        self,
        features: int,
        outputs: int,
        likelihood: Categorical | Bernoulli,
        *,
        factors: int = 4,
        temperature: float = 3.0,
        samples: int = 100,
        evaluation_samples: int = 1000,
    ) -> None:
        super().__init__()
        check_integer("factors", factors, 0)
        self.likelihood = likelihood
        self.mean = nn.Linear(features, outputs)
        self.factor = nn.Linear(features, outputs * factors) if factors else None
        self.scale = nn.Linear(features, outputs)
        self.factors, self.outputs = factors, outputs
        self.temperature = check_positive("temperature", temperature)
        self.samples = limit_samples(check_integer("samples", samples, 1), outputs)
        drawn = limit_samples(evaluation_samples, outputs)
        noise = torch.empty(factors + outputs, drawn)
        # On the meta device, where models are loaded, drawing would import torch's compiler.
        self.register_buffer("evaluation_noise", noise if noise.is_meta else noise.normal_())

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits of the averaged probabilities."""
        mean = self.mean(features)
        factor = None if self.factor is None else self.factor(features).unflatten(-1, (self.outputs, self.factors))
        scale = F.softplus(self.scale(features)) + MIN_SCALE
        noise = self.evaluation_noise
        if self.training:
            rows, sources = features.shape[0], noise.shape[0]
            noise = torch.randn(rows, sources, self.samples, dtype=noise.dtype, device=noise.device)
        by_source = noise[..., : self.factors, :].mT, noise[..., self.factors :, :].mT
        if self.training or torch.compiler.is_compiling():  # an exported graph processes all rows at once
            return average_noisy_logits(self.likelihood, mean, factor, scale, by_source, self.temperature)
        every = torch.arange(features.shape[0], device=mean.device)
        blocks = torch.split(every, max(1, MAX_NOISY_LOGITS // noise.numel()))
        return torch.cat(
            [
                average_noisy_logits(
                    self.likelihood,
                    mean[rows],
                    None if factor is None else factor[rows],
                    scale[rows],
                    by_source,
                    self.temperature,
                )
                for rows in blocks
            ]
        )


def probit_logits(mean: Tensor, scale: Tensor) -> Tensor:
    """Return the logits of Φ(μ/s), the probability that μ + s ε is positive."""
    return Bernoulli().from_moments(0.5 * (1 + torch.erf(mean / (scale * math.sqrt(2)))))


class ProbitHead(nn.Module):
    """Heteroscedastic head for independent binary labels in closed form: p = Φ(μ(φ)/d(φ)).

    Parameters
    ----------
    features : int
        Width of φ.
    outputs : int
        Number of labels.
    """

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        self.mean = nn.Linear(features, outputs)
        self.scale = nn.Linear(features, outputs)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits.

        Evaluation clips the probabilities. Training does not, since clipped values have no gradient; it uses log Φ,
        which ONNX lacks.
        """
        mean = at_least_float32(self.mean(features))
        scale = at_least_float32(F.softplus(self.scale(features))) + MIN_SCALE
        if not self.training:
            return probit_logits(mean, scale)
        z: Tensor = mean / scale
        return torch.special.log_ndtr(z) - torch.special.log_ndtr(-z)  # type: ignore[no-any-return]


class GaussianHead(nn.Module):
    """Predict the mean and variance of a Gaussian: μ(φ) and softplus(w·φ + b) + 1e-3.

    Parameters
    ----------
    features : int
        Width of φ.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.mean = nn.Linear(features, 1)
        self.variance = nn.Linear(features, 1)

    def forward(self, features: Tensor) -> Tensor:
        """Return the mean and the variance, [n, 2]."""
        return torch.cat([self.mean(features), F.softplus(self.variance(features)) + MIN_SCALE], -1)


def heteroscedastic_head(
    features: int,
    outputs: int,
    likelihood: Likelihood,
    *,
    factors: int = 4,
    temperature: float = 3.0,
    samples: int = 100,
) -> nn.Module:
    """Make the heteroscedastic head for a likelihood.

    Parameters
    ----------
    features : int
        Width of φ.
    outputs : int
        Number of classes or labels.
    likelihood : Likelihood
        The likelihood of the labels.
    factors : int
        Rank of the correlated noise; 0 for independent noise.
    temperature : float
        Temperature of the softmax or sigmoid.
    samples : int
        Number of noise samples in training, for up to 1000 outputs; see `HeteroscedasticHead`.

    Examples
    --------
    >>> type(heteroscedastic_head(8, 1, Gaussian())).__name__
    'GaussianHead'
    """
    if isinstance(likelihood, Gaussian):
        return GaussianHead(features)
    if isinstance(likelihood, Bernoulli) and factors == 0:
        return ProbitHead(features, outputs)
    assert isinstance(likelihood, Categorical | Bernoulli)
    return HeteroscedasticHead(features, outputs, likelihood, factors=factors, temperature=temperature, samples=samples)

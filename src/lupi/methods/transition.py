"""PI-transition: a noise transition matrix that depends on privileged information.

It generalizes crowd layers (Rodrigues and Pereira, "Deep learning from crowds", AAAI 2018,
https://arxiv.org/abs/1709.01779) from annotator ids to any privileged information.
"""

import math
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn

from lupi._internal.checks import check_integer, is_number
from lupi.data import Annotations, Batch
from lupi.likelihoods import Bernoulli, Categorical, at_least_float32
from lupi.methods.base import Conditional, Stage
from lupi.methods.tram import RandomPI
from lupi.nn import MLP, Parts

MANY_CLASSES = 100
"""Number of classes above which the logits of T(a) are sums of effects: 2K numbers per label, not K²."""
PAIR_SCALE = 16.0
"""Factor of the shared logits, which would otherwise learn more slowly than those with a hidden layer behind them."""


class PITransition(Conditional):
    r"""Train q(y | x, a) = T(a) p(y | x) with a column-stochastic T(a), and predict with p(y | x).

    In the multi-label case, each binary label has its own 2 × 2 matrix.

    Parameters
    ----------
    trunk : Module
        φ(x).
    marginal : Module
        Head on φ(x), which gives the logits of p(y | x).
    transition : Module
        Maps a, followed by its random features, to the logits of T(a): K², or 4 per binary label.
    likelihood : Categorical or Bernoulli
        The likelihood of the labels.
    random : int
        Number of random features appended to a.
    """

    name: ClassVar = "pi-transition"
    title: ClassVar = "PI-transition"
    likelihoods: ClassVar = (Categorical, Bernoulli)
    predicts_truth: ClassVar = True
    by_row: ClassVar = True
    gradients: ClassVar = {"conditional": ("trunk", "marginal", "transition")}
    likelihood: Categorical | Bernoulli

    def __init__(
        self,
        trunk: nn.Module,
        marginal: nn.Module,
        transition: nn.Module,
        *,
        likelihood: Categorical | Bernoulli = Categorical(),
        random: int = 0,
    ) -> None:
        super().__init__()
        self.trunk, self.marginal, self.transition = trunk, marginal, transition
        self.likelihood = likelihood
        self.random_pi = RandomPI(random)
        self.random = self.random_pi.features

    def conditional_output(self, batch: Batch) -> Tensor:
        """Return the logits of T(a) p(y | x), log Σₖ exp(log T(a)[y, k] + log p(k | x)).

        The logarithms do not underflow, so the gradient does not vanish even if the network confidently contradicts an
        annotation.
        """
        log_p = batch.spread(self.likelihood.log_probabilities(self.marginal(self.trunk(batch.x))))
        return mix_labels(self.likelihood, self.log_matrix(batch.a, log_p.shape[-1]), log_p)

    def log_matrix(self, a: Tensor, classes: int) -> Tensor:
        """Return log T(a), [annotations, (labels,) classes, classes]; column k is conditioned on the true class k."""
        return torch.log_softmax(as_matrices(self.likelihood, self.transition(a), classes), -2)

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield one stage, with random features appended to a."""
        yield Stage("train", self, self.random_pi.append, self.random_pi.append_zeros)


class ManyClassesTransition(PITransition):
    r"""PI-transition whose logits are g(a)[y] + d(a)[k] 1[y = k] + B[y, k], where B is the same for all labels.

    Then T(a) p(y | x) takes two products with a K × K matrix and no matrix per label. What a decides is how often a
    class is recognized and which answers are favoured; the confusions of pairs of classes are common to all labels.

    Parameters
    ----------
    trunk, marginal, likelihood, random
        As for `PITransition`.
    transition : Module
        Maps a to d(a) and g(a), 2K logits.
    pairs : Linear
        Its weights, times a constant, are B; the diagonal is not used.
    """

    gradients: ClassVar = {"conditional": ("trunk", "marginal", "transition", "pairs")}

    def __init__(
        self, trunk: nn.Module, marginal: nn.Module, transition: nn.Module, pairs: nn.Linear, random: int
    ) -> None:
        super().__init__(trunk, marginal, transition, random=random)
        self.pairs = pairs

    def conditional_output(self, batch: Batch) -> Tensor:
        """Return the logits of T(a) p(y | x)."""
        log_p = batch.spread(self.likelihood.log_probabilities(self.marginal(self.trunk(batch.x))))
        stay, answer = at_least_float32(self.transition(batch.a)).chunk(2, -1)
        log_odds = PAIR_SCALE * self.pairs.weight.to(log_p.dtype)
        others = log_odds.exp() * (1 - torch.eye(log_p.shape[-1], dtype=log_p.dtype, device=log_p.device))
        same = answer + stay
        column = log_p - torch.logaddexp(log_product(answer, others), same)
        return torch.logaddexp(same + column, answer + log_product(column, others.T))


def log_product(logarithms: Tensor, matrix: Tensor) -> Tensor:
    """Return log(exp(logarithms) @ matrix) without overflow."""
    top = logarithms.detach().amax(-1, keepdim=True)
    product = (logarithms - top).exp() @ matrix
    return top + product.clamp_min(torch.finfo(product.dtype).tiny).log()


def as_matrices(likelihood: Categorical | Bernoulli, values: Tensor, classes: int) -> Tensor:
    """Return the outputs of a layer as matrices, [annotations, (labels,) classes, classes]."""
    labels = (-1,) if isinstance(likelihood, Bernoulli) else ()
    return at_least_float32(values).reshape(*values.shape[:-1], *labels, classes, classes)


def mix_labels(likelihood: Categorical | Bernoulli, log_matrix: Tensor, log_p: Tensor) -> Tensor:
    """Return the logits of T p(y | x) from the logarithms of T and p(y | x)."""
    return likelihood.from_log_probabilities(torch.logsumexp(log_matrix + log_p.unsqueeze(-2), -1))


def count_matrices(parts: Parts) -> tuple[int, int]:
    """Return the number of classes and of matrices: one, or one for each binary label."""
    return (2, parts.outputs) if isinstance(parts.likelihood, Bernoulli) else (parts.outputs, 1)


def set_diagonal(layer: nn.Linear, classes: int, value: float) -> None:
    """Set the biases of matrices of logits to a value on the diagonal, and to 0 elsewhere."""
    with torch.no_grad():
        layer.bias.view(-1, classes, classes).copy_(torch.zeros(classes, classes).fill_diagonal_(value))


def find_odds(diagonal: float, classes: int) -> float:
    """Return the logit on the diagonal of a matrix of logits at which T has the given diagonal."""
    if not (is_number(diagonal) and 0 < diagonal < 1):
        raise ValueError(f"Expected `diagonal` to be greater than 0 and less than 1, but got {diagonal!r}.")
    return math.log(diagonal * (classes - 1) / (1 - diagonal))


def pi_transition(parts: Parts, *, random: int = 0, diagonal: float = 0.9) -> PITransition:
    """Make the method "pi-transition"; `diagonal` is the initial value of the diagonal of T(a)."""
    check_integer("random", random, 0)
    classes, matrices = count_matrices(parts)
    assert isinstance(parts.likelihood, Categorical | Bernoulli)
    many, odds = classes > MANY_CLASSES, find_odds(diagonal, classes)
    transition = MLP(parts.privileged + random, parts.tower_widths[:1], 2 * classes if many else matrices * classes**2)
    last = transition[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight.mul_(0.1)
    if many:
        nn.init.zeros_(last.bias)
        nn.init.constant_(last.bias[:classes], odds)
        pairs = nn.Linear(classes, classes, bias=False)
        nn.init.zeros_(pairs.weight)
        return ManyClassesTransition(parts.trunk(), parts.head(), transition, pairs, random)
    set_diagonal(last, classes, odds)
    return PITransition(parts.trunk(), parts.head(), transition, likelihood=parts.likelihood, random=random)

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
    transition = MLP(parts.privileged + random, parts.tower_widths[:1], matrices * classes**2)
    last = transition[-1]
    assert isinstance(last, nn.Linear)
    set_diagonal(last, classes, find_odds(diagonal, classes))
    with torch.no_grad():
        last.weight.mul_(0.1)
    return PITransition(parts.trunk(), parts.head(), transition, likelihood=parts.likelihood, random=random)

"""How far annotators err together: twenty copies of one opinion are not twenty votes.

Given the truth z, annotator j is wrong with probability ε_j(z). The residual e_ij − ε_j(z_i) of the label of example i,
e_ij = 1 if it is wrong, has mean zero. If annotators err independently, residuals of the same example are uncorrelated.
If their mean correlation is ρ, m labels of an example are worth m / (1 + (m − 1) ρ) independent ones (Kish, "Survey
sampling", 1965).
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from lupi._internal.arrays import Floats
from lupi.crowd.likelihood import softmax, split_rows
from lupi.crowd.votes import Integers, Votes

MOST_CELLS = 20_000_000
"""Maximum number of cells (labels × classes); if there are more, the first examples are used."""


class Dependence(NamedTuple):
    """Correlations of errors."""

    mean: float
    """ρ, the mean over pairs of labels of an example."""
    low: float
    high: float
    """Limits of the 95 % interval of ρ, over examples."""
    size: float
    """The mean number of labels that a label's example has."""
    pairs: Floats
    """[annotators, annotators] the correlation of the errors of two annotators; NaN on the diagonal."""
    shared: Floats
    """[annotators, annotators] the number of examples that two annotators share."""

    @property
    def votes(self) -> tuple[float, float, float]:
        """How many independent labels those of an example are worth, with the limits of the interval."""
        rho = np.array([self.mean, self.high, self.low]).clip(0, 1)
        return tuple((self.size / (1 + (self.size - 1) * rho)).tolist())


class Residuals(NamedTuple):
    """How wrong each label is beyond what its annotator and the truth let one expect, in standard deviations."""

    example: Integers
    who: Integers
    values: Floats
    """[labels, classes] residuals for each true label, times the square root of its probability."""


def measure_dependence(votes: Votes, truth: Floats) -> Dependence | None:
    """Measure how far annotators err together; return None if no two labels of an example can be compared.

    `truth` is the probability of each true label, [examples, classes]; rows of examples to ignore are NaN.
    """
    found = find_residuals(votes, truth)
    size = np.bincount(found.example, minlength=votes.examples)
    if size.max(initial=0) < 2:
        return None
    products, pairs = multiply_residuals(found, votes.examples), size * (size - 1.0)
    several = size > 1
    mean = products.sum() / pairs.sum()
    error = np.sqrt(((products - mean * pairs)[several] ** 2).sum()) / pairs.sum()
    shape = votes.examples, votes.annotators
    both = csr_array((np.ones(len(found.who)), (found.example, found.who)), shape=shape)
    shared, together = (both.T @ both).toarray(), np.zeros((votes.annotators, votes.annotators))
    for values in found.values.T:
        cells = csr_array((values, (found.example, found.who)), shape=shape)
        together += (cells.T @ cells).toarray()
    together = np.where(shared > 0, together / np.maximum(shared, 1), np.nan)
    np.fill_diagonal(together, np.nan)
    np.fill_diagonal(shared, 0)
    return Dependence(
        mean=float(mean),
        low=float(mean - 1.96 * error),
        high=float(mean + 1.96 * error),
        size=float((size**2).sum() / size.sum()),
        pairs=together,
        shared=shared,
    )


def share_of_independent(votes: Votes, truth: Floats) -> Floats:
    """Return the share of the labels of each example that is independent, 1 / (1 + (m − 1) ρ); NaN if m = 1."""
    found, size = find_residuals(votes, truth), np.bincount(votes.example, minlength=votes.examples)
    compared = np.bincount(found.example, minlength=votes.examples)
    pairs = float((compared * (compared - 1.0)).sum())
    if not pairs:
        return np.full(votes.examples, np.nan)
    rho = np.clip(multiply_residuals(found, votes.examples).sum() / pairs, 0, 1)
    return np.where(size > 1, 1 / (1 + (np.maximum(size, 1) - 1) * rho), np.nan)


def shared_error(log_prior: Floats, evidence: Floats, share: Floats) -> float:
    """Return how often a crowd is wrong together, beyond what its labels say if each is taken for an independent one.

    This is how much surer of the most probable class one is with all labels than with the independent share of them, on
    average over the examples; where the share is NaN, all labels count. The true labels that a model learns from are
    wrong about as often, in a way that labels alone cannot show.
    """
    total, counted = 0.0, np.nan_to_num(share, nan=1.0)[:, None]
    for rows in split_rows(*evidence.shape):
        sure = [softmax(log_prior[rows] + part * evidence[rows]).max(1) for part in (1.0, counted[rows])]
        total += float((sure[0] - sure[1]).sum())
    return max(0.0, total / len(evidence))


def soften(p: Floats, error: float, classes: int) -> Floats:
    """Return probabilities of the truth if, with probability `error`, it is one of the other classes instead."""
    return np.asarray((1 - error) * p + error * (1 - p) / (classes - 1))


def find_residuals(votes: Votes, truth: Floats) -> Residuals:
    """Return the residuals of labels of annotators who are sometimes right and sometimes wrong."""
    J, use = votes.annotators, ~np.isnan(truth[votes.example, 0])
    use[max(1, MOST_CELLS // votes.classes) :] = False
    example, who, label = votes.example[use], votes.annotator[use], votes.label[use]
    q = truth[example]
    wrong = label[:, None] != np.arange(votes.classes)
    weight, errors = (np.zeros((J, votes.classes)) for _ in range(2))
    np.add.at(weight, who, q)
    np.add.at(errors, who, q * wrong)
    residual = wrong - (errors / np.maximum(weight, 1e-12))[who]
    count = np.bincount(who, minlength=J)
    variance = np.bincount(who, (q * residual**2).sum(1), J) / np.maximum(count, 1)
    residual *= np.sqrt(q)
    keep = variance[who] > 1e-9  # the others were never wrong, or always
    return Residuals(example[keep], who[keep], residual[keep] / np.sqrt(variance[who[keep], None]))


def multiply_residuals(found: Residuals, examples: int) -> Floats:
    """Return the sum of the products of residuals over all ordered pairs of labels of each example."""
    total, squares = np.zeros((examples, found.values.shape[1])), (found.values**2).sum(1)
    np.add.at(total, found.example, found.values)
    return np.asarray((total**2).sum(1) - np.bincount(found.example, squares, examples))

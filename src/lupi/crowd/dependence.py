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
from lupi.crowd.votes import Votes

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


def measure_dependence(votes: Votes, truth: Floats) -> Dependence | None:
    """Measure how far annotators err together; return None if no two labels of an example can be compared.

    `truth` is the probability of each true label, [examples, classes]; rows of examples to ignore are NaN.
    """
    J, use = votes.annotators, ~np.isnan(truth[votes.example, 0])
    use[max(1, MOST_CELLS // votes.classes) :] = False
    example, who, label = votes.example[use], votes.annotator[use], votes.label[use]
    q = truth[example]
    wrong = label[:, None] != np.arange(votes.classes)
    weight = np.zeros((J, votes.classes))
    np.add.at(weight, who, q)
    errors = np.zeros((J, votes.classes))
    np.add.at(errors, who, q * wrong)
    residual = wrong - (errors / np.maximum(weight, 1e-12))[who]
    count = np.bincount(who, minlength=J)
    variance = np.bincount(who, (q * residual**2).sum(1), J) / np.maximum(count, 1)
    residual *= np.sqrt(q)
    keep = variance[who] > 1e-9  # the others were never wrong, or always
    residual = residual[keep] / np.sqrt(variance[who[keep], None])
    example, who = example[keep], who[keep]
    size = np.bincount(example, minlength=votes.examples)
    several = size > 1
    if not several.any():
        return None
    product, shape = np.zeros(votes.examples), (votes.examples, J)
    pairs = np.zeros((J, J))
    for k in range(votes.classes):
        cells = csr_array((residual[:, k], (example, who)), shape=shape)
        total = np.asarray(cells.sum(1)).ravel()
        product += total**2 - np.asarray(cells.multiply(cells).sum(1)).ravel()
        pairs += (cells.T @ cells).toarray()
    both = csr_array((np.ones(len(who)), (example, who)), shape=shape)
    shared = (both.T @ both).toarray()
    number = (size * (size - 1.0))[several]
    mean = product[several].sum() / number.sum()
    error = np.sqrt(((product[several] - mean * number) ** 2).sum()) / number.sum()
    pairs = np.where(shared > 0, pairs / np.maximum(shared, 1), np.nan)
    np.fill_diagonal(pairs, np.nan)
    np.fill_diagonal(shared, 0)
    return Dependence(
        mean=float(mean),
        low=float(mean - 1.96 * error),
        high=float(mean + 1.96 * error),
        size=float((size**2).sum() / size.sum()),
        pairs=pairs,
        shared=shared,
    )

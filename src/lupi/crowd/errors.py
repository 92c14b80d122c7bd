"""The distribution of wrong labels, with a pseudo-count that the labels choose.

The wrong labels of each class have a Dirichlet prior that favours no class. Its concentration maximizes the
probability of the expected counts (the Dirichlet-multinomial likelihood, or evidence): with many classes and few
labels, errors are taken to be uniform; with many labels, their distribution is learnt.

References
----------
Minka, "Estimating a Dirichlet distribution" (2000).
"""

import numpy as np
from scipy.special import gammaln

from lupi._internal.arrays import Floats

CONCENTRATIONS = 2.0 ** np.arange(0, 21)
"""Concentrations to try: the number of labels that the prior of a class is worth."""


def estimate_errors(count: Floats) -> Floats:
    """Return C, the mean of the posterior given expected counts of errors, [true label, given label]."""
    other = 1 - np.eye(len(count))
    best = CONCENTRATIONS[np.argmax([log_evidence(count, total) for total in CONCENTRATIONS])]
    errors = (count + best / (len(count) - 1)) * other
    return np.asarray(errors / errors.sum(1, keepdims=True))


def log_evidence(count: Floats, concentration: float) -> float:
    """Return the log-probability of the counts off the diagonal, with the distribution of errors integrated out."""
    each = concentration / (len(count) - 1)
    other = ~np.eye(len(count), dtype=bool)
    total = (count * other).sum(1)
    of_rows = gammaln(concentration) - gammaln(concentration + total)
    return float(of_rows.sum() + (gammaln(each + count[other]) - gammaln(each)).sum())

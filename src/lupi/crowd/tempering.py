"""Tempering: choose the exponent of the likelihood of the labels.

Labels of one example share errors (a hard example misleads everybody), so a posterior that multiplies their likelihoods
as if they were independent is overconfident. Tempering corrects this: P(z | labels, x) ∝ prior · likelihood^exponent.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from lupi._internal.arrays import Floats
from lupi.crowd.likelihood import log_softmax, split_rows
from lupi.crowd.votes import Integers, Votes

GRID = np.geomspace(0.05, 1, 16)
"""Exponents to try."""
MOST = 50_000
"""Maximum number of labels to leave out in turn; if there are more, evenly spaced ones are used."""
OwnEvidence = Callable[[Integers], Floats]
"""Returns log P(y_n | z) of the given labels for each true label z, [labels, classes]."""


def choose_exponent(votes: Votes, log_prior: Floats, evidence: Floats, own_evidence: OwnEvidence) -> float:
    """Choose the exponent with which the other labels of an example best predict a left-out label.

    It is shrunk towards 1, the exponent of independent labels, on the log scale as if 500 labels supported it. If no
    example has two labels, nothing can show that labels share errors, and the exponent is 1.
    """
    weight = weigh_evidence(votes)
    if not weight:
        return 1.0
    best = GRID[leave_one_out_log_likelihood(votes, log_prior, evidence, own_evidence, GRID).argmax()]
    return float(best**weight)


def weigh_evidence(votes: Votes) -> float:
    """Return n / (n + 500), the weight of the labels in choosing the exponent, for n labels that share an example."""
    several = len(find_shared(votes))
    return several / (several + 500)


def find_shared(votes: Votes) -> Integers:
    """Return the positions of labels whose example has at least two labels."""
    count = np.bincount(votes.example, minlength=votes.examples)[votes.example]
    return np.flatnonzero(count > 1)


def leave_one_out_log_likelihood(
    votes: Votes, log_prior: Floats, evidence: Floats, own_evidence: OwnEvidence, exponents: Floats
) -> Floats:
    """Return the mean log-probability of a label given the other labels of its example, for each exponent.

    Only examples with at least two labels are used.
    """
    labels = find_shared(votes)
    labels = labels[:: -(-len(labels) // MOST)]
    total = np.zeros(len(exponents))
    for rows in split_rows(len(labels), votes.classes):
        example = votes.example[labels[rows]]
        own = own_evidence(labels[rows])
        others = evidence[example] - own
        for i, exponent in enumerate(exponents):
            total[i] += logsumexp(log_softmax(log_prior[example] + exponent * others) + own, axis=1).sum()
    return total / len(labels)

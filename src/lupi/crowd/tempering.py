"""Tempering: choose the exponent of the likelihood of the labels.

Labels of one example share errors: a hard example misleads everybody, annotators copy each other, and LLM judges have
the same habits. A posterior that multiplies their likelihoods as if they were independent is overconfident. Tempering
corrects this: P(z | labels, x) ∝ prior · likelihood^exponent.

Two criteria bound the exponent from above, and the lower bound of the two is taken:

- How well the labels of an example predict x. If labels and x are independent given the true label z,
  P(x | labels) / P(x) = Σ_z p(z | x) r(z | labels) / π(z), where r(z | labels) ∝ π(z) · likelihood^exponent is the
  posterior of the labels alone and π the share of each class. Errors that labels share earn nothing, however well the
  labels agree, because they do not help to predict x. If the predictions are calibrated, the best exponent gives the
  best posteriors. If they have learnt the annotators' errors, it is too large.
- How well the other labels of an example predict a left-out label. Errors that depend on x count here, but labels that
  share errors predict each other, so the exponent is too large then.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

from lupi._internal.arrays import Floats
from lupi.crowd.likelihood import log_softmax, mean_prior, split_rows
from lupi.crowd.trusted import clamp
from lupi.crowd.votes import Integers, Votes

GRID = np.geomspace(1, 0.02, 25)
"""Exponents to try."""
MOST = 50_000
"""Maximum number of labels to leave out in turn; if there are more, evenly spaced ones are used."""
OwnEvidence = Callable[[Integers], Floats]
"""Returns log P(y_n | z) of the given labels for each true label z, [labels, classes]."""


def choose_exponent(votes: Votes, log_prior: Floats, evidence: Floats, own_evidence: OwnEvidence) -> float:
    """Choose the exponent: the lower of those with which labels best predict x and other labels, respectively.

    The logarithm of the exponent has a standard normal prior, so it stays near 1, the exponent of independent labels,
    unless there are enough labels to show that it should not.
    """
    totals = (
        inputs_log_likelihood(votes, log_prior, evidence, GRID),
        left_out_log_likelihood(votes, log_prior, evidence, own_evidence, GRID),
    )
    return min(float(GRID[np.argmax(total - np.log(GRID) ** 2 / 2)]) for total in totals)


def inputs_log_likelihood(votes: Votes, log_prior: Floats, evidence: Floats, exponents: Floats) -> Floats:
    """Return Σ_i log P(x_i | labels of i) / P(x_i) for each exponent. A known true label stands for x."""
    total, log_share = np.zeros(len(exponents)), np.log(mean_prior(log_prior, np.ones(len(log_prior))))
    for rows in split_rows(*log_prior.shape):
        of_x = log_softmax(clamp(votes, log_prior[rows].copy(), rows))
        for i, exponent in enumerate(exponents):
            tempered = exponent * evidence[rows]
            total[i] += (logsumexp(of_x + tempered, axis=1) - logsumexp(log_share + tempered, axis=1)).sum()
    return total


def find_shared(votes: Votes) -> Integers:
    """Return the positions of labels whose example has at least two labels."""
    count = np.bincount(votes.example, minlength=votes.examples)[votes.example]
    return np.flatnonzero(count > 1)


def left_out_log_likelihood(
    votes: Votes, log_prior: Floats, evidence: Floats, own_evidence: OwnEvidence, exponents: Floats
) -> Floats:
    """Return the log-probability of labels given the other labels of their example and x, for each exponent.

    Only examples with at least two labels are used.
    """
    labels = find_shared(votes)
    labels = labels[:: max(1, -(-len(labels) // MOST))]
    total = np.zeros(len(exponents))
    for rows in split_rows(len(labels), votes.classes):
        example = votes.example[labels[rows]]
        own = own_evidence(labels[rows])
        others = evidence[example] - own
        for i, exponent in enumerate(exponents):
            total[i] += logsumexp(log_softmax(log_prior[example] + exponent * others) + own, axis=1).sum()
    return total

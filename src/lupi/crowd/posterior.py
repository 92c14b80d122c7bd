"""The posterior of true labels given annotators' confusions: the E-step of Dawid and Skene's EM."""

import numpy as np
from scipy.special import logsumexp

from lupi.crowd.votes import Floats, Votes

TINY = 1e-300
"""Probabilities are clipped here before their logarithm is taken."""


def compute_posterior(log_prior: Floats, confusion: Floats, votes: Votes) -> tuple[Floats, float]:
    """Return P(z | labels, x), [examples, classes], and the log-probability of the labels."""
    joint = log_prior + label_log_likelihood(confusion, votes)
    return normalize_exp(joint), float(logsumexp(joint, axis=1).sum())


def label_log_likelihood(confusion: Floats, votes: Votes) -> Floats:
    """Return the log-probability of an example's labels for each true label, [examples, classes]."""
    log = np.log(confusion.clip(TINY))
    by_class = [
        np.bincount(votes.example, log[votes.annotator, k, votes.label], votes.examples) for k in range(votes.classes)
    ]
    return np.stack(by_class, 1)


def leave_one_out(truth: Floats, confusion: Floats, votes: Votes) -> Floats:
    """Return P(z | the other labels of the example, x) for each label, [labels, classes]."""
    own = np.log(confusion[votes.annotator, :, votes.label].clip(TINY))
    return normalize_exp(np.log(truth[votes.example].clip(TINY)) - own)


def expected_counts(truth: Floats, votes: Votes) -> Floats:
    """Return the expected number of labels, [annotators, true label, given label]."""
    J, K = votes.annotators, votes.classes
    cell = votes.annotator * K + votes.label
    by_class = [np.bincount(cell, truth[votes.example, k], J * K).reshape(J, K) for k in range(K)]
    return np.stack(by_class, 1)


def normalize_exp(log: Floats) -> Floats:
    """Return exp(log), normalized over the last axis."""
    weight = np.exp(log - log.max(1, keepdims=True))
    return np.asarray(weight / weight.sum(1, keepdims=True))

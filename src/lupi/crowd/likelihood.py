"""The likelihood of labels that are right with a probability of their own, with the true labels summed out.

    true label      z_i ~ softmax(β log p(·|x_i))
    given label     y_n = z with probability σ(η_n), else drawn from C[z, ·]

Examples are processed in chunks: only what is handed in and out is as large as examples × classes.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import log_expit, logsumexp

from lupi.crowd.votes import Floats, Integers, Votes

CHUNK = 2**20
"""Number of cells, examples × classes, that are processed at once."""


def split_rows(rows: int, classes: int) -> Iterator[slice]:
    """Split rows into chunks of about `CHUNK` cells."""
    step = max(1, CHUNK // classes)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def scatter(votes: Votes, values: NDArray[np.float64] | None = None) -> csr_array:
    """Add up a value per label, by default 1, in the cell of its example and class, [examples, classes]."""
    values = np.ones(len(votes.label)) if values is None else values
    return csr_array((values, (votes.example, votes.label)), shape=(votes.examples, votes.classes))


def log_errors(errors: Floats) -> Floats:
    """Return log C with zeros on the diagonal."""
    return np.log(np.where(np.eye(len(errors), dtype=bool), 1.0, errors))


def log_softmax(logits: Floats) -> Floats:
    """Return the log of softmax over the last axis."""
    return np.asarray(logits - logsumexp(logits, axis=1, keepdims=True))


def softmax(logits: Floats) -> Floats:
    """Return softmax over the last axis."""
    weight = np.exp(logits - logits.max(1, keepdims=True))
    weight /= weight.sum(1, keepdims=True)
    return np.asarray(weight)


def label_evidence(votes: Votes, eta: Floats, errors: Floats, labels: Integers) -> Floats:
    """Return log P(y_n | z) of some labels for each true label z, [len(labels), classes]."""
    given = votes.label[labels]
    own = log_errors(errors).T[given] + log_expit(-eta[labels])[:, None]
    own[np.arange(len(labels)), given] += eta[labels]
    return np.asarray(own)


def example_evidence(votes: Votes, eta: Floats, errors: Floats) -> Floats:
    """Return the log-probability of each example's labels for each true label, [examples, classes]."""
    total = error_evidence(votes, errors)
    add_log_odds(total, votes, eta)
    return total


def error_evidence(votes: Votes, errors: Floats) -> Floats:
    """Return the part of the evidence that depends on C, [examples, classes]."""
    counts, log = scatter(votes), log_errors(errors).T
    total = np.empty((votes.examples, votes.classes))
    for rows in split_rows(*total.shape):
        total[rows] = counts[rows] @ log
    return total


def add_log_odds(total: Floats, votes: Votes, eta: Floats) -> None:
    """Add, in place, the part of the evidence that depends on η."""
    gain = scatter(votes, eta)
    wrong = np.bincount(votes.example, log_expit(-eta), votes.examples)
    for rows in split_rows(*total.shape):
        total[rows] += gain[rows].toarray()
        total[rows] += wrong[rows, None]


def marginal_log_likelihood(
    votes: Votes, log_p: Floats, of_errors: Floats, eta: Floats, log_beta: float
) -> tuple[float, Floats, float]:
    """Return the log-probability of all labels and its gradient in η and log β.

    With the posterior q and the prior π of the true labels, d/dη_n = q_i[y_n] − σ(η_n) and
    d/d log β = β Σ_i Σ_k (q_i[k] − π_i[k]) log p_i[k].

    Parameters
    ----------
    votes : Votes
        The labels, sorted by example.
    log_p : array, [examples, classes]
        Log of the model's predictions.
    of_errors : array, [examples, classes]
        From `error_evidence`.
    eta : array
        Log-odds that each label is right.
    log_beta : float
        log β.
    """
    gain, beta = scatter(votes, eta), np.exp(log_beta)
    wrong = log_expit(-eta)
    value, slope, slope_beta = float(wrong.sum()), np.expm1(wrong), 0.0  # expm1(log σ(−η)) = −σ(η)
    for rows in split_rows(*log_p.shape):
        log_prior = log_softmax(beta * log_p[rows])
        joint = log_prior + of_errors[rows] + gain[rows].toarray()
        total = logsumexp(joint, axis=1, keepdims=True)
        value += float(total.sum())
        q = np.exp(joint - total)
        labels = slice(*np.searchsorted(votes.example, [rows.start, rows.stop]))
        slope[labels] += q[votes.example[labels] - rows.start, votes.label[labels]]
        slope_beta += float(beta * np.vdot(q - np.exp(log_prior), log_p[rows]))
    return value, slope, slope_beta

"""The marginal likelihood of labels, with the true labels summed out.

    true label      z_i ~ p(·|x_i)
    given label     y_n ~ h_j with probability s_j: a habit of annotator j, independent of the truth;
                    else y_n = z with probability σ(η_n + c_z), else drawn from C[z, ·]

Examples are processed in chunks, so only inputs and outputs take memory proportional to examples × classes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lupi._internal.arrays import Floats
from lupi.crowd.trusted import clamp
from lupi.crowd.votes import Integers, Votes

CHUNK = 2**17
"""Number of cells (examples × classes) to process at once."""

HOPELESS = 300.0
"""Log-odds beyond which a label is certainly right or wrong."""
FEW_CLASSES = 32
"""Up to this number of classes, rows are reduced column by column."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelModel:
    """Parameters of the model of labels."""

    log_odds: Floats
    """η, [labels] log-odds that a label is correct, given that it is not a habit, if the true label is of mean ease."""
    ease: Floats
    """c, [classes] what the true label adds to the log-odds; its mean over the labels is 0."""
    errors: Floats
    """C, [true label, given label] with a zero diagonal: the distribution of wrong labels."""
    share: Floats
    """s, [annotators] the share of labels that are habits."""
    habits: Floats
    """h, [annotators, classes] the distribution of habits."""


def split_rows(rows: int, classes: int) -> Iterator[slice]:
    """Split rows into chunks of about `CHUNK` cells."""
    step = max(1, CHUNK // classes)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def mean_prior(log_prior: Floats, count: NDArray[Any]) -> Floats:
    """Return the predicted share of each class, with each example counted as often as given."""
    total = np.zeros(log_prior.shape[1])
    for rows in split_rows(*log_prior.shape):
        total += count[rows] @ np.exp(log_prior[rows])
    return np.asarray(total / count.sum())


def scatter(votes: Votes, values: NDArray[np.float64] | None = None) -> csr_array:
    """Sum one value per label, by default 1, in the cell of its example and class, [examples, classes]."""
    values = np.ones(len(votes.label)) if values is None else values
    return csr_array((values, (votes.example, votes.label)), shape=(votes.examples, votes.classes))


def normalize(logits: Floats) -> tuple[Floats, Floats]:
    """Compute the softmax of logits over the last axis, in place; return it with the log of the normalizer."""
    top = row_maxima(logits)
    logits -= top
    np.exp(logits, out=logits)
    total = logits @ np.ones((logits.shape[1], 1))
    logits /= total
    return logits, top + np.log(total)


def row_maxima(values: Floats) -> Floats:
    """Return the largest value of each row, [rows, 1]."""
    if values.shape[1] > FEW_CLASSES:
        return np.asarray(values.max(1, keepdims=True))
    top = values[:, :1].copy()
    for k in range(1, values.shape[1]):  # numpy reduces short rows slowly
        np.maximum(top, values[:, k : k + 1], out=top)
    return top


def softmax(logits: Floats) -> Floats:
    """Return the softmax over the last axis."""
    return normalize(logits.copy())[0]


def log_softmax(logits: Floats) -> Floats:
    """Return the log-softmax over the last axis."""
    return np.asarray(logits - normalize(logits.copy())[1])


def chance_right(model: LabelModel, labels: Integers | slice) -> Floats:
    """Return σ(η_n + c_z) of the given labels for each true label z, [labels, classes]."""
    # Two vectors of exponentials are cheaper than a matrix of them.
    odds = np.exp(-model.log_odds[labels].clip(-HOPELESS, HOPELESS))[:, None] * np.exp(-model.ease)
    odds += 1
    return np.asarray(np.reciprocal(odds, out=odds))


def label_probabilities(votes: Votes, model: LabelModel, labels: Integers | slice, right: Floats) -> Floats:
    """Return P(y_n | z) of the given labels for each true label z, [labels, classes]; `right` is `chance_right`."""
    who, given, row = votes.annotator[labels], votes.label[labels], np.arange(len(right))
    work, habit = 1 - model.share[who], model.share[who] * model.habits[who, given]
    p = np.ascontiguousarray(model.errors.T)[given]
    p *= 1 - right
    p[row, given] = right[row, given]
    p *= work[:, None]
    p += habit[:, None]
    return np.maximum(p, np.finfo(np.float64).tiny, out=p)


def label_evidence(votes: Votes, model: LabelModel, labels: Integers | slice) -> Floats:
    """Return log P(y_n | z) of the given labels for each true label z, [labels, classes]."""
    p = label_probabilities(votes, model, labels, chance_right(model, labels))
    return np.log(p, out=p)


def example_evidence(votes: Votes, model: LabelModel) -> Floats:
    """Return the log-probability of the labels of each example given each true label, [examples, classes]."""
    total, labels = np.zeros((votes.examples, votes.classes)), np.argsort(votes.example, kind="stable")
    example = votes.example[labels]
    for rows in split_rows(len(labels), votes.classes):
        own = label_evidence(votes, model, labels[rows])
        first = np.flatnonzero(np.diff(example[rows], prepend=-1))
        total[example[rows][first]] += np.add.reduceat(own, first)  # an example may continue in the next chunk
    return total


def marginal_log_likelihood(votes: Votes, log_prior: Floats, model: LabelModel) -> tuple[float, Floats, Floats]:
    """Return the log-likelihood of all labels, which are sorted by example, and its gradients with respect to η and c.

    It includes the log-probability of the known true labels. With the posterior q of the true labels and
    r = σ(η_n + c_z), the gradients are the sums over z and over n, respectively, of
    (1 − s_j) r (1 − r) q_i[z] (1[z = y_n] − C[z, y_n]) / P(y_n | z).
    """
    value, of_labels, of_classes = 0.0, np.empty(len(votes.label)), np.zeros(votes.classes)
    errors = np.ascontiguousarray(model.errors.T)
    for rows in split_rows(*log_prior.shape):
        labels = slice(*np.searchsorted(votes.example, [rows.start, rows.stop]))
        if labels.start == labels.stop:
            value += float(normalize(clamp(votes, log_prior[rows].copy(), rows))[1].sum())
            continue
        slope, p, right, log_total = weigh_truths(votes, log_prior, model, rows, labels)
        value += float(log_total.sum())
        given = votes.label[labels]
        slope /= p
        slope *= right
        right -= 1
        slope *= right
        slope *= (1 - model.share[votes.annotator[labels]])[:, None]
        own = -slope[np.arange(len(given)), given]
        slope *= errors[given]
        slope[np.arange(len(given)), given] = own  # C has a zero diagonal
        of_labels[labels] = slope @ np.ones(votes.classes)  # numpy sums short rows slowly
        of_classes += slope.sum(0)
    return value, of_labels, of_classes


def weigh_truths(
    votes: Votes, log_prior: Floats, model: LabelModel, rows: slice, labels: slice
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return P(z | all labels), P(y_n | z) and σ(η_n + c_z), [labels, classes], and each example's log-likelihood.

    `labels` are all labels of the examples `rows`.
    """
    right, example = chance_right(model, labels), votes.example[labels] - rows.start
    p = label_probabilities(votes, model, labels, right)
    first = np.flatnonzero(np.diff(example, prepend=-1))
    joint = log_prior[rows].copy()
    joint[example[first]] += np.add.reduceat(np.log(p), first)
    q, log_total = normalize(clamp(votes, joint, rows))
    return q[example], p, right, log_total

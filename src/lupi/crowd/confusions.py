"""Classical Dawid–Skene: estimate true labels and confusion matrices from labels alone, by EM.

Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (Applied Statistics
1979).
"""

import numpy as np
from scipy.special import logsumexp

from lupi.crowd.agreement import count_labels
from lupi.crowd.trusted import clamp, count_checked, start_log_odds
from lupi.crowd.votes import Floats, Votes, softmax


def dawid_skene(
    votes: Votes, *, smoothing: float = 0.01, tolerance: float = 1e-6, steps: int = 500
) -> tuple[Floats, Floats]:
    """Estimate true labels and the confusion matrix of each annotator from the labels alone.

    EM starts from the vote shares or, if given, from known true labels and trust in annotators. Class frequencies are
    estimated too. The confusion matrices take annotators × classes² numbers, so prefer `infer_votes` for many
    annotators and classes. Known true labels are fixed. Trust in an annotator counts as 100 labels, divided equally
    among the true classes.

    Parameters
    ----------
    votes : Votes
        The labels.
    smoothing : float
        Pseudo-count for each cell of a confusion matrix and for each class.
    tolerance : float
        EM stops when the log-posterior per label increases by less than this.
    steps : int
        Maximum number of steps.

    Returns
    -------
    truth : ndarray, [examples, classes]
        The posterior of the true labels. For an example without labels, it is the class frequencies.
    confusion : ndarray, [annotators, true label, given label]
        The confusion matrix of each annotator.

    Examples
    --------
    Two annotators agree; the third is wrong about the last two examples.

    >>> example, annotator = np.repeat(np.arange(6), 3), np.tile(np.arange(3), 6)
    >>> label = np.array([0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 0])
    >>> votes = Votes(example=example, annotator=annotator, label=label, examples=6, annotators=3, classes=2)
    >>> truth, confusion = dawid_skene(votes)
    >>> truth.argmax(1).tolist(), confusion[2].round(2).tolist()
    ([0, 1, 0, 1, 0, 1], [[0.67, 0.33], [0.33, 0.67]])
    """
    if not smoothing > 0:
        raise ValueError(f"Expected `smoothing` to be positive, but got {smoothing}.")
    counts = count_labels(votes)
    shares = np.full_like(counts, 1 / votes.classes)
    truth = np.divide(counts, counts.sum(1, keepdims=True), out=shares, where=counts.sum(1, keepdims=True) > 0)
    if votes.has_anchors:
        logits = np.zeros_like(counts)
        np.add.at(logits, (votes.example, votes.label), start_log_odds(votes, 1.0)[votes.annotator])
        truth = softmax(clamp(votes, logits))
    confusion, truth, _ = run_em(votes, truth, smoothing=smoothing, tolerance=tolerance, steps=steps)
    return truth, confusion


def run_em(
    votes: Votes, truth: Floats, *, smoothing: float, tolerance: float, steps: int
) -> tuple[Floats, Floats, list[float]]:
    """Run EM from an initial truth; return the confusions, the truth and the log-posterior after each step."""
    trace: list[float] = []
    added = smoothing + count_trusted(votes)
    for _ in range(steps):
        prior = truth.sum(0) + smoothing
        log_prior = np.log(prior / prior.sum())
        confusion = expected_counts(truth, votes) + added
        confusion /= confusion.sum(2, keepdims=True)
        truth, evidence = compute_posterior(log_prior[None], confusion, votes)
        trace.append(evidence + float(smoothing * log_prior.sum() + (added * np.log(confusion)).sum()))
        if len(trace) > 1 and trace[-1] - trace[-2] < tolerance * len(votes.label):
            break
    return confusion, truth, trace


def compute_posterior(log_prior: Floats, confusion: Floats, votes: Votes) -> tuple[Floats, float]:
    """Return P(z | labels), [examples, classes], and the log-probability of the labels."""
    log = np.log(confusion)
    by_class = [
        np.bincount(votes.example, log[votes.annotator, k, votes.label], votes.examples) for k in range(votes.classes)
    ]
    joint = clamp(votes, log_prior + np.stack(by_class, 1))
    total = logsumexp(joint, axis=1, keepdims=True)
    return np.exp(joint - total), float(total.sum())


def count_trusted(votes: Votes) -> Floats:
    """Return the pseudo-counts for the trust in each annotator, [annotators, true label, given label]."""
    K, right = votes.classes, np.nan_to_num(votes.trust if votes.trust is not None else np.zeros(votes.annotators))
    shares = np.where(np.eye(K, dtype=bool), right[:, None, None], (1 - right[:, None, None]) / (K - 1))
    return np.asarray(count_checked(votes)[:, None, None] / K * shares)


def expected_counts(truth: Floats, votes: Votes) -> Floats:
    """Return the expected number of labels, [annotators, true label, given label]."""
    J, K = votes.annotators, votes.classes
    cell = votes.annotator * K + votes.label
    by_class = [np.bincount(cell, truth[votes.example, k], J * K).reshape(J, K) for k in range(K)]
    return np.stack(by_class, 1)

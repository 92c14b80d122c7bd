"""The reliability of each annotator with a credible interval, and their confusion matrices."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit

from lupi.crowd.inference import Inference
from lupi.crowd.population import KNOWLEDGE, PLAIN
from lupi.crowd.trusted import STRENGTH, find_trusted
from lupi.crowd.votes import Floats, Integers, Votes, add_groups, split_rows

GRID = expit(np.linspace(-7, 7, 281))
"""Reliabilities at which the posterior of an annotator is computed, evenly spaced in log-odds."""
HARDLY = 0.005
"""Cells of confusion matrices with a smaller expected count are left out."""


def summarize_annotators(inference: Inference) -> dict[str, NDArray[Any]]:
    """Summarize each annotator. The result has the columns of a table, in the order of `inference.names`.

    Parameters
    ----------
    inference : Inference
        Result of `infer`.

    Returns
    -------
    dict
        annotator: the id; labels: the number of labels; agreement: the fraction of labels that equal the model's
        prediction; confidence: the mean probability of the labels under the model alone; support: the mean probability
        of the labels given the model and the other labels of the example; reliability: the probability
        that a label is correct, with the 95 % credible interval from low to high; flagged: whether that interval lies
        below the mean reliability over all labels.

    Examples
    --------
    >>> from lupi.crowd import infer
    >>> p = np.tile([[0.8, 0.2], [0.2, 0.8]], (20, 1)).repeat(3, axis=0)
    >>> given = np.tile([0, 0, 1, 1, 1, 0], 20)
    >>> found = infer(p, given, example=np.arange(40).repeat(3), annotator=["Ann", "Bob", "Cem"] * 40)
    >>> columns = summarize_annotators(found)
    >>> columns["agreement"].tolist(), columns["flagged"].tolist()
    ([1.0, 1.0, 0.0], [False, False, True])
    """
    v = inference.votes
    row = np.arange(len(v.label))
    total = np.bincount(v.annotator, minlength=v.annotators)
    p = np.exp(inference.log_prior[v.example])
    reliability, low, high = estimate_reliability(inference)
    return {
        "annotator": inference.names,
        "labels": total,
        "agreement": v.mean_by_annotator(p.argmax(1) == v.label),
        "confidence": v.mean_by_annotator(p[row, v.label]),
        "support": v.mean_by_annotator(inference.support.true),
        "reliability": reliability,
        "low": low,
        "high": high,
        "flagged": high < np.average(reliability, weights=total),
    }


def estimate_reliability(inference: Inference, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Return the posterior mean of each annotator's reliability and the limits of a credible interval.

    The reliability is the probability that a label is correct. Its likelihood takes into account that the truth is
    uncertain. Its prior is the population of annotators, as a Beta distribution,
    or trust. Errors and the population count as known.
    """
    v, support = inference.votes, inference.support
    frequency = inference.population.frequency[PLAIN] / inference.population.frequency[PLAIN].sum()
    mean = float(frequency @ KNOWLEDGE)
    variance = max(float(frequency @ (KNOWLEDGE - mean) ** 2), 1e-6)
    strength = np.full(v.annotators, min(max(mean * (1 - mean) / variance - 1, 1.0), STRENGTH))
    right = mean * strength
    if len(trusted := find_trusted(v)):
        assert v.trust is not None
        strength[trusted], right[trusted] = STRENGTH, STRENGTH * v.trust[trusted]
    # A grid that is even in log-odds has the density r (1 − r).
    log = np.outer(right, np.log(GRID)) + np.outer(strength - right, np.log1p(-GRID))
    order = np.argsort(v.annotator, kind="stable")
    for rows in split_rows(len(order), len(GRID)):
        labels = order[rows]
        true, error = support.true[labels, None], support.error[labels, None]
        add_groups(log, v.annotator[labels], np.log(np.maximum(error + GRID * (true - error), 1e-300)))
    density = np.exp(log - log.max(1, keepdims=True))
    density /= density.sum(1, keepdims=True)
    total, tail = density.cumsum(1) - density / 2, (1 - level) / 2
    low, high = (np.array([np.interp(q, of_one, GRID) for of_one in total]) for q in (tail, 1 - tail))
    return density @ GRID, low, high


def expected_confusions(votes: Votes, truth: Floats) -> tuple[Integers, Integers, Integers, Floats, Floats]:
    """Return the non-empty cells of the annotators' expected confusion matrices."""
    K = votes.classes
    pair, row = np.unique(votes.annotator * K + votes.label, return_inverse=True)
    shape = len(pair), votes.examples
    given_to = csr_array((np.ones(len(row)), (row, votes.example)), shape=shape)
    total, parts = np.zeros((votes.annotators, K)), list[tuple[Integers, Integers, Floats]]()
    for rows in split_rows(len(pair), K):
        counts = given_to[rows] @ truth
        np.add.at(total, pair[rows] // K, counts)
        place, true = np.nonzero(counts >= HARDLY)
        parts.append((pair[rows][place], true, counts[place, true]))
    pairs, true, count = (np.concatenate(part) for part in zip(*parts, strict=True))
    annotator, given = np.divmod(pairs, K)
    order = np.lexsort((given, true, annotator))
    annotator, true, given, count = annotator[order], true[order], given[order], count[order]
    return annotator, true, given, count, count / total[annotator, true]

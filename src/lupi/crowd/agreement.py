"""What most annotators say, and how often they agree."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lupi.crowd.votes import Floats, Integers, Votes, number_ids


def count_labels(votes: Votes) -> Floats:
    """Count how often each example got each label, [examples, classes]."""
    counts = np.zeros((votes.examples, votes.classes))
    np.add.at(counts, (votes.example, votes.label), 1)
    return counts


def majority_vote(votes: Votes) -> Integers:
    """Return the most frequent label of each example, the first class among equals.

    Examples
    --------
    >>> example, label = np.array([0, 0, 0, 1, 1]), np.array([1, 0, 1, 1, 0])
    >>> votes = Votes(example=example, annotator=0 * example, label=label, examples=2, annotators=1, classes=2)
    >>> majority_vote(votes)
    array([1, 0])
    """
    return np.asarray(count_labels(votes).argmax(1))


def pairwise_agreement(label: ArrayLike, example: ArrayLike) -> float:
    """Return the fraction of pairs of labels of one example that are equal; NaN if no example has two labels.

    Parameters
    ----------
    label : array
        The labels.
    example : array
        Ids of the examples that they belong to.

    Examples
    --------
    >>> pairwise_agreement(["a", "a", "b", "b"], [0, 0, 0, 1])  # one of three pairs
    0.3333333333333333
    """
    label = np.asarray(label)
    of_label, labels = number_ids("label", label, len(label))
    of_example, _ = number_ids("example", example, len(label))
    total = _count_pairs(of_example)
    return _count_pairs(of_example * len(labels) + of_label) / total if total else math.nan


def _count_pairs(group: NDArray[np.int64]) -> int:
    """Return the number of ordered pairs within groups."""
    size = np.unique(group, return_counts=True)[1]
    return int((size * (size - 1)).sum())

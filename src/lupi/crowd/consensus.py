"""What most annotators say."""

from __future__ import annotations

import numpy as np

from lupi.crowd.votes import Floats, Integers, Votes


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

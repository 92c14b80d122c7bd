"""Infer true labels and the reliability of annotators from labels alone, without inputs or predictions."""

import numpy as np
from scipy.sparse import csr_array

from lupi._internal.arrays import Floats
from lupi.crowd.inference import Inference, infer_votes
from lupi.crowd.likelihood import split_rows
from lupi.crowd.votes import Integers, Votes

ROUNDS = 10
"""Maximum number of EM steps for the shares of the classes."""
CONVERGED = 0.003
"""Change of the shares at which the steps end."""
HARDLY = 0.005
"""Cells of confusion matrices with a smaller expected count are left out."""


def infer_alone(votes: Votes) -> Inference:
    """Infer true labels and the reliability of labels from the labels alone.

    The model is that of `infer_votes`. All examples have the same prior, the shares of the classes. EM estimates them,
    because errors make rare classes look more frequent among the labels than they are.
    """
    count = np.bincount(votes.label, minlength=votes.classes) + 1.0
    for _ in range(ROUNDS):
        share = count / count.sum()
        found = infer_votes(votes, np.broadcast_to(share, (votes.examples, votes.classes)))
        count = found.truth.sum(0) + 1
        if np.abs(count / count.sum() - share).max() < CONVERGED:
            break
    return found


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

"""Infer true labels and the reliability of annotators from labels alone, without inputs or predictions."""

import numpy as np
from scipy.sparse import csr_array
from scipy.special import expit, logit

from lupi._internal.arrays import Floats
from lupi.crowd.inference import Inference, infer_votes
from lupi.crowd.likelihood import split_rows
from lupi.crowd.trusted import count_checked
from lupi.crowd.votes import Integers, Votes

Z = 2.4
"""Half the width of an interval, in standard deviations. The other estimates are treated as known, so that 1.96 would
cover 84 to 92 % in simulations with two to five labels per example; this was chosen so that all cover 90 %."""
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


def approximate_reliability(inference: Inference) -> tuple[Floats, Floats, Floats]:
    """Return the reliability of each annotator and the limits of an approximate 95 % interval.

    The interval is computed for the log-odds that a label is correct, from the curvature of the log-posterior. A label
    that is correct with prior probability r contributes the information r (1 − r) if the truth is known, and q (1 − q)
    less if it is correct with posterior probability q. This takes one pass over the labels, where `sample_reliability`
    takes a thousand.
    """
    v, right, q = inference.votes, inference.right.clip(1e-9, 1 - 1e-9), 1 - inference.wrong
    spread = right * (1 - right)
    checked = count_checked(v)
    own = np.where(checked, checked * v.mean_by_annotator(spread), 1 / inference.variances[0])
    precision = own + np.bincount(v.annotator, spread - q * (1 - q), v.annotators).clip(0)
    log_odds, away = logit(right), (Z / np.sqrt(precision))[v.annotator]
    low, high = (v.mean_by_annotator(expit(log_odds + side * away)) for side in (-1, 1))
    return v.mean_by_annotator(right), low, high


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

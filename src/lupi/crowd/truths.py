"""The true label and the apparent answer of each example, given how likely each label was given in each way.

Labels of one example share errors: a hard example misleads everybody, and some annotators copy. The apparent answer u
stands for what they share. It is the true label z with probability ρ, and an error C[z, ·] if not. A label is u with
the probability that its annotator copies; otherwise it depends on z alone. Given z, the labels have the probability

    Σ_u P(u | z) Π_n (copy_n [y_n = u] + P_n(y_n | z)),

where only the u that are among the labels have to be told apart.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, psi

from lupi.crowd.population import Shares
from lupi.crowd.trusted import clamp
from lupi.crowd.votes import Floats, Integers, Votes, split_rows

SMALLEST = 1e-12
"""Lower bound of probabilities, so that nothing is impossible."""


@dataclass(frozen=True, eq=False)
class Channel:
    """How errors and apparent answers depend on the true label."""

    errors: Floats
    """C, [true label, given label] with a zero diagonal: the distribution of errors."""
    concentration: float
    """The rows of C have a Dirichlet prior with equal pseudo-counts that add up to this number."""
    apparent: float
    """ρ, the probability that the apparent answer is the true label."""


def start_channel(classes: int) -> Channel:
    """Return a channel whose errors are all equally likely."""
    return Channel((1 - np.eye(classes)) / (classes - 1), float(classes), 0.7)


class Part(NamedTuple):
    """The results of some examples."""

    example: Integers
    """The examples."""
    labels: Integers
    """Their labels."""
    evidence: Floats
    """log P(labels | z), [examples, classes]."""
    truth: Floats
    """P(z | labels), [examples, classes]."""
    log_total: float
    """Log-probability of all the labels."""
    others: Floats
    """P(z | the other labels of the example), [labels, classes]."""
    probability: Floats
    """P(label | the other labels of the example), [labels]."""
    apparent: Floats
    """P(the label is the apparent answer | the other labels of the example), [labels]."""
    errors: Floats
    """P(z, the label is an error | all labels), [labels, classes]."""
    same: float
    """Expected number of examples whose apparent answer is the true label."""


class Examples:
    """The labelled examples of votes, whose true labels and apparent answers are summed out."""

    def __init__(self, votes: Votes) -> None:
        self.votes = votes
        self.order = np.lexsort((votes.label, votes.example))
        self.start = np.append(np.flatnonzero(np.diff(votes.example[self.order], prepend=-1)), len(self.order))

    def solve(self, log_prior: Floats, shares: Shares, channel: Channel) -> Iterator[Part]:
        """Sum out the truths and the apparent answers of some examples at a time."""
        v, examples = self.votes, len(self.start) - 1
        for some in split_rows(examples, v.classes * -(-len(self.order) // examples)):
            first = self.start[some.start : some.stop + 1]
            labels = self.order[first[0] : first[-1]]
            y, example = v.label[labels], v.example[self.order[first[:-1]]]
            right, error, habit, copy = (values[labels] for values in shares)
            place, first = np.repeat(np.arange(len(example)), np.diff(first)), first[:-1] - first[0]
            error_to = channel.errors.T[y]  # C[z, y_n]
            p = error[:, None] * error_to
            p += habit[:, None]
            p[np.arange(len(labels)), y] += right
            np.maximum(p, SMALLEST, out=p)  # P_n(y_n | z)
            evidence = np.add.reduceat(np.log(p), first)
            if copy.any():
                added, told, same = _sum_apparent(y, place, copy[:, None], p, channel)
                evidence += added
            joint = clamp(v, log_prior[example] + evidence, example)
            top = joint.max(1, keepdims=True)
            truth = np.exp(joint - top)
            total = truth.sum(1, keepdims=True)
            truth /= total
            others, apparent, agree = truth[place], np.zeros(len(labels)), 0.0
            if copy.any():
                told *= others / (copy[:, None] + p)  # P(z, u = y_n | all labels) / P(y_n | z, u)
                apparent, agree = told.sum(1), float((truth * same).sum())
                others -= copy[:, None] * told
            others /= p
            errors = error[:, None] * error_to * others
            scale = 1 / others.sum(1)
            others *= scale[:, None]
            log_total = float((top + np.log(total)).sum())
            yield Part(example, labels, evidence, truth, log_total, others, scale, apparent * scale, errors, agree)


def _sum_apparent(
    y: Integers, place: Integers, copy: Floats, p: Floats, channel: Channel
) -> tuple[Floats, Floats, Floats]:
    """Sum out the apparent answer u.

    Return what it adds to the evidence, [examples, classes], and P(u = y_n | z, labels), [labels, classes], and
    P(u = z | z, labels), [examples, classes].
    """
    new = (np.diff(place, prepend=-1) != 0) | (np.diff(y, prepend=-1) != 0)
    cell, start = np.cumsum(new) - 1, np.flatnonzero(new)
    of_cell = place[start]  # a cell is an example and one of the classes of its labels
    channel_to = channel.apparent * np.eye(len(channel.errors)) + (1 - channel.apparent) * channel.errors
    prior, begin = channel_to.T[y[start]], np.flatnonzero(np.diff(of_cell, prepend=-1))
    unseen = np.log(np.maximum(1 - np.add.reduceat(prior, begin), SMALLEST))
    log = np.log(np.maximum(prior, SMALLEST)) + np.add.reduceat(np.log1p(copy / p), start)
    top = np.maximum(unseen, np.maximum.reduceat(log, begin))
    total = top + np.log(np.exp(unseen - top) + np.add.reduceat(np.exp(log - top[of_cell]), begin))
    told = np.exp(log - total[of_cell])
    same = channel.apparent * np.exp(-total)
    same[of_cell, y[start]] = told[np.arange(len(start)), y[start]]
    return total, told[cell], same


def update_channel(channel: Channel, wrong: Floats, same: float, examples: int) -> Channel:
    """Return the channel given the expected errors, [true label, given label], and apparent answers that are true.

    The concentration takes a step towards the maximum of the evidence of the expected errors.
    """
    K, old = len(wrong), channel.concentration
    apart, each = 1 - np.eye(K), old / (K - 1)
    if K > 2:
        gain = ((psi(each + wrong) - psi(each)) * apart).sum() / (K - 1)
        old *= float(gain / max((psi(old + wrong.sum(1)) - psi(old)).sum(), SMALLEST))
        old = min(max(old, 0.1), 1e6)
    errors = (old / (K - 1) + wrong) * apart
    return Channel(errors / errors.sum(1, keepdims=True), old, (same + 1) / (examples + 2))


def log_occam(channel: Channel, wrong: Floats) -> float:
    """Return the log-evidence of the expected errors less their log-probability under their mean, C."""
    K, total = len(wrong), channel.concentration
    each, apart = total / (K - 1), ~np.eye(K, dtype=bool)
    of_rows = gammaln(total + wrong.sum(1)) - gammaln(total)
    evidence = (gammaln(each + wrong) - gammaln(each))[apart].sum() - of_rows.sum()
    return float(evidence - (wrong[apart] * np.log(channel.errors[apart])).sum())

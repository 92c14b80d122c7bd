"""What to label next, and what more labels are expected to buy.

One more label y of example i, by an annotator with P(y | z), changes the posterior q_i of its true label to
q_i(z | y) ∝ q_i(z) P(y | z)^exponent, and is expected to reduce its entropy by

    H(q_i) − Σ_y P(y) H(q_i(· | y)),        P(y) = Σ_z q_i(z) P(y | z).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlogy

from lupi._internal.arrays import Floats
from lupi.crowd.inference import Inference, infer_votes
from lupi.crowd.likelihood import split_rows
from lupi.crowd.votes import Integers

DRAWS, REFITS = 50, 8
"""Numbers of simulations of future labels, and of fits to random halves of the examples."""
MOST_EXAMPLES = 2000
"""Maximum number of examples to fit the model to again."""


class Outlook(NamedTuple):
    """The expected accuracy of the consensus after more labels, with its 95 % interval."""

    labels: int
    accuracy: float
    low: float
    high: float


def typical_annotator(inference: Inference) -> Floats:
    """Return P(y | z), [true label, given label], averaged over all labels and their annotators."""
    v, model = inference.votes, inference.model
    work = 1 - model.share[v.annotator]
    right = np.array([(work * expit(model.log_odds + ease)).mean() for ease in model.ease])[:, None]
    habit = np.average(model.habits, axis=0, weights=np.bincount(v.annotator, 1 - work, v.annotators) + 1e-12)
    share = float(1 - work.mean())
    return right * np.eye(v.classes) + (1 - share - right) * model.errors + share * habit


def typical_grader(inference: Inference) -> Floats:
    """Return P(y | z) as by `typical_annotator`, but for a truth that another model inferred: that of grades."""
    counts = np.zeros((inference.votes.classes,) * 2)
    np.add.at(counts, inference.votes.label, inference.posterior)
    counts = counts.T + counts.sum(1) / counts.sum()
    return np.asarray(counts / counts.sum(1, keepdims=True))


def expected_gains(inference: Inference, p: Floats) -> Floats:
    """Return by how many nats one more label, given with P(y | z) = p, is expected to reduce entropy, [examples]."""
    told = p**inference.exponent
    spread = xlogy(told, told)
    gains = np.empty(inference.votes.examples)
    for rows in split_rows(*inference.truth.shape):
        q = inference.truth[rows]
        total = q @ told  # of q(z) P(y | z)^exponent over z, [examples, y]
        within = np.log(total) - (xlogy(q, q) @ told + q @ spread) / total
        gains[rows] = -xlogy(q, q).sum(1) - ((q @ p) * within).sum(1)
    return np.maximum(gains, 0)


def expected_accuracy(
    inference: Inference, p: Floats, order: Integers, counts: Sequence[int], seed: int = 0
) -> list[Outlook]:
    """Return the expected accuracy of the consensus after one more label for each of the first examples of an order.

    `counts` are the numbers of labels. True labels are drawn from their posterior, and labels with P(y | z) = p.
    The interval includes the spread of these draws, and that of the estimates over random halves of the examples, to
    which the model is fitted again: it is about that of estimates from all examples.
    """
    rng, n = np.random.default_rng(seed), inference.votes.examples
    log, logits = inference.exponent * np.log(p), np.log(np.maximum(inference.truth, 1e-300))
    found = np.empty((DRAWS, len(counts)))
    for draw in range(DRAWS):
        z = (inference.truth.cumsum(1) > rng.random((n, 1))).argmax(1)
        y = (p[z].cumsum(1) > rng.random((n, 1))).argmax(1)
        before, after = logits.argmax(1) == z, (logits + log[:, y].T).argmax(1) == z
        change = np.append(0, np.cumsum(after[order].astype(float) - before[order]))
        found[draw] = (before.sum() + change[list(counts)]) / n
    size = min(n // 2, MOST_EXAMPLES)
    halves = [refit(inference, np.sort(rng.permutation(n)[:size])).truth.max(1).mean() for _ in range(REFITS)]
    error = np.sqrt(found.var(0) + np.var(halves, ddof=1) * size / (n - size))
    mean, reach = found.mean(0), 2 * error
    low, high = (mean - reach).clip(0, 1), (mean + reach).clip(0, 1)
    return [Outlook(*row) for row in zip(counts, mean.tolist(), low.tolist(), high.tolist(), strict=True)]


def refit(inference: Inference, examples: Integers) -> Inference:
    """Fit the model to the labels of some examples, with the same predictions for them."""
    v = inference.votes
    use = np.isin(v.example, examples)
    who, annotator = np.unique(v.annotator[use], return_inverse=True)
    votes = replace(
        v,
        example=np.searchsorted(examples, v.example[use]),
        annotator=annotator,
        label=v.label[use],
        examples=len(examples),
        annotators=len(who),
        gold=None if v.gold is None else v.gold[examples],
        trust=None if v.trust is None else v.trust[who],
    )
    return infer_votes(votes, inference.p[examples])

"""Whether annotators disagree because some err, or because examples have no single answer.

Two models predict each label from the other labels of its example:

- *Truth*: the example has a true label, and annotators differ in how often they give it (`lupi.crowd.infer`).
- *Opinion*: the example has a share of people who would give each label, whoever they are. The shares are a Dirichlet
  distribution around the prediction, so the label k has the probability (α p(k | x) + n_k) / (α + n), if n_k of the n
  other labels are k.

The better one says what the disagreement is about.
"""

import numpy as np
from scipy.special import logsumexp

from lupi.crowd.inference import Inference
from lupi.crowd.likelihood import label_evidence, log_softmax, scatter
from lupi.crowd.tempering import find_shared

CONCENTRATIONS = 2.0 ** np.arange(-3, 8)
"""α, the numbers of labels that a prediction may be worth."""
FEWEST = 50
"""Minimum number of examples with several labels."""


def compare_with_opinions(found: Inference) -> tuple[float, float, float] | None:
    """Return by how many nats per label the truth predicts labels better than opinions do, and the 95 % interval.

    The interval is over examples. Return None if fewer than 50 examples have several labels.
    """
    votes, labels = found.votes, find_shared(found.votes)
    example, given = votes.example[labels], votes.label[labels]
    count = np.bincount(example, minlength=votes.examples)
    if (count > 0).sum() < FEWEST:
        return None
    own = label_evidence(votes, found.model, labels)
    others = log_softmax(found.log_prior[example] + found.exponent * (found.evidence[example] - own))
    of_truth = logsumexp(others + own, axis=1)
    seen = np.asarray(scatter(votes)[example, given]).ravel() - 1
    share = np.bincount(votes.label, minlength=votes.classes) / len(votes.label)
    of_opinions = max(
        (
            np.log((alpha * prior + seen) / (alpha + count[example] - 1))
            for prior in (np.exp(found.log_prior)[example, given], share[given])
            for alpha in CONCENTRATIONS
        ),
        key=np.sum,
    )
    total = np.bincount(example, of_truth - of_opinions, votes.examples)[count > 0]
    mean, half = float(total.sum() / len(labels)), float(1.96 * total.std() * len(total) ** 0.5 / len(labels))
    return mean, mean - half, mean + half

"""No PI on aggregated labels, the usual way to train on crowdsourced labels.

Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (Applied Statistics
1979), for aggregation that accounts for the reliability of annotators.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lupi._internal.arrays import Floats
from lupi.crowd import Votes, dawid_skene
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical, Likelihood
from lupi.methods.base import Stage
from lupi.methods.explanation import to_votes
from lupi.methods.no_pi import NoPI
from lupi.nn import Parts


class AggregatedNoPI(NoPI):
    """Replace the labels of each example with one target, a distribution over classes, and learn q(y | x) from it.

    A multi-label y is aggregated label by label. Early stopping uses held-out labels that are aggregated, too. The
    weight of an example is the mean weight of its labels.

    Parameters
    ----------
    trunk : Module
        φ(x).
    marginal : Module
        Head on φ(x).
    classes : int
        Number of classes or of binary labels.
    likelihood : Likelihood
        The likelihood of the labels.
    """

    aggregates: ClassVar = True
    likelihoods: ClassVar = (Categorical, Bernoulli)

    def __init__(
        self, trunk: nn.Module, marginal: nn.Module, *, classes: int, likelihood: Likelihood = Categorical()
    ) -> None:
        super().__init__(trunk, marginal, likelihood=likelihood)
        self.classes = classes

    @abstractmethod
    def aggregate(self, votes: Votes, counts: Floats) -> Floats:
        """Return the target of each example, [examples, classes].

        Parameters
        ----------
        votes : Votes
            The most probable class of each label and its annotator.
        counts : ndarray
            [examples, classes] sums of label weights; a soft label is divided among its classes.
        """

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield one stage, with one target per example."""
        yield Stage("train", self, self.prepare)

    def prepare(self, data: Annotations) -> Annotations:
        """Replace the annotations of each example with one, whose label is the target."""
        if isinstance(self.likelihood, Bernoulli):
            gold = [None] * data.y.shape[1] if data.gold is None else data.gold.unbind(1)
            each = zip(data.y.unbind(1), gold, strict=True)
            target = np.stack([self.target(data, torch.stack([1 - y, y], 1), true)[:, 1] for y, true in each], 1)
        else:
            target = self.target(data, self.likelihood.target(data.y, self.classes), data.gold)
        y = torch.from_numpy(target).to(data.y.device, data.dtype)
        return Annotations(data.x, data.annotated, y.new_zeros(len(y), 0), y, weight=data.weight_examples())

    def target(self, data: Annotations, label: Tensor, gold: Tensor | None) -> Floats:
        """Aggregate labels, [annotations, classes]; `gold` is the true class of each example, if it is known."""
        label = label.double()
        counts = label.new_zeros(data.examples, label.shape[1])
        counts.index_add_(0, data.row, label if data.weight is None else label * data.weight.double().unsqueeze(1))
        votes = to_votes(data, label.argmax(1), label.shape[1], gold)
        return self.aggregate(votes, counts[data.annotated].cpu().numpy())


class MajorityVote(AggregatedNoPI):
    """Train No PI on the most frequent label of each example; tied classes share the target equally.

    Labels are counted with their weights, and soft labels with the probabilities of their classes.
    """

    name: ClassVar = "majority-vote"
    title: ClassVar = "Majority vote"
    uses_privileged: ClassVar = False

    def aggregate(self, votes: Votes, counts: Floats) -> Floats:  # noqa: ARG002
        """Return the uniform distribution over the most frequent labels."""
        most = (counts == counts.max(1, keepdims=True)).astype(float)
        return np.asarray(most / most.sum(1, keepdims=True))


class DawidSkene(AggregatedNoPI):
    """Train No PI on Dawid and Skene's posterior over the true label of each example.

    Annotators are taken from `Annotations.annotator`; without it, all labels count as one annotator's. If no example
    has several labels and no true label is known, wrong labels cannot be detected, and the labels are used unchanged.
    Weights do not affect the posterior, and a soft label counts as its most probable class.
    """

    name: ClassVar = "dawid-skene"
    title: ClassVar = "Dawid–Skene"
    uses_privileged: ClassVar = True
    models_annotators: ClassVar = True

    def aggregate(self, votes: Votes, counts: Floats) -> Floats:
        """Return Dawid and Skene's posterior."""
        if len(votes.label) == votes.examples and not votes.has_anchors:
            return np.asarray(counts / np.maximum(counts.sum(1, keepdims=True), np.finfo(np.float64).tiny))
        return dawid_skene(votes)[0]


def majority_vote(parts: Parts) -> MajorityVote:
    """Make the method "majority-vote"."""
    return MajorityVote(parts.trunk(), parts.head(), classes=parts.outputs, likelihood=parts.likelihood)


def dawid_skene_labels(parts: Parts) -> DawidSkene:
    """Make the method "dawid-skene"."""
    return DawidSkene(parts.trunk(), parts.head(), classes=parts.outputs, likelihood=parts.likelihood)

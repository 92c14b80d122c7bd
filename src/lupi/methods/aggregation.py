"""No PI on aggregated labels: what a crowd's labels become before most people train.

Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (Applied Statistics
1979), for the aggregation that weighs annotators.
"""

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lupi.crowd import Votes, count_labels, dawid_skene
from lupi.crowd.votes import Floats
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical, Likelihood
from lupi.methods.base import Stage
from lupi.methods.no_pi import NoPI
from lupi.nn import Parts


class AggregatedNoPI(NoPI):
    """Replace the labels of each example by one target, a distribution over classes, and learn q(y | x) from it.

    Multi-label y is aggregated label by label. Early stopping uses held-out labels as they are.

    Parameters
    ----------
    trunk : Module
        φ(x).
    marginal : Module
        Head on φ(x).
    classes : int
        Number of classes, or of labels.
    likelihood : Likelihood
        The likelihood of the labels.
    """

    likelihoods: ClassVar = (Categorical, Bernoulli)

    def __init__(
        self, trunk: nn.Module, marginal: nn.Module, *, classes: int, likelihood: Likelihood = Categorical()
    ) -> None:
        super().__init__(trunk, marginal, likelihood=likelihood)
        self.classes = classes

    @abstractmethod
    def aggregate(self, votes: Votes) -> Floats:
        """Return the target of each example, [examples, classes]."""

    def stages(self, data: Annotations) -> Iterator[Stage]:  # noqa: ARG002
        """Yield one stage, which trains on one target per example."""
        yield Stage("train", self, self.prepare, lambda held_out: held_out)

    def prepare(self, data: Annotations) -> Annotations:
        """Replace the annotations of each example by one, whose label is the target."""
        if data.y.ndim == 1:
            target = self.aggregate(to_votes(data, data.y, self.classes))
        else:
            columns = [self.aggregate(to_votes(data, column.long(), 2))[:, 1] for column in data.y.unbind(1)]
            target = np.stack(columns, 1)
        y = torch.from_numpy(target).float().to(data.y.device)
        return Annotations(data.x, data.annotated, y.new_zeros(len(y), 0), y)


class MajorityVote(AggregatedNoPI):
    """No PI on the most frequent label of each example; classes with equally many votes share the target."""

    uses_privileged: ClassVar = False

    def aggregate(self, votes: Votes) -> Floats:
        """Return equal shares of the most frequent labels."""
        counts = count_labels(votes)
        most = (counts == counts.max(1, keepdims=True)).astype(float)
        return np.asarray(most / most.sum(1, keepdims=True))


class DawidSkene(AggregatedNoPI):
    """No PI on the posterior of each example's true label, given who gave which label.

    Annotators are those of `Annotations.annotator`; without them, all labels count as one annotator's. If no example
    has several labels, nothing tells right labels from wrong ones, and they are kept.
    """

    uses_privileged: ClassVar = True

    def aggregate(self, votes: Votes) -> Floats:
        """Return Dawid and Skene's posterior."""
        alone = len(votes.label) == votes.examples
        return count_labels(votes) if alone else dawid_skene(votes)[0]


def to_votes(data: Annotations, label: Tensor, classes: int) -> Votes:
    """Return labels of the annotations as votes on the annotated examples."""
    number = torch.searchsorted(data.annotated, data.row)
    annotator = torch.zeros_like(data.row) if data.annotator is None else data.annotator
    example, who, chosen = (values.cpu().numpy() for values in (number, annotator, label))
    return Votes(
        example=example,
        annotator=who,
        label=chosen,
        examples=len(data.annotated),
        annotators=int(who.max()) + 1,
        classes=classes,
    )


def majority_vote(parts: Parts) -> MajorityVote:
    """Make the method "majority-vote"."""
    return MajorityVote(parts.trunk(), parts.head(), classes=parts.outputs, likelihood=parts.likelihood)


def dawid_skene_labels(parts: Parts) -> DawidSkene:
    """Make the method "dawid-skene"."""
    return DawidSkene(parts.trunk(), parts.head(), classes=parts.outputs, likelihood=parts.likelihood)

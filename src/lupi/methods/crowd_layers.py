"""Crowd layers: a classifier, and what its labels become in the hands of each annotator.

These methods learn from who gave each label (`Annotations.annotator`) and from no other privileged information.

References
----------
Rodrigues and Pereira, "Deep learning from crowds" (AAAI 2018), https://arxiv.org/abs/1709.01779. Ibrahim, Nguyen and
Fu, "Deep learning from crowdsourced labels: coupled cross-entropy minimization, identifiability, and regularization"
(ICLR 2023), https://arxiv.org/abs/2306.03288. Herde, Lührs, Huseljic and Sick, "Annot-Mix: Learning with noisy class
labels from multiple annotators via a mixup extension" (ECAI 2024), https://arxiv.org/abs/2405.03386.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from lupi._internal.checks import check_number
from lupi._internal.inputs import map_inputs
from lupi.data import Annotations, Batch, SparseRows
from lupi.likelihoods import Bernoulli, Categorical
from lupi.methods.base import Method, Stage
from lupi.methods.transition import as_matrices, count_matrices, find_odds, mix_labels, set_diagonal
from lupi.nn import Parts, Tower

SMALLEST_EIGENVALUE = 1e-6
"""Added to the eigenvalues whose logarithms are summed, since a batch may have fewer labels than there are classes."""


class AnnotatorModel(Method):
    """Learn p(y | x) and a model of each annotator, and predict with p(y | x).

    In training, a is the annotator, one-hot, and zero for a known true label. Without `Annotations.annotator`, all
    labels are one annotator's.

    Parameters
    ----------
    trunk : Module
        φ(x).
    marginal : Module
        Head on φ(x), which gives the logits of p(y | x).
    annotators : int
        Number of annotators.
    likelihood : Categorical or Bernoulli
        The likelihood of the labels.
    """

    likelihoods: ClassVar = (Categorical, Bernoulli)
    predicts_truth: ClassVar = True
    likelihood: Categorical | Bernoulli

    def __init__(
        self,
        trunk: nn.Module,
        marginal: nn.Module,
        annotators: int,
        likelihood: Categorical | Bernoulli,
    ) -> None:
        super().__init__()
        self.trunk, self.marginal = trunk, marginal
        self.annotators, self.likelihood = annotators, likelihood

    @abstractmethod
    def annotator_output(self, features: Tensor, log_p: Tensor, a: Tensor) -> Tensor:
        """Return the output for the labels that annotators give, from φ(x), log p(y | x) and the annotators."""

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of the labels that annotators give."""
        features, log_p = self.classify(batch)
        output = self.annotator_output(features, log_p, batch.a)
        return {"conditional": self.likelihood.loss(output, batch.y, batch.weight)}

    def classify(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return φ(x) and log p(y | x), for each annotation."""
        features = self.trunk(batch.x)
        return batch.spread(features), batch.spread(self.likelihood.log_probabilities(self.marginal(features)))

    def stages(self, data: Annotations) -> Iterator[Stage]:
        """Yield one stage, in which a is the annotator."""
        known = data.annotator is not None
        yield Stage("train", self, partial(self.name_annotators, known=known))

    def name_annotators(self, data: Annotations, *, known: bool) -> Annotations:
        """Replace a with the annotator; it is zero for true labels and, if annotators are `known`, where none is."""
        named = ~data.has_gold[data.row]
        if data.annotator is None and known:
            named = torch.zeros_like(named)
        who = torch.zeros_like(data.row) if data.annotator is None else data.annotator
        if int(who.max()) >= self.annotators:
            raise ValueError(f"Expected annotators from 0 to {self.annotators - 1}, but got {int(who.max())}.")
        return replace(data, a=SparseRows(who.unsqueeze(1).int(), named.unsqueeze(1).to(data.dtype), self.annotators))


class CrowdLayer(AnnotatorModel):
    r"""Train softmax(W p(y | x)), where each annotator has a matrix W, which is the identity at first.

    The layer follows the softmax of the classifier, as in the paper, so an identity does not give No PI.

    Parameters
    ----------
    trunk, marginal, likelihood
        As for `AnnotatorModel`.
    layer : Linear
        Maps an annotator, one-hot, to W: K² weights, or 4 per binary label.
    """

    name: ClassVar = "crowd-layer"
    title: ClassVar = "Crowd layer"
    by_row: ClassVar = True
    gradients: ClassVar = {"conditional": ("trunk", "marginal", "layer")}

    def __init__(
        self,
        trunk: nn.Module,
        marginal: nn.Module,
        layer: nn.Linear,
        *,
        likelihood: Categorical | Bernoulli = Categorical(),
    ) -> None:
        super().__init__(trunk, marginal, layer.in_features, likelihood)
        self.layer = layer

    def annotator_output(self, features: Tensor, log_p: Tensor, a: Tensor) -> Tensor:  # noqa: ARG002
        """Return the logits W p(y | x)."""
        weights = as_matrices(self.likelihood, self.layer(a), log_p.shape[-1])
        return self.likelihood.from_log_probabilities((weights * log_p.exp().unsqueeze(-2)).sum(-1))


class GeoCrowdNet(CrowdLayer):
    r"""Train A p(y | x), where each annotator has a column-stochastic A = softmax(W), and spread out the p(y | x).

    The penalty is −λ log det(mean of p pᵀ), GeoCrowdNet(F) in the paper. The mean is over annotations, so that examples
    count by their labels. The paper has a sum, which differs by a constant.

    Parameters
    ----------
    trunk, marginal, layer, likelihood
        As for `CrowdLayer`.
    penalty : float
        λ.
    """

    name: ClassVar = "geo-crowd-net"
    title: ClassVar = "GeoCrowdNet(F)"
    gradients: ClassVar = {"conditional": ("trunk", "marginal", "layer"), "volume": ("trunk", "marginal")}

    def __init__(
        self,
        trunk: nn.Module,
        marginal: nn.Module,
        layer: nn.Linear,
        *,
        likelihood: Categorical | Bernoulli = Categorical(),
        penalty: float = 0.001,
    ) -> None:
        super().__init__(trunk, marginal, layer, likelihood=likelihood)
        self.penalty = check_number("penalty", penalty)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of the labels that annotators give, and the penalty."""
        features, log_p = self.classify(batch)
        output = self.annotator_output(features, log_p, batch.a)
        loss = self.likelihood.loss(output, batch.y, batch.weight)
        return {"conditional": loss, "volume": self.penalty * self.measure_volume(log_p, batch.weight)}

    def annotator_output(self, features: Tensor, log_p: Tensor, a: Tensor) -> Tensor:  # noqa: ARG002
        """Return the logits of A p(y | x)."""
        weights = as_matrices(self.likelihood, self.layer(a), log_p.shape[-1])
        return mix_labels(self.likelihood, torch.log_softmax(weights, -2), log_p)

    def measure_volume(self, log_p: Tensor, weight: Tensor | None) -> Tensor:
        """Return −log det(mean of p pᵀ), averaged over binary labels; in double precision, since det may be tiny."""
        p = log_p.double().exp()
        weighted = p if weight is None else p * weight.double().reshape(-1, *[1] * (p.ndim - 1))
        moment = torch.einsum("n...i,n...j->...ij", weighted, p) / p.shape[0]
        smallest = SMALLEST_EIGENVALUE * torch.eye(p.shape[-1], dtype=p.dtype, device=p.device)
        volume: Tensor = torch.linalg.slogdet(moment + smallest).logabsdet.mean()
        return -volume.to(log_p.dtype)


class AnnotMix(AnnotatorModel):
    r"""Train T(φ(x), annotator) p(y | x) on mixtures of two annotations: of their inputs, annotators and labels.

    Each annotation is mixed with another one of its batch, in proportions that are drawn uniformly, as in the authors'
    experiments (α = 1). The matrix T does not train the trunk. Here it is computed by the tower of TRAM; the authors
    use a layer with dropout and batch normalization.

    Parameters
    ----------
    trunk, marginal, likelihood
        As for `AnnotatorModel`.
    tower : Tower
        Sees φ(x) and the annotator.
    transition : Module
        Maps the output of the tower to the logits of T: K², or 4 per binary label.
    """

    name: ClassVar = "annot-mix"
    title: ClassVar = "Annot-Mix"
    gradients: ClassVar = {"conditional": ("trunk", "marginal", "tower", "transition")}

    def __init__(
        self,
        trunk: nn.Module,
        marginal: nn.Module,
        tower: Tower,
        transition: nn.Module,
        *,
        likelihood: Categorical | Bernoulli = Categorical(),
    ) -> None:
        super().__init__(trunk, marginal, tower.first.in_features, likelihood)
        self.tower, self.transition = tower, transition

    def annotator_output(self, features: Tensor, log_p: Tensor, a: Tensor) -> Tensor:
        """Return the logits of T(φ(x), annotator) p(y | x), where the share of known true labels stays p(y | x)."""
        logits = self.transition(self.tower(features.detach(), a))
        log_matrix = torch.log_softmax(as_matrices(self.likelihood, logits, log_p.shape[-1]), -2)
        named = torch.mv(a, torch.ones(a.shape[1], dtype=a.dtype, device=a.device)).clamp(0, 1)
        named = named.to(log_p.dtype).reshape(-1, *[1] * (log_p.ndim - 1))
        given = torch.logsumexp(log_matrix + log_p.unsqueeze(-2), -1)
        mixed = torch.logaddexp(named.log() + given, torch.log1p(-named) + log_p)
        return self.likelihood.from_log_probabilities(mixed)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the loss of mixed annotations in training, and of the annotations themselves in evaluation."""
        if not self.training:
            return super().losses(batch)
        draws = torch.rand(2, batch.row.shape[0], device=batch.row.device)
        share, other = draws[0], draws[1].argsort()
        mixed = mix_annotations(batch, share, other)
        output = self.annotator_output(*self.classify(mixed), mixed.a)
        own, others = (self.likelihood.loss_per_annotation(output, y) for y in (batch.y, batch.y[other]))
        if batch.weight is not None:
            own, others = batch.weight * own, batch.weight[other] * others
        return {"conditional": torch.lerp(own, others, share.to(own.dtype)).mean()}


def mix_annotations(batch: Batch, share: Tensor, other: Tensor) -> Batch:
    """Mix each annotation's x and a with those of the annotation `other`, whose share is given; y is unchanged."""

    def mix(values: Tensor) -> Tensor:
        if not (values.is_floating_point() or values.dtype == torch.uint8):
            raise ValueError(f"Expected x to be numbers or pixels for 'annot-mix', but got {values.dtype}.")
        exact = values if values.is_floating_point() else values.float()
        place = share.to(exact.dtype).reshape(-1, *[1] * (values.ndim - 1))
        mixed = torch.lerp(exact, exact[other], place)
        return mixed if values.is_floating_point() else mixed.round().to(values.dtype)

    x = map_inputs(lambda values: mix(batch.spread(values)), batch.x)
    row = torch.arange(batch.row.shape[0], device=batch.row.device)
    return Batch(x, row, mix(batch.a), batch.y, one_to_one=True, weight=batch.weight)


def make_layer(parts: Parts) -> nn.Linear:
    """Make a layer that maps an annotator to a matrix, the identity; the fixed bias is the matrix of true labels."""
    classes, matrices = count_matrices(parts)
    layer = nn.Linear(parts.annotators, matrices * classes**2)
    set_diagonal(layer, classes, 1.0)
    nn.init.zeros_(layer.weight)
    layer.bias.requires_grad_(False)
    return layer


def crowd_layer(parts: Parts) -> CrowdLayer:
    """Make the method "crowd-layer"."""
    assert isinstance(parts.likelihood, Categorical | Bernoulli)
    return CrowdLayer(parts.trunk(), parts.head(), make_layer(parts), likelihood=parts.likelihood)


def geo_crowd_net(parts: Parts, *, penalty: float = 0.001) -> GeoCrowdNet:
    """Make the method "geo-crowd-net"."""
    assert isinstance(parts.likelihood, Categorical | Bernoulli)
    layer = make_layer(parts)
    return GeoCrowdNet(parts.trunk(), parts.head(), layer, likelihood=parts.likelihood, penalty=penalty)


def annot_mix(parts: Parts, *, diagonal: float = 0.9) -> AnnotMix:
    """Make the method "annot-mix"; `diagonal` is the diagonal of T before training, η in the paper."""
    assert isinstance(parts.likelihood, Categorical | Bernoulli)
    classes, matrices = count_matrices(parts)
    tower = Tower(parts.annotators, parts.features, parts.tower_widths)
    transition = nn.Linear(tower.width, matrices * classes**2)
    set_diagonal(transition, classes, find_odds(diagonal, classes))
    return AnnotMix(parts.trunk(), parts.head(), tower, transition, likelihood=parts.likelihood)

"""Compute targets for students from labels, out-of-fold predictions and a model of the annotators."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor

from lupi.crowd import Votes, infer_votes, stack_weights
from lupi.crowd.trusted import clamp
from lupi.crowd.votes import softmax
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Bernoulli, Gaussian, Likelihood

Floats = NDArray[np.float64]
ROUNDS = 2
"""Number of alternations between fitting the mixture weights and fitting the model of the annotators."""


class Explanation(NamedTuple):
    """A mixture of predictions, and the targets that follow from it and the labels."""

    weights: Floats
    """[predictions] weights of the mixture."""
    powers: Floats
    """[predictions] exponents that recalibrate each prediction before mixing."""
    power: float
    """Exponent that recalibrates the mixture."""
    target: Floats
    """[annotated examples, ...] the targets of a student."""


def explain(
    data: Annotations, predictions: Sequence[Floats], likelihood: Likelihood, weight: float, exponent: float | None
) -> Explanation:
    """Mix out-of-fold predictions, and compute the targets λ P(truth | labels, x) + (1 − λ) P(truth | x).

    If the true label of an example is known, it is the target.

    The mixture weights and the model of the annotators are fitted in turns, starting with the prediction that explains
    the labels best. Starting with equal weights, predictions that have learnt the answers of spammers could outvote one
    that has not.
    """
    if isinstance(likelihood, Gaussian):
        return explain_numbers(data, [p[:, 0] for p in predictions], weight)
    several = isinstance(likelihood, Bernoulli)
    votes, features = to_votes(data, predictions[0].shape[1], several=several)
    priors = [np.stack([1 - p, p], -1).reshape(-1, 2) if several else p for p in predictions]
    weights = np.ones(len(priors))
    found = None
    if len(priors) > 1:
        alone = [infer_votes(votes, p, features=features) for p in priors]
        best = int(np.argmax([one.log_likelihood for one in alone]))
        found, weights = alone[best], np.eye(len(priors))[best]
        for _ in range(ROUNDS):
            weights = stack_weights(priors, clamp(votes, found.evidence.copy()))
            found = infer_votes(votes, mix(priors, weights), features=features, start=found)
    prior = mix(priors, weights)
    if found is None:
        found = infer_votes(votes, prior, features=features)
    truth = softmax(clamp(votes, found.log_prior + (found.exponent if exponent is None else exponent) * found.evidence))
    target = weight * truth + (1 - weight) * prior
    if votes.gold is not None:
        target[votes.gold >= 0] = truth[votes.gold >= 0]
    ones = np.ones(len(priors))
    return Explanation(weights, ones, 1.0, target[:, 1].reshape(predictions[0].shape) if several else target)


def explain_numbers(data: Annotations, predictions: Sequence[Floats], weight: float) -> Explanation:
    """Mix real-valued predictions by non-negative least squares, and average the mixture with the mean label."""
    data = data.with_gold()
    row, known = number_examples(data), data.has_gold[data.annotated].cpu().numpy()
    y = data.y.double().cpu().numpy()
    w = np.ones(len(y)) if data.weight is None else data.weight.double().cpu().numpy()
    error = np.stack([np.sqrt(w) * (p[row] - y) for p in predictions], 1)
    weights = minimize_on_simplex(error)
    mean = np.bincount(row, w * y) / np.maximum(np.bincount(row, w), np.finfo(np.float64).tiny)
    target = np.where(known, mean, weight * mean + (1 - weight) * mix(predictions, weights))
    return Explanation(weights, np.ones(len(predictions)), 1.0, target)


def minimize_on_simplex(error: Floats) -> Floats:
    """Return the weights w ≥ 0 with Σ w = 1 that minimize ‖error w‖².

    Writing w = s u with Σ u = 1, `nnls` below minimizes s² ‖error u‖² + c² (s − 1)². For any s and c, the optimal u is
    the solution.
    """
    c = max(float(np.linalg.norm(error)), np.finfo(np.float64).tiny)
    w = nnls(np.vstack([error / c, np.ones(error.shape[1])]), np.append(np.zeros(len(error)), 1.0))[0]
    return np.asarray(w / w.sum())


def apply_mixture(mixture: Explanation, predictions: Sequence[Floats], likelihood: Likelihood) -> Floats:
    """Recalibrate and mix predictions at other points in the same way as `explain`."""
    if isinstance(likelihood, Gaussian):
        return mix([p[:, 0] for p in predictions], mixture.weights)
    several = isinstance(likelihood, Bernoulli)
    priors = [np.stack([1 - p, p], -1) if several else p for p in predictions]
    mixed = mix([sharpen(p, power) for p, power in zip(priors, mixture.powers, strict=True)], mixture.weights)
    mixed = sharpen(mixed, mixture.power)
    return mixed[..., 1] if several else mixed


def mix(predictions: Sequence[Floats], weights: Floats) -> Floats:
    """Return the weighted sum of predictions."""
    return np.asarray(sum(weight * p for weight, p in zip(weights, predictions, strict=True)))


def sharpen(p: Floats, power: float) -> Floats:
    """Raise p to a power, and normalize over the last axis."""
    raised = p.clip(1e-6) ** power
    return np.asarray(raised / raised.sum(-1, keepdims=True))


def number_examples(data: Annotations) -> NDArray[np.int64]:
    """Return the position of each annotation's example among the annotated examples."""
    position = data.count.gt(0).cumsum(0) - 1
    return position[data.row].cpu().numpy()


def to_votes(data: Annotations, outputs: int, *, several: bool) -> tuple[Votes, scipy.sparse.csr_array | None]:
    """Return the labels as votes, and the privileged information that varies within an annotator as features.

    A soft label counts as its most probable class. Weights are ignored here; they affect the training of networks.
    """
    soft = not several and data.y.ndim == 2
    row, y = number_examples(data), (data.y.argmax(1) if soft else data.y).cpu().numpy()
    annotator = np.zeros(len(row), np.int64) if data.annotator is None else data.annotator.cpu().numpy()
    features = drop_constant(to_sparse(data.a), annotator)
    examples = int(data.annotated.shape[0])
    gold = None if data.gold is None else data.gold[data.annotated].cpu().numpy()
    if several:
        label = np.arange(outputs)
        features = features[np.repeat(np.arange(len(row)), outputs)]
        row, annotator = (row[:, None] * outputs + label).ravel(), annotator.repeat(outputs)
        y, examples = y.ravel(), examples * outputs
        gold = None if gold is None else np.nan_to_num(gold, nan=-1).astype(np.int64).ravel()
    votes = Votes(
        example=row,
        annotator=annotator,
        label=y.astype(np.int64),
        examples=examples,
        annotators=int(annotator.max()) + 1,
        classes=2 if several else outputs,
        gold=gold,
        trust=take_trust(data, int(annotator.max()) + 1),
    )
    return votes, features if features.shape[1] else None


def take_trust(data: Annotations, annotators: int) -> Floats | None:
    """Return the trust in the first `annotators` annotators, who gave labels."""
    return None if data.trust is None else data.trust[:annotators].double().cpu().numpy()


def to_sparse(a: Tensor | SparseRows) -> scipy.sparse.csr_array:
    """Return privileged information as a sparse matrix."""
    if isinstance(a, SparseRows):
        rows, entries = a.index.shape
        index, value = a.index.cpu().numpy().ravel(), a.value.double().cpu().numpy().ravel()
        start = np.arange(rows + 1) * entries
        matrix = scipy.sparse.csr_array((value, index, start), shape=a.shape)
        matrix.sum_duplicates()
        return matrix
    return scipy.sparse.csr_array(a.double().cpu().numpy())


def drop_constant(features: scipy.sparse.csr_array, annotator: NDArray[np.int64]) -> scipy.sparse.csr_array:
    """Drop features that are constant for every annotator: they only identify the annotator."""
    first = np.zeros(annotator.max(initial=-1) + 1, np.int64)
    first[annotator[::-1]] = np.arange(len(annotator))[::-1]  # numpy keeps the last of repeated assignments
    difference = features - features[first[annotator]]
    return features[:, np.unique(difference.nonzero()[1])]

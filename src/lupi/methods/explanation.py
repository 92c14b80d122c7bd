"""Compute targets for students from labels, out-of-fold predictions and a model of the annotators."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from scipy.optimize import nnls
from torch import Tensor

from lupi._internal.arrays import Floats
from lupi.crowd import Votes
from lupi.crowd.calibration import calibrate
from lupi.crowd.dependence import share_of_independent, shared_error, soften
from lupi.crowd.grades import GradeInference, infer_grades
from lupi.crowd.inference import Inference, infer_votes
from lupi.crowd.numbers import infer_numbers
from lupi.crowd.stacking import stack_weights
from lupi.crowd.trusted import clamp
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Bernoulli, Gaussian, Likelihood, Ordinal

ROUNDS = 2
"""Number of alternations between fitting the mixture weights and fitting the model of the annotators."""
UNKNOWN = 0.5
"""λ if no two labels of an example tell how far annotators err together."""


class Explanation(NamedTuple):
    """A mixture of predictions, and the targets that follow from it and the labels."""

    weights: Floats
    """[predictions] weights of the mixture."""
    target: Floats
    """[annotated examples, ...] the targets of a student."""
    adjust: Callable[[Floats], Floats] = np.asarray
    """What to do to a mixture of predictions."""


def explain(
    data: Annotations,
    predictions: Sequence[Floats],
    likelihood: Likelihood,
    weight: float | None,
    exponent: float | None,
    predict: Callable[[Floats], Floats] | None = None,
    *,
    hedge: bool = True,
) -> Explanation:
    """Mix out-of-fold predictions, and compute the targets λ P(truth | labels, x) + (1 − λ) P(truth | x).

    By default, λ is the share of the labels of an example that are independent (see `lupi.crowd.dependence`), or ½ if
    this cannot be known: if annotators err together, their labels say less about the truth than they seem to. Then
    predictions of the truth, which are learnt from the same labels, are too sure, too, and with `hedge` targets are
    made softer by how often the crowd is wrong together.

    If the true label of an example is known, it is the target, and the other targets are calibrated by it, if they are
    classes. `predict` takes the log-probability of the labels given each true label, and returns one more
    out-of-fold prediction.
    """
    if isinstance(likelihood, Gaussian):
        return explain_numbers(data, [p[:, 0] for p in predictions], UNKNOWN if weight is None else weight)
    several, outputs = isinstance(likelihood, Bernoulli), predictions[0].shape[1]
    votes, priors = list_votes(data, likelihood, outputs), [to_prior(p, several) for p in predictions]
    features = find_features(data, outputs if several else 1)
    if features is not None and all(tells_label(features, votes, p) for p in priors):
        features = None

    def infer(p: Floats, start: Any = None, exponent: float | None = 1.0) -> Inference | GradeInference:
        if isinstance(likelihood, Ordinal):
            return infer_grades(votes, p, exponent=exponent)
        return infer_votes(votes, p, features=features, exponent=exponent, start=start)

    weights, prior, found = np.ones(1), priors[0], None
    if len(priors) > 1 or predict:
        further = predict and (lambda evidence: to_prior(predict(evidence), several))
        weights, prior, found = mix_by_truth(votes, priors, infer, further)
    last, share = infer(prior, found, exponent), np.full(votes.examples, np.nan)
    adjust: Callable[[Floats], Floats] = np.asarray
    if isinstance(last, Inference):
        share = share_of_independent(votes, last.truth)
        if hedge:
            error = shared_error(last.log_prior, last.evidence, share)
            adjust = partial(soften, error=error, classes=votes.classes)
    truth, prior = adjust(last.truth), adjust(prior)
    if votes.gold is not None and not several:
        softened, calibration = adjust, calibrate(votes.gold, prior)
        adjust, prior = (lambda p: calibration.apply(softened(p))), calibration.apply(prior)
        last = infer(prior, last, exponent)
        truth = calibrate(votes.gold, prior, last.evidence, last.exponent).apply(prior, last.evidence)
    of_truth = (np.nan_to_num(share, nan=UNKNOWN) if weight is None else np.full(votes.examples, weight))[:, None]
    target = of_truth * truth + (1 - of_truth) * prior
    if votes.gold is not None:
        target[votes.gold >= 0] = np.eye(votes.classes)[votes.gold[votes.gold >= 0]]
    return Explanation(weights, target[:, 1].reshape(predictions[0].shape) if several else target, adjust)


def mix_by_truth(
    votes: Votes,
    priors: list[Floats],
    infer: Callable[..., Inference | GradeInference],
    predict: Callable[[Floats], Floats] | None,
) -> tuple[Floats, Floats, Inference | GradeInference]:
    """Return the mixture weights, the mixture of the priors and of one more, and what was inferred last.

    The weights and the model of the annotators are fitted in turns, starting with the prior that explains the labels
    best. Starting with equal weights, predictions that have learnt the answers of spammers could outvote one that has
    not.
    """

    def find_evidence(found: Inference | GradeInference) -> Floats:
        return clamp(votes, found.evidence.copy())

    weights, found = np.ones(1), max(map(infer, priors), key=attrgetter("log_likelihood"))
    for _ in range(ROUNDS if len(priors) > 1 else 0):
        weights = stack_weights(priors, find_evidence(found))
        found = infer(mix(priors, weights), found)
    if predict:
        priors = [*priors, predict(find_evidence(found))]
        weights = stack_weights(priors, find_evidence(found))
        found = infer(mix(priors, weights), found)
        weights = stack_weights(priors, find_evidence(found))
    return weights, mix(priors, weights), found


def explain_numbers(data: Annotations, predictions: Sequence[Floats], weight: float) -> Explanation:
    """Mix real-valued predictions by least squares on the labels, and infer the true numbers.

    The mixture weights and the model of the annotators are fitted in turns; offsets are subtracted from the labels, and
    precise labels count more.
    """
    row, annotator = number_examples(data), find_annotators(data)
    y = to_numpy(data.y)
    given = np.ones(len(y)) if data.weight is None else to_numpy(data.weight)
    gold = np.full(predictions[0].shape, np.nan) if data.gold is None else to_numpy(data.gold[data.annotated])
    offset, precision = np.zeros(len(y)), given
    for _ in range(ROUNDS):
        error = np.stack([np.sqrt(precision) * (p[row] + offset - y) for p in predictions], 1)
        weights = minimize_on_simplex(error)
        mixed = mix(predictions, weights)
        found = infer_numbers(y, mixed, example=row, annotator=annotator, weight=given, gold=gold)
        offset = found.level + found.offsets[annotator]
        precision = given / (found.unexplained + found.variances[annotator])
    target = np.where(np.isnan(gold), weight * found.truth + (1 - weight) * (mixed + found.level), found.truth)
    return Explanation(weights, target, lambda mixed: mixed + found.level)


def minimize_on_simplex(error: Floats) -> Floats:
    """Return the weights w ≥ 0 with Σ w = 1 that minimize ‖error w‖².

    Writing w = s u with Σ u = 1, `nnls` below minimizes s² ‖error u‖² + c² (s − 1)². For any s and c, the optimal u is
    the solution.
    """
    c = max(float(np.linalg.norm(error)), np.finfo(np.float64).tiny)
    w = nnls(np.vstack([error / c, np.ones(error.shape[1])]), np.append(np.zeros(len(error)), 1.0))[0]
    return np.asarray(w / w.sum())


def mix(predictions: Sequence[Floats], weights: Floats) -> Floats:
    """Return the weighted sum of predictions."""
    return np.asarray(sum(weight * p for weight, p in zip(weights, predictions, strict=True)))


def number_examples(data: Annotations) -> NDArray[np.int64]:
    """Return the position of each annotation's example among the annotated examples."""
    position = data.count.gt(0).cumsum(0) - 1
    return position[data.row].cpu().numpy()


def to_prior(p: Floats, several: bool) -> Floats:
    """Return predictions as probabilities of classes; several binary labels have a row each."""
    return np.stack([1 - p, p], -1).reshape(-1, 2) if several else p


def list_votes(data: Annotations, likelihood: Likelihood, outputs: int) -> Votes:
    """Return the labels as votes; a soft label counts as its most probable class."""
    several = isinstance(likelihood, Bernoulli)
    y = data.y if several or data.y.ndim == 1 else data.y.argmax(1)
    return to_votes(data, y, 2 if several else outputs, data.gold)


def to_votes(data: Annotations, y: Tensor, classes: int, gold: Tensor | None) -> Votes:
    """Return labels as votes on the annotated examples.

    Several binary labels, y [annotations, labels], are votes on pairs of an example and a label. `gold` has the true
    class of each example in the form of y; it is negative or NaN where it is unknown. Weights are ignored here; they
    affect the training of networks.
    """
    row, label = number_examples(data), (y > 0.5 if y.is_floating_point() else y).long().cpu().numpy()
    annotator = find_annotators(data)
    examples, labels = int(data.annotated.shape[0]), y.shape[1] if y.ndim == 2 else 1
    annotators = int(annotator.max()) + 1
    return Votes(
        example=(row[:, None] * labels + np.arange(labels)).ravel(),
        annotator=annotator.repeat(labels),
        label=label.ravel(),
        examples=examples * labels,
        annotators=annotators,
        classes=classes,
        gold=None if gold is None else gold[data.annotated].nan_to_num(-1).long().cpu().numpy().ravel(),
        trust=None if data.trust is None else data.trust[:annotators].double().cpu().numpy(),
    )


def find_annotators(data: Annotations) -> NDArray[np.int64]:
    """Return the annotator of each label; without any, all labels are one annotator's."""
    return np.zeros(len(data), np.int64) if data.annotator is None else data.annotator.cpu().numpy()


def find_features(data: Annotations, labels: int = 1) -> scipy.sparse.csr_array | None:
    """Return the privileged information that varies within an annotator, repeated for several labels."""
    features = drop_constant(to_sparse(data.a), find_annotators(data))
    return features[np.repeat(np.arange(len(data)), labels)] if features.shape[1] else None


def tells_label(features: scipy.sparse.csr_array, votes: Votes, p: Floats) -> bool:
    """Return whether features predict the given labels better than x does, by the adjusted R² of a linear regression.

    Such features describe the label itself, like the score behind a judge's verdict, not how good it is. As evidence of
    errors, they could explain all labels by a constant truth: every label of the other classes is wrong.
    """
    count, columns = features.shape
    given = np.eye(votes.classes)[votes.label]
    deviation = given - given.mean(0)
    centred = features - scipy.sparse.csr_array(np.ones((count, 1))) @ scipy.sparse.csr_array(features.mean(0)[None])
    gram = (centred.T @ centred).toarray()
    moment = centred.T @ deviation
    total = float(np.sum(deviation**2))  # 0 if all labels are equal
    explained = float(np.sum(moment * np.linalg.lstsq(gram, moment)[0]))
    by_chance = total * columns / count
    by_x = total - float(np.sum((given - p[votes.example]) ** 2))
    return explained - by_chance > max(by_x, 0.0)


def hide_telling(data: Annotations, p: Floats, likelihood: Likelihood) -> Annotations:
    """Set the features that `find_features` returns to zero if they tell the label better than x does.

    `p` are predictions from x. Networks that see such features would learn the label from them, and nothing from x.
    """
    several, outputs = isinstance(likelihood, Bernoulli), p.shape[1]
    features = find_features(data, outputs if several else 1)
    votes = list_votes(data, likelihood, outputs)
    if features is None or not tells_label(features, votes, to_prior(p, several)):
        return data
    hidden = torch.zeros(data.a.shape[1] + 1, dtype=torch.bool, device=data.row.device)  # the last is that of no column
    hidden[torch.from_numpy(varying_columns(to_sparse(data.a), find_annotators(data))).to(hidden.device)] = True
    if isinstance(data.a, SparseRows):
        return replace(data, a=replace(data.a, value=data.a.value * ~hidden[data.a.index.long()]))
    return replace(data, a=data.a * ~hidden[:-1])


def to_numpy(values: Tensor) -> Floats:
    """Return a tensor as an array."""
    return values.double().cpu().numpy()


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
    return features[:, varying_columns(features, annotator)]


def varying_columns(features: scipy.sparse.csr_array, annotator: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the columns of features that vary within an annotator."""
    first = np.zeros(annotator.max(initial=-1) + 1, np.int64)
    first[annotator[::-1]] = np.arange(len(annotator))[::-1]  # numpy keeps the last of repeated assignments
    difference = features - features[first[annotator]]
    return np.unique(difference.nonzero()[1]).astype(np.int64)

"""Infer true labels and the reliability of labels, without true labels.

Dawid and Skene (1979) jointly estimate the true labels and the confusion matrix of each annotator. Here, as in Raykar
et al. (2010), the prior of a true label is the out-of-fold prediction of a model, so one label per example is enough:

    true label        z_i ~ p(·|x_i), or the estimated frequencies of the classes
    apparent answer   u_i = z_i with probability ρ, else drawn from C[z_i, ·]
    annotator         of type g: r, s and c on a grid, frequencies estimated; a habit, all classes equally likely
    given label       y_n = u_i with probability c, the annotator's habit with probability s,
                      else z_i with probability r, else drawn from C[z_i, ·];  C[z, ·] ~ Dirichlet, by evidence

Features of a label, such as the time it took, add w · features to the log-odds of r, with w ~ N(0, σ²).

Truths, apparent answers and types are all summed out, by messages between examples (`lupi.crowd.truths`) and annotators
(`lupi.crowd.population`): what the other labels of its example and of its annotator say about each label. Messages are
exact if every example has one label, or every annotator gave one, and loopy otherwise (Liu, Peng and Ihler 2012).
Between two passes, EM updates the parameters.

The posterior itself comes from the model without copying (c = 0), whose evidence for each class is multiplied by an
exponent. The model with copying says how much labels of one example depend on each other, and so which exponent is
best. Its own posterior is less accurate on real labels: where most annotators share an answer, it may side with the
others.

References
----------
Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (Applied Statistics
1979). Raykar et al., "Learning from crowds" (JMLR 2010). Liu, Peng and Ihler, "Variational inference for crowdsourcing"
(NIPS 2012).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array, issparse
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import logsumexp

from lupi.crowd.population import TINY, Annotators, Population, Shares, Support, start_population
from lupi.crowd.trusted import clamp, read_gold, read_trust
from lupi.crowd.truths import Channel, Examples, log_occam, start_channel, update_channel
from lupi.crowd.votes import Floats, Votes, number_ids, softmax

SMALLEST = 1e-6
"""Lower bound of the model's probabilities: no prediction makes a label impossible."""
COPYING = (0.5, 0.99)
"""Initial values of c of the copiers."""
PARAMETERS = 4
"""Number of parameters that copying adds: c, ρ and the shares of copiers and leaders."""
SOME = 5000
"""Number of labels, at most, to which a model with copying is fitted."""
TOLERANCE = 5e-3
"""Passes stop when no probability of a true label and no share of a label changes by more than this."""
DAMPING = 0.5
"""Weight of the last messages in the next ones."""
PASSES = 100
"""Maximum number of passes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Inference:
    """Estimates of the true labels and of the reliability of labels and annotators."""

    votes: Votes
    """The labels."""
    names: NDArray[Any]
    """Ids of the annotators, in the order of their numbers."""
    log_prior: Floats
    """Log of the predictions, [examples, classes]."""
    evidence: Floats
    """Log-probability of the labels of an example given each true label, [examples, classes]."""
    exponent: float
    """Exponent of the probability of the labels in `truth`, 1 if annotators do not copy."""
    truth: Floats
    """P(z | all labels, x), [examples, classes]."""
    weights: Floats
    """w, [features]."""
    shares: Shares
    """How likely each label was given in each way, by the other labels of its annotator."""
    support: Support
    """What the prediction and the other labels of its example say about each label."""
    population: Population
    """The types of annotators."""
    channel: Channel
    """Errors and apparent answers."""
    log_likelihood: float
    """Log-probability of the labels, and of the true labels that are known, with everything unknown summed out."""

    @property
    def right(self) -> Floats:
        """The prior probability that each label is correct, before its value and the other labels are known."""
        v, shares = self.votes, self.shares
        lucky = shares.habit * np.exp(self.log_prior[v.example, v.label])
        return np.asarray(shares.right + self.channel.apparent * shares.copy + lucky)

    @property
    def others(self) -> Floats:
        """P(z | the other labels of the example, x), [labels, classes]."""
        found = np.empty((len(self.votes.label), self.votes.classes))
        for part in Examples(self.votes).solve(self.log_prior, self.shares, self.channel):
            found[part.labels] = part.others
        return found

    @property
    def wrong(self) -> Floats:
        """P(the label is wrong | all labels, x), for each label.

        With a single annotator and neither features nor true labels, nothing could reveal the annotator's errors, so a
        label does not count as evidence for itself.
        """
        v = self.votes
        truth = self.truth[v.example] if v.annotators > 1 or len(self.weights) or v.has_anchors else self.others
        return np.asarray(1 - truth[np.arange(len(v.label)), v.label])


def infer(
    p: ArrayLike,
    label: ArrayLike,
    *,
    example: ArrayLike | None = None,
    annotator: Any = None,
    features: Any = None,
    gold: ArrayLike | None = None,
    trust: Mapping[Any, float] | None = None,
) -> Inference:
    """Infer true labels and the reliability of labels from labels and the predictions of a model.

    Parameters
    ----------
    p : array, [labels, classes]
        For each label, the prediction for its example by a model that was not trained on that example.
    label : array of int
        The given labels, as column numbers of `p`.
    example : array, optional
        Ids of the examples. By default, each label belongs to a different example.
    annotator : array, optional
        Ids of the annotators; a missing id counts as one more annotator. By default, all labels are from one annotator.
    features : array or sparse array, [labels, features], optional
        Other features that may distinguish correct labels from wrong ones, such as the time taken or a stated
        confidence. Numbers should be standardized.
    gold : array, optional
        For each label, the true label of its example as a column number of `p`; NaN or −1 where it is unknown.
    trust : mapping, optional
        For each trusted annotator, by id, the probability between 0 and 1 that a label is correct. It counts as much as
        100 of the annotator's labels with known truth.

    Returns
    -------
    Inference
        Posteriors of the true labels and the reliability of labels and annotators.

    Examples
    --------
    Ann and Bob agree with the model; Cem does not.

    >>> p = np.tile([[0.8, 0.2], [0.2, 0.8]], (20, 1)).repeat(3, axis=0)
    >>> given = np.tile([0, 0, 1, 1, 1, 0], 20)
    >>> found = infer(p, given, example=np.arange(40).repeat(3), annotator=["Ann", "Bob", "Cem"] * 40)
    >>> found.names.tolist(), found.wrong[:3].round(2).tolist()
    (['Ann', 'Bob', 'Cem'], [0.0, 0.0, 1.0])
    """
    p = np.asarray(p, dtype=np.float64)
    label = np.asarray(label)
    _check_probabilities(p)
    if label.shape != p.shape[:1] or label.dtype.kind not in "iu" or not len(label):
        raise ValueError(
            f"Expected `label` to be {len(p)} integers, but got {label.dtype} of shape {list(label.shape)}."
        )
    if label.min() < 0 or label.max() >= p.shape[1]:
        raise ValueError(
            f"Expected `label` to be columns of `p`, 0 to {p.shape[1] - 1}, but got {label.min()} to {label.max()}."
        )
    of_example, ids = number_ids("example", np.arange(len(label)) if example is None else example, len(label))
    whose = np.zeros(len(label), int) if annotator is None else annotator
    of_annotator, names = number_ids("annotator", whose, len(label))
    votes = Votes(
        example=of_example,
        annotator=of_annotator,
        label=label.astype(np.int64),
        examples=len(ids),
        annotators=len(names),
        classes=p.shape[1],
        gold=None if gold is None else read_gold(gold, of_example, len(ids), p.shape[1]),
        trust=None if trust is None else read_trust(trust, names),
    )
    first = np.unique(of_example, return_index=True)[1]
    return replace(infer_votes(votes, p[first], features=features), names=names)


def infer_votes(
    votes: Votes, p: ArrayLike | None = None, *, features: Any = None, start: Inference | None = None
) -> Inference:
    """Infer true labels and the reliability of labels from votes and one prediction per example.

    Parameters
    ----------
    votes : Votes
        The labels. The posterior of an example without labels is its prior, or its true label if that is known.
    p : array, [examples, classes], optional
        The prediction for each example by a model that was not trained on it. By default, the frequencies of the true
        labels, which are estimated.
    features
        As in `infer`.
    start : Inference, optional
        An earlier result for the same votes and features, with other predictions, from which to start: faster.

    Returns
    -------
    Inference
        Posteriors of the true labels and the reliability of labels and annotators.

    Examples
    --------
    Quick labels are wrong.

    >>> example, quick = np.arange(60).repeat(3), np.tile([0.0, 0.0, 1.0], 60)
    >>> label = np.where(quick, 1 - example % 2, example % 2)
    >>> votes = Votes(example=example, annotator=0 * example, label=label, examples=61, annotators=1, classes=2)
    >>> found = infer_votes(votes, np.tile([[0.7, 0.3], [0.3, 0.7]], (31, 1))[:61], features=quick[:, None])
    >>> found.right[:3].round(1).tolist(), found.truth[:2].argmax(1).tolist()
    ([1.0, 1.0, 0.0], [0, 1])
    """
    count = len(votes.label)
    columns: Any = np.zeros((count, 0)) if features is None else features
    columns = columns if issparse(columns) else np.asarray(columns, dtype=np.float64)
    if columns.ndim != 2 or columns.shape[0] != count or not np.isfinite(columns.sum()):
        raise ValueError(f"Expected `features` to be {count} rows of numbers, but got shape {list(columns.shape)}.")
    if p is None:
        log_prior = None
    else:
        p = np.asarray(p, dtype=np.float64)
        _check_probabilities(p)
        if p.shape != (votes.examples, votes.classes):
            raise ValueError(
                f"Expected `p` to be of shape {[votes.examples, votes.classes]}, but got shape {list(p.shape)}."
            )
        log_prior = np.maximum(p, SMALLEST)
        log_prior = np.log(log_prior / log_prior.sum(1, keepdims=True))
    found = _Fit(votes, log_prior, csr_array(columns)).run(start)
    exponent = choose_exponent(found, csr_array(columns)) if start is None else start.exponent
    truth = softmax(clamp(votes, found.log_prior + exponent * found.evidence))
    return replace(found, truth=truth, exponent=exponent)


def choose_exponent(inference: Inference, features: csr_array) -> float:
    """Return the exponent of the evidence that is best if annotators copy as much as the labels say.

    A model in which they may copy is fitted to some of the examples. If it explains their labels better by more than
    its parameters cost, by Akaike's criterion, the exponent is the one for which the posterior without copying predicts
    the true labels best, on average over the posterior of the model with copying. Otherwise it is 1.
    """
    v = inference.votes
    labelled, count = np.unique(v.example, return_counts=True)
    if count.max() < 2:
        return 1.0
    labelled = labelled[:: -(-len(v.label) // SOME)]
    number = np.full(v.examples, -1)
    number[labelled] = np.arange(len(labelled))
    labels = np.flatnonzero(number[v.example] >= 0)
    votes = replace(
        v,
        example=number[v.example[labels]],
        annotator=v.annotator[labels],
        label=v.label[labels],
        examples=len(labelled),
        gold=None if v.gold is None else v.gold[labelled],
    )
    log_prior, evidence = inference.log_prior[labelled], inference.evidence[labelled]
    fit = _Fit(votes, log_prior, features[labels])
    alone, *others = (fit.run(copying=copying) for copying in (0.0, *COPYING))
    best = max(others, key=lambda found: found.log_likelihood)
    if best.log_likelihood < alone.log_likelihood + PARAMETERS:
        return 1.0

    def loss(log_exponent: float) -> float:
        logits = clamp(votes, log_prior + np.exp(log_exponent) * evidence)
        log = logits - logsumexp(logits, axis=1, keepdims=True)
        return -float((best.truth * np.maximum(log, np.log(TINY))).sum())

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(1e-3), 0.0), method="bounded").x))


class _Fit:
    """Alternate messages and updates of the parameters."""

    def __init__(self, votes: Votes, log_prior: Floats | None, features: csr_array) -> None:
        self.votes, self.log_prior, self.features = votes, log_prior, features
        self.examples, self.annotators = Examples(votes), Annotators(votes)
        self.squares = features.power(2)

    def run(self, start: Inference | None = None, copying: float = 0.0) -> Inference:
        """Return the estimates from a start."""
        v, shape, columns = self.votes, (self.votes.examples, self.votes.classes), self.features.shape[1]
        labelled = len(self.examples.start) - 1
        if start is not None:
            population, channel, shares, weights = start.population, start.channel, start.shares, start.weights
        else:
            population, channel, weights = start_population(copying), start_channel(v.classes), np.zeros(columns)
            shares = self.annotators.start(population)
        truth, evidence, variance = np.zeros(shape), np.zeros(shape), 1.0
        frequency = np.bincount(v.label, minlength=v.classes) + 1.0
        for _ in range(PASSES):
            shared = np.broadcast_to(np.log(frequency / frequency.sum()), shape)
            log_prior = shared if self.log_prior is None else self.log_prior
            message, wrong = np.empty((3, len(v.label))), np.zeros((v.classes, v.classes))
            change, log_total, same = 0.0, 0.0, 0.0
            for part in self.examples.solve(log_prior, shares, channel):
                change = max(change, float(np.abs(part.truth - truth[part.example]).max()))
                truth[part.example], evidence[part.example] = part.truth, part.evidence
                y = v.label[part.labels]
                message[0, part.labels] = part.others[np.arange(len(y)), y]
                message[1, part.labels] = (part.others * channel.errors.T[y]).sum(1)
                message[2, part.labels] = part.apparent
                np.add.at(wrong.T, y, part.errors)
                log_total += part.log_total - float(np.log(part.probability).sum())
                same += part.same
            support, offset = Support(*message), self.features @ weights if len(weights) else None
            log_total += log_occam(channel, wrong)
            if len(weights):
                weights, variance = self._update_weights(weights, variance, shares, support)
            last = shares, population, channel
            new, population, of_annotators = self.annotators.update(support, population, offset)
            change = max(change, *(float(np.abs(a - b).max()) for a, b in zip(shares, new, strict=True)))
            # Messages that all change at once may swing between two answers.
            shares = Shares(*(DAMPING * old + (1 - DAMPING) * share for old, share in zip(shares, new, strict=True)))
            channel = update_channel(channel, wrong, same, labelled)
            frequency = truth[np.unique(v.example)].sum(0) + 1
            if change < TOLERANCE:
                break
        return Inference(
            votes=v,
            names=np.arange(v.annotators),
            log_prior=log_prior,
            evidence=evidence,
            exponent=1.0,
            truth=truth,
            weights=weights,
            shares=last[0],
            support=support,
            population=last[1],
            channel=last[2],
            log_likelihood=log_total + of_annotators,
        )

    def _update_weights(
        self, weights: Floats, variance: float, shares: Shares, support: Support
    ) -> tuple[Floats, float]:
        """Take a Newton step for the weights of the features, and update their variance."""
        right, error = shares.right * support.true, shares.error * support.error
        total = right + error + shares.habit + shares.copy * support.apparent
        own, known = (right + error) / total, shares.right / (shares.right + shares.error)
        curvature, F = own * known * (1 - known), self.features
        slope = F.T @ (right / total - own * known) - weights / variance
        size = len(weights)
        hessian = LinearOperator((size, size), lambda d: F.T @ (curvature * (F @ d)) + d / variance, dtype=np.float64)
        diagonal = self.squares.T @ curvature + 1 / variance
        step = cg(hessian, slope, rtol=1e-3, maxiter=20, M=LinearOperator((size, size), lambda d: d / diagonal))[0]
        weights = weights + step
        return weights, float((weights**2 + 1 / diagonal).mean().clip(1e-3, 4))


def _check_probabilities(p: Floats) -> None:
    if p.ndim != 2 or p.shape[1] < 2 or not (np.isfinite(p).all() and (p >= 0).all()):
        raise ValueError(f"Expected `p` to be probabilities of at least two classes, but got shape {list(p.shape)}.")

"""Infer true labels and the reliability of labels, without true labels.

Dawid and Skene (1979) jointly estimate the true labels and the confusion matrix of each annotator. Here, as in Raykar
et al. (2010), the prior of a true label is the out-of-fold prediction of a model, so one label per example is enough.
As in Whitehill et al. (2009), a logistic regression predicts whether a label is correct. Thousands of annotators and
classes therefore fit in memory, annotators with few labels borrow strength from the others, and other features of a
label can be used, such as the time it took or the confidence that the annotator stated:

    true label      z_i ~ p(·|x_i)
    given label     y_n ~ h_j with probability s_j: a habit of annotator j, independent of the truth;
                    else y_n = z with probability σ(η_n + c_z), else drawn from C[z, ·]
    log-odds        η_n = μ + b_annotator(n) + features_n · w,            μ ~ N(1, 2²), b ~ N(0, σ_b²), w ~ N(0, σ_w²)
    ease            c_z, larger for classes that are recognized more often,                             c ~ N(0, σ_c²)

Known true labels and trusted annotators anchor the estimates (see `lupi.crowd.trusted`).

L-BFGS maximizes the marginal likelihood of the labels in μ, b, w and c, and EM updates C (see `lupi.crowd.errors`), the
variances and the habits (see `lupi.crowd.habits`). If every example has one label, c is 0: it could not be told from a
bias of the predictions, which were learnt from the labels. A label must not vouch for its own author, so the log-odds
of a label are then estimated from the other labels, and their uncertainty is averaged out (see `leave_out`). Finally,
the posterior of the true labels is tempered, P(z | labels, x) ∝ prior · likelihood^exponent (see
`lupi.crowd.tempering`).

References
----------
Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (Applied Statistics
1979). Raykar et al., "Learning from crowds" (JMLR 2010). Whitehill et al., "Whose vote should count more" (NIPS 2009).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array, hstack, issparse
from scipy.special import expit, logsumexp
from threadpoolctl import ThreadpoolController

from lupi._internal.arrays import Floats
from lupi.crowd.errors import estimate_errors
from lupi.crowd.habits import start_model, update_habits
from lupi.crowd.likelihood import (
    LabelModel,
    chance_right,
    example_evidence,
    label_evidence,
    log_softmax,
    marginal_log_likelihood,
    mean_prior,
    softmax,
    split_rows,
)
from lupi.crowd.tempering import choose_exponent, find_shared
from lupi.crowd.trusted import (
    STRENGTH,
    average_rows,
    clamp,
    find_trusted,
    log_trust,
    read_gold,
    read_trust,
    start_log_odds,
)
from lupi.crowd.votes import Votes, number_ids

LOCK = RLock()
"""Held while BLAS is limited: a thread that enters meanwhile would take the limit for the usual number of threads."""
SMALLEST = 1e-6
"""Lower bound of the model's probabilities: no prediction makes a label impossible."""
ROUNDS = 10
"""Maximum number of rounds of L-BFGS and EM updates."""
STEPS = 10
"""Number of EM steps for the habits before anything else is estimated. Otherwise, annotators whose constant answer the
model has learnt would look reliable, and the others would not."""
EASE_FROM = 3
"""Number of rounds in which c stays 0, so that habits are found first: both can explain a frequent label."""
CONVERGED = 1e-5
"""Change of the log-posterior per label at which the rounds end."""
FIXED = 1e-9
"""Prior variance of an effect that stays where it is."""
MEAN = 1.0
"""Prior mean of μ."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Inference:
    """Estimates of the true labels and of the reliability of labels and annotators."""

    votes: Votes
    """The labels."""
    names: NDArray[Any]
    """Ids of the annotators, in the order of their numbers."""
    p: Floats
    """The model's predictions, [examples, classes]."""
    log_prior: Floats
    """Log of the predictions."""
    evidence: Floats
    """Log-probability of the labels of an example given each true label, [examples, classes], before tempering."""
    truth: Floats
    """P(z | all labels, x), [examples, classes], tempered."""
    exponent: float
    """Exponent of the likelihood of the labels in `truth` and `others`."""
    model: LabelModel
    """The model of the labels: log-odds, ease, errors and habits."""
    mean: float
    """μ, the log-odds of an average annotator."""
    effects: Floats
    """b, [annotators]."""
    weights: Floats
    """w, [features]."""
    variances: tuple[float, float, float]
    """σ_b², σ_w² and σ_c²."""

    @property
    def log_likelihood(self) -> float:
        """Log-probability of the labels, Σ_i log Σ_z P(z | x_i) P(labels of i | z), and of the true labels if known."""
        total = 0.0
        for rows in split_rows(*self.evidence.shape):
            joint = clamp(self.votes, self.log_prior[rows] + self.evidence[rows], rows)
            total += float(logsumexp(joint, axis=1).sum())
        return total

    @property
    def right(self) -> Floats:
        """The prior probability that each label is correct, before its value and the other labels are known."""
        v, share = self.votes, self.model.share[self.votes.annotator, None]
        right = np.empty(len(share))
        for rows in split_rows(len(share), v.classes):
            lucky = share[rows] * self.model.habits[v.annotator[rows]]
            given = lucky + (1 - share[rows]) * chance_right(self.model, rows)
            right[rows] = (given * np.exp(self.log_prior[v.example[rows]])).sum(1)
        return right

    @property
    def others(self) -> Floats:
        """P(z | the other labels of the example, x), [labels, classes], tempered."""
        v = self.votes
        own = label_evidence(v, self.model, np.arange(len(v.label)))
        logits = self.log_prior[v.example] + self.exponent * (self.evidence[v.example] - own)
        return softmax(clamp(v, logits, v.example))

    @property
    def posterior(self) -> Floats:
        """P(z | all labels, x) for the example of each label, [labels, classes].

        With a single annotator and neither features nor true labels, nothing could reveal the annotator's errors, so a
        label does not count as evidence for itself.
        """
        v = self.votes
        return self.truth[v.example] if v.annotators > 1 or len(self.weights) or v.has_anchors else self.others

    @property
    def wrong(self) -> Floats:
        """P(the label is wrong | all labels, x), for each label."""
        return np.asarray(1 - self.posterior[np.arange(len(self.votes.label)), self.votes.label])


def infer(
    p: ArrayLike,
    label: ArrayLike,
    *,
    example: ArrayLike | None = None,
    annotator: Any = None,
    features: Any = None,
    gold: ArrayLike | None = None,
    trust: Mapping[Any, float] | None = None,
    exponent: float | None = None,
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
    exponent : float, optional
        Exponent of the likelihood of the labels in the posterior, from 0 (labels are ignored) to 1 (labels of an
        example are independent given the truth). By default, `lupi.crowd.tempering.choose_exponent` chooses it.

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
    return replace(infer_votes(votes, p[first], features=features, exponent=exponent), names=names)


def infer_votes(
    votes: Votes, p: ArrayLike, *, features: Any = None, exponent: float | None = None, start: Inference | None = None
) -> Inference:
    """Infer true labels and the reliability of labels from votes and one prediction per example.

    `start` is an inference from the same votes and features, and similar predictions, to start from.
    """
    p = np.asarray(p, dtype=np.float64)
    _check_probabilities(p)
    if p.shape != (votes.examples, votes.classes):
        raise ValueError(
            f"Expected `p` to be of shape {[votes.examples, votes.classes]}, but got shape {list(p.shape)}."
        )
    if exponent is not None and not 0 <= exponent <= 1:
        raise ValueError(f"Expected `exponent` to be from 0 to 1, but got {exponent}.")
    count, order = len(votes.label), np.argsort(votes.example, kind="stable")
    columns: Any = np.zeros((count, 0)) if features is None else features
    columns = columns if issparse(columns) else np.asarray(columns, dtype=np.float64)
    if columns.ndim != 2 or columns.shape[0] != count or not np.isfinite(columns.sum()):
        raise ValueError(f"Expected `features` to be {count} rows of numbers, but got shape {list(columns.shape)}.")
    ordered = replace(votes, example=votes.example[order], annotator=votes.annotator[order], label=votes.label[order])
    log_prior = np.log(p.clip(SMALLEST))
    for rows in split_rows(*p.shape):
        log_prior[rows] = log_softmax(log_prior[rows])
    with one_blas_thread():
        fitted = _fit(ordered, log_prior, csr_array(columns)[order], start)
    eta = np.empty(count)
    eta[order] = fitted.model.log_odds
    model = replace(fitted.model, log_odds=eta)
    evidence = example_evidence(votes, model)
    if exponent is None:
        exponent = choose_exponent(votes, log_prior, evidence, partial(label_evidence, votes, model))
    truth = np.empty_like(log_prior)
    for rows in split_rows(*p.shape):
        truth[rows] = softmax(clamp(votes, log_prior[rows] + exponent * evidence[rows], rows))
    return Inference(
        votes=votes,
        names=np.arange(votes.annotators),
        p=p,
        log_prior=log_prior,
        evidence=evidence,
        truth=truth,
        exponent=float(exponent),
        model=model,
        mean=fitted.mean,
        effects=fitted.effects,
        weights=fitted.weights,
        variances=fitted.variances,
    )


@dataclass(frozen=True, kw_only=True)
class _Fit:
    """The estimates."""

    mean: float
    effects: Floats
    weights: Floats
    variances: tuple[float, float, float]
    model: LabelModel


def _fit(votes: Votes, log_prior: Floats, features: csr_array, start: Inference | None) -> _Fit:
    """Fit the model to votes that are sorted by example, starting from another inference if there is one."""
    J, labels = votes.annotators, np.arange(len(votes.label))
    who = csr_array((np.ones(len(labels)), (labels, votes.annotator)), shape=(len(labels), J))
    design = csr_array(hstack([csr_array(np.ones((len(labels), 1))), who, features]))
    squares, columns = csr_array(design * design), design.shape[1]
    shares = mean_prior(log_prior, np.bincount(votes.example, minlength=votes.examples))
    classes = votes.classes if len(find_shared(votes)) else 0
    centre = np.zeros(columns + classes)  # of μ, b, w, c
    centre[0] = MEAN
    trusted, checked = find_trusted(votes), average_rows(votes, design)
    others = np.setdiff1d(np.arange(J), trusted)
    before = -np.inf
    if start is None:
        t, variances, log_odds = centre.copy(), (1.0, 1.0, 1.0), start_log_odds(votes, MEAN)
        t[1 : J + 1] = log_odds - MEAN
        model = start_model(votes, log_odds)
        for _ in range(STEPS):
            model, _ = update_habits(votes, model, log_prior)
    else:
        t = np.concatenate([[start.mean], start.effects, start.weights, start.model.ease[:classes]])
        model, variances = start.model, start.variances
    spread = expit(MEAN) * expit(-MEAN) * np.ones(len(labels))
    information = np.append(squares.T @ spread, shares[:classes] * spread.sum())
    for step in range(0 if start is None else EASE_FROM, ROUNDS):
        prior = np.repeat([4.0, *variances], [1, J, features.shape[1], classes])
        prior[1 + trusted] = np.inf
        if step < EASE_FROM:
            prior[columns:] = FIXED
        arguments = (votes, log_prior, model, design, shares, centre, prior, checked)
        scale = (1 / prior + information) ** -0.5  # in standard deviations, L-BFGS needs half as many steps

        def scaled(u: Floats, scale: Floats = scale, arguments: Any = arguments) -> tuple[float, Floats]:
            value, gradient = negative_log_posterior(scale * u, *arguments)
            return value, scale * gradient

        found = minimize(scaled, t / scale, jac=True, method="L-BFGS-B", options={"maxiter": 20})
        t = scale * found.x
        model = set_log_odds(model, t, design, shares)
        slope = marginal_log_likelihood(votes, log_prior, model)[1]
        # Unknown true labels lose information: the variance of the slopes, instead of that of correct and wrong labels.
        right = expit(model.log_odds)
        spread = (1 - model.share[votes.annotator]) * right * (1 - right)
        known = min(1.0, float(slope @ slope) / float(spread.sum()))
        information = known * np.append(squares.T @ spread, shares[:classes] * spread.sum())
        if votes.trust is not None:
            information[1 + trusted] += STRENGTH * votes.trust[trusted] * (1 - votes.trust[trusted])
        variance = 1 / (1 / prior + information)
        if step == ROUNDS - 1 or (step > EASE_FROM and abs(found.fun - before) < CONVERGED * len(labels)):
            break
        before = found.fun
        model, wrong = update_habits(votes, model, log_prior)
        model = replace(model, errors=estimate_errors(wrong))
        square = (t - centre) ** 2 + variance
        of_effects = square[1 + others], square[J + 1 : columns], square[columns:]
        of_ease = variances[2] if step < EASE_FROM else _mean_variance(of_effects[2])
        variances = _mean_variance(of_effects[0]), _mean_variance(of_effects[1]), of_ease
    of_people = variance[1 : J + 1] + np.where(np.isin(np.arange(J), trusted), 0, variance[0])
    uncertain = of_people[votes.annotator] + squares[:, J + 1 :] @ variance[J + 1 : columns]
    return _Fit(
        mean=float(t[0]),
        effects=t[1 : J + 1],
        weights=t[J + 1 : columns],
        variances=variances,
        model=replace(model, log_odds=leave_out(model.log_odds, slope, known * spread, uncertain)),
    )


def leave_out(log_odds: Floats, slope: Floats, information: Floats, variance: Floats) -> Floats:
    """Return the log-odds of each label as estimated from the other labels, with their uncertainty averaged out.

    One Newton step without the label's own slope and information leaves it out. If η ~ N(m, v), the mean of σ(η) is
    about σ(m / √(1 + π v / 8)) (MacKay, "The evidence framework applied to classification networks", 1992).
    """
    left = variance / np.maximum(1 - variance * information, 0.1)  # the variance without the label
    return np.asarray((log_odds - left * slope) / np.sqrt(1 + np.pi * left / 8))


def negative_log_posterior(
    t: Floats,
    votes: Votes,
    log_prior: Floats,
    model: LabelModel,
    design: csr_array,
    shares: Floats,
    centre: Floats,
    variance: Floats,
    checked: csr_array,
) -> tuple[float, Floats]:
    """Return the negative log-posterior of (μ, b, w, c) = t up to a constant, and its gradient.

    `shares` are those of the classes; `checked` is the mean of `design` over the labels of each trusted annotator.
    """
    value, slope, of_classes = marginal_log_likelihood(votes, log_prior, set_log_odds(model, t, design, shares))
    away = (t - centre) / variance
    of_classes -= shares * of_classes.sum()
    gradient = np.append(design.T @ slope, of_classes[: len(t) - design.shape[1]])
    if checked.shape[0]:
        assert votes.trust is not None
        of_trust, slope_trust = log_trust(votes.trust[find_trusted(votes)], checked @ t[: design.shape[1]])
        value += float(of_trust.sum())
        gradient[: design.shape[1]] += checked.T @ slope_trust
    return float((t - centre) @ away / 2 - value), away - gradient


def set_log_odds(model: LabelModel, t: Floats, design: csr_array, shares: Floats) -> LabelModel:
    """Return the model with the log-odds and the ease that follow from (μ, b, w, c) = t."""
    columns, ease = design.shape[1], np.zeros_like(shares)
    if len(t) > columns:
        ease = t[columns:] - shares @ t[columns:]
    return replace(model, log_odds=np.asarray(design @ t[:columns]), ease=ease)


def _mean_variance(square: Floats) -> float:
    """Return the maximum-likelihood variance of effects with the given expected squares, within bounds."""
    return float(square.mean().clip(1e-3, 4)) if len(square) else 1.0


def _check_probabilities(p: Floats) -> None:
    if p.ndim != 2 or p.shape[1] < 2 or not (np.isfinite(p).all() and (p >= 0).all()):
        raise ValueError(f"Expected `p` to be probabilities of at least two classes, but got shape {list(p.shape)}.")


@cache
def find_libraries() -> ThreadpoolController:
    """Find the libraries with thread pools; the search takes milliseconds, so it is done once."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use a single thread.

    SciPy's optimizers call BLAS thousands of times with a few numbers. Waking other threads takes far longer than the
    work, above all if the cores are busy.
    """
    with LOCK, find_libraries().limit(limits=1, user_api="blas"):
        yield

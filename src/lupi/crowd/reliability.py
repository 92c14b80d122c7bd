"""How reliable annotators are, without true labels.

Dawid and Skene (1979) estimate at once what the true labels are and how each annotator confuses them. Here the model's
out-of-fold prediction is the prior of an example's true label, as in Raykar et al. (2010), so that one label per
example is enough, and annotators with few labels borrow from the others:

    true label      z_i ~ softmax(β log p(·|x_i) + c)
    given label     y_ij | z_i = k ~ Categorical(π_j[k])
    annotator       π_j[k] ~ Dirichlet(s m_j[k]),   m_j[k] = θ_j e_k + (1 − θ_j) C[k],   θ_j ~ Beta(a, b)

EM finds z and π. Around it β, c, s, a, b, the common errors C and the θ_j are found by maximum likelihood with weak
priors (empirical Bayes). No part of it sees a true label.

References
----------
Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm" (Applied Statistics
1979). Raykar et al., "Learning from crowds" (JMLR 2010). Kim and Ghahramani, "Bayesian classifier
combination" (AISTATS 2012), for Gibbs sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import betaln, gammaln, logsumexp

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SMALLEST = 1e-6
"""Probabilities of a model are at least this: no prediction makes a label impossible."""
GRID = (np.arange(200) + 0.5) / 200
"""Values of θ where its posterior is computed."""


class Votes(NamedTuple):
    """Labels as numbers: who said what of which example."""

    example: Integers
    annotator: Integers
    label: Integers
    examples: int
    annotators: int
    classes: int


class Pool(NamedTuple):
    """What annotators have in common."""

    a: float
    b: float
    """θ ~ Beta(a, b)."""
    errors: Floats
    """C, [classes, classes] with zeros on the diagonal: what a wrong label is, for each true label."""
    pseudo: Floats
    """s m, [annotators, classes, classes]: pseudo-counts of π."""


@dataclass(frozen=True, eq=False)
class Inference:
    """What the labels and the model say of true labels and annotators."""

    votes: Votes
    names: NDArray[Any]
    """Annotators, in the order of their numbers."""
    p: Floats
    """The model's prediction, [examples, classes]."""
    log_prior: Floats
    """Log of the recalibrated prediction."""
    truth: Floats
    """P(z | all labels, x), [examples, classes]."""
    confusion: Floats
    """π, [annotators, true label, given label]."""
    pool: Pool
    beta: float
    """β of the recalibration."""

    @property
    def right(self) -> Floats:
        """P(the label is right | all labels, x), for each label."""
        return np.asarray(self.truth[self.votes.example, self.votes.label])

    @property
    def others(self) -> Floats:
        """P(z | the other labels of the example, x), [labels, classes]."""
        return without_own(self.truth, self.confusion, self.votes)

    @property
    def held_out(self) -> float:
        """Mean log-probability of a label given all others: a score to choose models by, without true labels."""
        v = self.votes
        own = self.truth[v.example]
        count = counts(self.truth, v)
        without = count[v.annotator, :, v.label] - own + self.pool.pseudo[v.annotator, :, v.label]
        total = (count + self.pool.pseudo).sum(2)[v.annotator] - own
        predicted = self.others * without.clip(SMALLEST) / total.clip(SMALLEST)
        return float(np.log(predicted.sum(1)).mean())


def infer(p: ArrayLike, label: ArrayLike, *, example: ArrayLike | None = None, annotator: Any = None) -> Inference:
    """Find true labels and annotators' confusions.

    Parameters
    ----------
    p : array, [labels, classes]
        For each label the model's prediction for its example, made by a model that has not seen the example.
    label : array of int
        The given labels, as columns of p.
    example : array, optional
        Ids of examples; by default each label is of an example of its own.
    annotator : array, optional
        Ids of annotators, a missing one being an id too; by default all labels are of one annotator.

    Examples
    --------
    Ann and Bob agree with the model, and Cem does not.

    >>> p = np.tile([[0.8, 0.2], [0.2, 0.8]], (20, 1)).repeat(3, axis=0)
    >>> given = np.tile([0, 0, 1, 1, 1, 0], 20)
    >>> found = infer(p, given, example=np.arange(40).repeat(3), annotator=["Ann", "Bob", "Cem"] * 40)
    >>> annotators(found)[["annotator", "labels", "agreement", "flagged"]].head(1)
      annotator  labels  agreement  flagged
    0       Cem      40        0.0     True
    """
    p = np.asarray(p, dtype=np.float64)
    label = np.asarray(label)
    if p.ndim != 2 or p.shape[1] < 2 or not (np.isfinite(p).all() and (p >= 0).all()):
        raise ValueError(f"Expected `p` to be probabilities of at least two classes, but got shape {list(p.shape)}.")
    if label.shape != p.shape[:1] or label.dtype.kind not in "iu" or not len(label):
        raise ValueError(f"Expected `label` to be {len(p)} whole numbers, but got {label.dtype} {list(label.shape)}.")
    if label.min() < 0 or label.max() >= p.shape[1]:
        raise ValueError(
            f"Expected `label` to be columns of p, 0 to {p.shape[1] - 1}, but got {label.min()} to {label.max()}."
        )
    of_example, ids = _numbered("example", np.arange(len(label)) if example is None else example, len(label))
    of_annotator, names = _numbered(
        "annotator", np.zeros(len(label), int) if annotator is None else annotator, len(label)
    )
    votes = Votes(of_example, of_annotator, label.astype(np.int64), len(ids), len(names), p.shape[1])
    p = p[np.unique(of_example, return_index=True)[1]]
    log_p = np.log(p.clip(SMALLEST))
    log_p -= logsumexp(log_p, axis=1, keepdims=True)
    log_prior, truth = log_p, _first_guess(p, votes)
    pool = pooled(counts(truth, votes))
    for _ in range(50):
        before = truth
        confusion, _, _ = em(log_prior, pool.pseudo, votes, truth)
        log_prior, beta = recalibrated(log_p, said(confusion, votes))
        truth, _ = posterior(log_prior, confusion, votes)
        if np.abs(truth - before).max() < 1e-3:
            break
        others = without_own(truth, confusion, votes)
        pool = pooled(counts(truth, votes), accuracy_likelihood(others, pool.errors, votes))
    return Inference(votes, names, p, log_prior, truth, confusion, pool, beta)


def em(
    log_prior: Floats, pseudo: Floats, votes: Votes, truth: Floats, *, tolerance: float = 1e-6
) -> tuple[Floats, Floats, list[float]]:
    """Dawid and Skene's EM from a guess of the truth: confusions, truth, and the log-posterior after every step."""
    trace: list[float] = []
    for _ in range(500):
        confusion = counts(truth, votes) + pseudo
        confusion /= confusion.sum(2, keepdims=True)
        truth, evidence = posterior(log_prior, confusion, votes)
        trace.append(evidence + float((pseudo * np.log(confusion.clip(1e-300))).sum()))
        if len(trace) > 1 and trace[-1] - trace[-2] < tolerance * len(votes.label):
            break
    return confusion, truth, trace


def posterior(log_prior: Floats, confusion: Floats, votes: Votes) -> tuple[Floats, float]:
    """P(z | labels, x), and the log-probability of the labels."""
    joint = log_prior + said(confusion, votes)
    return _normalized(joint), float(logsumexp(joint, axis=1).sum())


def said(confusion: Floats, votes: Votes) -> Floats:
    """Log-probability of an example's labels for each true label, [examples, classes]."""
    log = np.log(confusion.clip(1e-300))
    of_class = [
        np.bincount(votes.example, log[votes.annotator, k, votes.label], votes.examples) for k in range(votes.classes)
    ]
    return np.stack(of_class, 1)


def counts(truth: Floats, votes: Votes) -> Floats:
    """Expected number of labels, [annotators, true label, given label]."""
    J, K = votes.annotators, votes.classes
    cell = votes.annotator * K + votes.label
    of_class = [np.bincount(cell, truth[votes.example, k], J * K).reshape(J, K) for k in range(K)]
    return np.stack(of_class, 1)


def pooled(count: Floats, log_likelihood: Floats | None = None) -> Pool:
    """What annotators have in common, by maximum likelihood under weak priors.

    log a ~ N(1, 2²), log b ~ N(0, 2²), log s ~ N(log 10, 2²), and half a label of pseudo-count per row of C.

    Parameters
    ----------
    count : array
        Expected numbers of labels, from `counts`.
    log_likelihood : array, [annotators, grid], optional
        Of θ, from `accuracy_likelihood`; without it the counts are taken for certain.
    """
    K = count.shape[1]
    if log_likelihood is None:
        right, total = np.einsum("jkk->j", count)[:, None], count.sum((1, 2))[:, None]
        log_likelihood = right * np.log(GRID) + (total - right) * np.log1p(-GRID)

    def beta_loss(log: Floats) -> float:
        evidence = logsumexp(log_likelihood + _log_beta(*np.exp(log)), axis=1).sum()
        return float(((log[0] - 1) ** 2 + log[1] ** 2) / 8 - evidence)

    a, b = np.exp(minimize(beta_loss, [1.0, 0.0], method="L-BFGS-B", bounds=[(-3, 6)] * 2).x)
    theta = (_normalized(log_likelihood + _log_beta(a, b)) @ GRID)[:, None, None]
    errors = (count.sum(0) + 0.5 / (K - 1)) * (1 - np.eye(K))
    errors /= errors.sum(1, keepdims=True)
    m = theta * np.eye(K) + (1 - theta) * errors

    def dirichlet_loss(log: float) -> float:
        s = np.exp(log)
        gain = (gammaln(s * m + count) - gammaln(s * m)).sum() - (gammaln(s + count.sum(2)) - gammaln(s)).sum()
        return float((log - np.log(10)) ** 2 / 8 - gain)

    s = np.exp(minimize_scalar(dirichlet_loss, bounds=(-1, 7), method="bounded").x)
    return Pool(float(a), float(b), errors, s * m)


def accuracy_likelihood(others: Floats, errors: Floats, votes: Votes) -> Floats:
    """Log-probability of each annotator's labels for the values of θ in the grid, [annotators, grid].

    Given what the model and the other labels say of the truth, r = P(z | others, x), a label y has the probability
    θ r[y] + (1 − θ) Σ_k r[k] C[k, y].
    """
    right = others[np.arange(len(votes.label)), votes.label]
    wrong = (others * errors[:, votes.label].T).sum(1)
    log = [np.bincount(votes.annotator, np.log(t * right + (1 - t) * wrong + 1e-300), votes.annotators) for t in GRID]
    return np.stack(log, 1)


def without_own(truth: Floats, confusion: Floats, votes: Votes) -> Floats:
    """P(z | the other labels of the example, x), [labels, classes]."""
    own = np.log(confusion[votes.annotator, :, votes.label].clip(1e-300))
    return _normalized(np.log(truth[votes.example].clip(1e-300)) - own)


def recalibrated(log_p: Floats, log_said: Floats) -> tuple[Floats, float]:
    """The log of softmax(β log p + c) with the β and c that make the labels most probable; and β.

    log β ~ N(0, 1), c ~ N(0, 10); `log_said` is the log-probability of an example's labels for each true label.
    """

    def log_softmax(t: Floats) -> Floats:
        logits = np.exp(t[0]) * log_p + t[1:]
        return np.asarray(logits - logsumexp(logits, axis=1, keepdims=True))

    def loss(t: Floats) -> tuple[float, Floats]:
        log = log_softmax(t)
        joint = log + log_said
        rest = np.exp(log) - _normalized(joint)
        slope = np.append((rest * log_p).sum() * np.exp(t[0]) + t[0], rest.sum(0) + t[1:] / 10)
        return float(t[0] ** 2 / 2 + (t[1:] ** 2).sum() / 20 - logsumexp(joint, axis=1).sum()), slope

    best = minimize(loss, np.zeros(log_p.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return log_softmax(best), float(np.exp(best[0]))


def reliability(
    found: Inference, level: float = 0.95, *, sweeps: int = 1000, random_state: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Posterior mean of each annotator's θ, the probability that a label of theirs is right, and its interval.

    Estimates of z, θ, a, b and β lean on each other, so that an interval that takes the others for certain is too
    short. Gibbs sampling draws all of them, with errors C and the offsets c as they were found, and π_j[k] = m_j[k].

    Parameters
    ----------
    found : Inference
        From `infer`.
    level : float
        Probability of the interval.
    sweeps : int
        Draws of everything, after a tenth as many that are dropped.
    random_state : int
        Seed.

    Returns
    -------
    mean, lower, upper : ndarray
        One number for each annotator.
    """
    v, rng = found.votes, np.random.default_rng(random_state)
    label = np.arange(v.classes) == v.label[:, None]  # [labels, classes]
    wrong = np.log(found.pool.errors.T[v.label].clip(1e-300))
    total = np.bincount(v.annotator, minlength=v.annotators)
    a, b, scale = found.pool.a, found.pool.b, 1.0
    theta = np.einsum("jkk->j", found.pool.pseudo) / found.pool.pseudo.sum((1, 2))
    log_prior, draws = found.log_prior, []
    for sweep in range(sweeps // 10 + sweeps):
        theta = theta.clip(1e-9, 1 - 1e-9)
        log = np.where(label, np.log(theta)[v.annotator, None], np.log1p(-theta)[v.annotator, None] + wrong)
        joint = log_prior + np.stack([np.bincount(v.example, column, v.examples) for column in log.T], 1)
        z = (np.cumsum(_normalized(joint), 1) > rng.random((v.examples, 1))).argmax(1)
        right = np.bincount(v.annotator, z[v.example] == v.label, v.annotators)
        theta = rng.beta(right + a, total - right + b)
        # Metropolis steps: a and b given θ, and the prior's sharpness, a factor of β, given z.
        new_a, new_b = np.exp(np.log([a, b]) + 0.3 * rng.normal(size=2))
        gain = _log_pool(new_a, new_b, theta) - _log_pool(a, b, theta)
        if np.log(rng.random()) < gain:
            a, b = new_a, new_b
        new_scale = float(scale * np.exp(0.1 * rng.normal()))
        new_prior = new_scale * found.log_prior
        new_prior = new_prior - logsumexp(new_prior, axis=1, keepdims=True)
        gain = (new_prior - log_prior)[np.arange(v.examples), z].sum()
        gain += (np.log(found.beta * scale) ** 2 - np.log(found.beta * new_scale) ** 2) / 2
        if np.log(rng.random()) < gain:
            scale, log_prior = new_scale, new_prior
        if sweep >= sweeps // 10:
            draws.append(theta)
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.mean(draws, 0), lower, upper


def _log_pool(a: float, b: float, theta: Floats) -> float:
    """Log-density of log a, log b and θ; the weak priors are those of `pooled`."""
    theta = theta.clip(1e-9, 1 - 1e-9)
    log = (a - 1) * np.log(theta) + (b - 1) * np.log1p(-theta) - betaln(a, b)
    return float(log.sum() - ((np.log(a) - 1) ** 2 + np.log(b) ** 2) / 8)


def annotators(found: Inference, *, level: float = 0.95, below: float | None = None) -> pd.DataFrame:
    """List annotators, the least reliable first.

    Parameters
    ----------
    found : Inference
        From `infer`.
    level : float
        Probability of the interval from `lower` to `upper`.
    below : float, optional
        An annotator is flagged whose interval lies below it; by default the mean reliability of all labels'
        annotators.

    Returns
    -------
    DataFrame
        annotator; labels, how many; agreement, the share of them that the model alone would give; confidence, the
        mean probability that the model alone gives them; support, the mean probability by the model and the other
        labels of the example, which leans on nothing that the annotator said of the example; reliability, the
        probability that a label of theirs is right; lower, upper; flagged.
    """
    if not 0 < level < 1:
        raise ValueError(f"Expected `level` to lie between 0 and 1, but got {level!r}.")
    v = found.votes
    row = np.arange(len(v.label))
    total = np.bincount(v.annotator, minlength=v.annotators)
    p = found.p[v.example]

    def mean(value: NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(v.annotator, value, v.annotators) / total)

    estimate, lower, upper = reliability(found, level)
    table = pd.DataFrame(
        {
            "annotator": found.names,
            "labels": total,
            "agreement": mean(p.argmax(1) == v.label),
            "confidence": mean(p[row, v.label]),
            "support": mean(found.others[row, v.label]),
            "reliability": estimate,
            "lower": lower,
            "upper": upper,
            "flagged": upper < (np.average(estimate, weights=total) if below is None else below),
        }
    )
    return table.sort_values(["reliability", "labels"], kind="stable", ignore_index=True)


def _first_guess(p: Floats, votes: Votes) -> Floats:
    """Count the model as one more vote."""
    guess = p.copy()
    np.add.at(guess, (votes.example, votes.label), 1)
    return np.asarray(guess / guess.sum(1, keepdims=True))


def _log_beta(a: float, b: float) -> Floats:
    """Log-density of Beta(a, b) on the grid."""
    return np.asarray((a - 1) * np.log(GRID) + (b - 1) * np.log1p(-GRID) - betaln(a, b))


def _normalized(log: Floats) -> Floats:
    weight = np.exp(log - log.max(1, keepdims=True))
    return np.asarray(weight / weight.sum(1, keepdims=True))


def _numbered(name: str, ids: Any, length: int) -> tuple[Integers, NDArray[Any]]:
    """Number ids in the order they come."""
    values = np.asarray(ids)
    if values.shape != (length,):
        raise ValueError(
            f"Expected `{name}` to be one id for each of {length} labels, but got shape {list(values.shape)}."
        )
    codes, names = pd.factorize(values, use_na_sentinel=False)
    return codes.astype(np.int64), np.asarray(names)

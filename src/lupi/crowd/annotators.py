"""The reliability of each annotator with a credible interval, by Gibbs sampling.

Kim and Ghahramani, "Bayesian classifier combination" (AISTATS 2012).
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from lupi._internal.arrays import Floats
from lupi.crowd.habits import FEW
from lupi.crowd.inference import Inference
from lupi.crowd.likelihood import error_evidence, log_errors, softmax
from lupi.crowd.trusted import clamp, count_checked, find_trusted, log_trust
from lupi.crowd.votes import Votes

WIDER = 1.15
"""Factor of the intervals' widths, for what is not sampled. Without it, they covered 88 to 93 % in simulations."""


def summarize_annotators(inference: Inference) -> dict[str, NDArray[Any]]:
    """Summarize each annotator. The result has the columns of a table, in the order of `inference.names`.

    Parameters
    ----------
    inference : Inference
        Result of `infer`.

    Returns
    -------
    dict
        annotator: the id; labels: the number of labels; agreement: the fraction of labels that equal the model's
        prediction; confidence: the mean probability of the labels under the model alone; support: the mean probability
        of the labels given the model and the other labels of the example, with exponent 1; reliability: the probability
        that a label is correct, with the 95 % credible interval from low to high; flagged: whether that interval lies
        below the mean reliability over all labels.

    Examples
    --------
    >>> from lupi.crowd import infer
    >>> p = np.tile([[0.8, 0.2], [0.2, 0.8]], (20, 1)).repeat(3, axis=0)
    >>> given = np.tile([0, 0, 1, 1, 1, 0], 20)
    >>> found = infer(p, given, example=np.arange(40).repeat(3), annotator=["Ann", "Bob", "Cem"] * 40)
    >>> columns = summarize_annotators(found)
    >>> columns["agreement"].tolist(), columns["flagged"].tolist()
    ([1.0, 1.0, 0.0], [False, False, True])
    """
    v = inference.votes
    row = np.arange(len(v.label))
    total = np.bincount(v.annotator, minlength=v.annotators)
    p = inference.p[v.example]
    reliability, low, high = sample_reliability(inference)
    # Tempering improves calibration, but support is used for ranking, and tempered support ranked worse on music genre.
    support = replace(inference, exponent=1.0).others[row, v.label]
    return {
        "annotator": inference.names,
        "labels": total,
        "agreement": v.mean_by_annotator(p.argmax(1) == v.label),
        "confidence": v.mean_by_annotator(p[row, v.label]),
        "support": v.mean_by_annotator(support),
        "reliability": reliability,
        "low": low,
        "high": high,
        "flagged": high < np.average(reliability, weights=total),
    }


def sample_reliability(
    inference: Inference, level: float = 0.95, *, sweeps: int = 1000, random_state: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Sample the reliability of each annotator, and return its posterior mean and credible interval.

    The estimates of z, b, μ, σ_b² and s depend on each other, so an interval for one that treats the others as known
    is too narrow. Gibbs sampling draws all of them, and which labels are habits, while the errors C, the weights w and
    the habit distributions h stay at their estimates. The draws of z temper the likelihood of the labels with
    `inference.exponent`, because labels of the same example share errors. Given z, the labels of an annotator belong to
    different examples and are not tempered.
    """
    draws = _draw(inference, sweeps, np.random.default_rng(random_state))
    mean = np.mean(draws, 0)
    low, high = (mean + WIDER * (end - mean) for end in np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0))
    return mean, low.clip(0, 1), high.clip(0, 1)


def _draw(inference: Inference, sweeps: int, rng: np.random.Generator) -> list[Floats]:
    """Draw the reliability of the annotators, after a burn-in of a tenth as many sweeps."""
    v, model = inference.votes, inference.model
    J, cell = v.annotators, v.example * v.classes + v.label
    of_error, of_habit = log_errors(model.errors), model.habits[v.annotator, v.label]
    theta, mu, variance = inference.mean + inference.effects, inference.mean, inference.variances[0]
    offset, share, works = model.log_odds - theta[v.annotator], model.share, 1.0 - model.share[v.annotator]
    right = expit(model.log_odds)
    checked, others = count_checked(v), np.flatnonzero(count_checked(v) == 0)
    step = 2.4 / np.sqrt(1 / variance + np.bincount(v.annotator, works * right * (1 - right), J) + checked / 4)
    log_prior, draws = inference.log_prior, list[Floats]()
    for sweep in range(sweeps // 10 + sweeps):
        eta = theta[v.annotator] + offset
        evidence = error_evidence(v, model.errors, works)
        evidence += np.bincount(cell, works * eta, evidence.size).reshape(evidence.shape)
        z = (
            np.cumsum(softmax(clamp(v, log_prior + inference.exponent * evidence)), 1) > rng.random((v.examples, 1))
        ).argmax(1)
        sign = np.where(z[v.example] == v.label, 1.0, -1.0)
        if share.any():  # draw which labels are habits, given z, and the share of habits of each annotator
            work = (1 - share)[v.annotator] * np.exp(log_expit(sign * eta) + of_error[z[v.example], v.label])
            habit = share[v.annotator] * of_habit
            works = (rng.random(len(eta)) * (work + habit) < work).astype(float)
            counts = np.bincount(v.annotator, 1 - works, J), np.bincount(v.annotator, works, J)
            share = rng.beta(0.5 + counts[0], FEW + checked + counts[1])  # the prior favours few habits
        # Metropolis steps for each annotator given z, then μ and σ_b² given the annotators.
        density = log_density(theta, v, works, sign, offset, mu, variance)
        for _ in range(3):
            new = theta + step * rng.normal(size=J)
            new_density = log_density(new, v, works, sign, offset, mu, variance)
            accept = np.log(rng.random(J)) < new_density - density
            theta, density = np.where(accept, new, theta), np.where(accept, new_density, density)
        precision = 1 / 4 + len(others) / variance
        mu = (1 / 4 + theta[others].sum() / variance) / precision + rng.normal() / np.sqrt(precision)
        variance = (0.5 + ((theta[others] - mu) ** 2).sum() / 2) / rng.gamma(1 + len(others) / 2)
        if sweep >= sweeps // 10:
            lucky = model.habits[v.annotator, z[v.example]]
            of_label = (1 - share)[v.annotator] * expit(theta[v.annotator] + offset) + share[v.annotator] * lucky
            draws.append(v.mean_by_annotator(of_label))
    return draws


def log_density(
    theta: Floats, votes: Votes, works: Floats, sign: Floats, offset: Floats, mu: float, variance: float
) -> Floats:
    """Return the log-density of each annotator's log-odds.

    `works` is 0 for habits and 1 for other labels; `sign` is 1 for correct labels and −1 for wrong ones.
    """
    log = works * log_expit(sign * (theta[votes.annotator] + offset))
    prior = -((theta - mu) ** 2) / (2 * variance)
    if len(trusted := find_trusted(votes)):
        assert votes.trust is not None
        log_odds = theta[trusted] + votes.mean_by_annotator(offset)[trusted]
        prior[trusted] = log_trust(votes.trust[trusted], log_odds)[0]
    return np.asarray(np.bincount(votes.annotator, log, votes.annotators) + prior)

"""How reliable each annotator is, with a credible interval, by Gibbs sampling.

Kim and Ghahramani, "Bayesian classifier combination" (AISTATS 2012).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

from lupi.crowd.inference import Inference
from lupi.crowd.likelihood import error_evidence, log_softmax, softmax
from lupi.crowd.votes import Floats


def summarize_annotators(found: Inference) -> dict[str, NDArray[Any]]:
    """Summarize each annotator, as columns of a table in the order of `found.names`.

    Parameters
    ----------
    found : Inference
        From `infer`.

    Returns
    -------
    dict
        annotator; labels, their number; agreement, the fraction that the model alone would give; confidence, the mean
        probability according to the model alone; support, the mean probability according to the model and the other
        labels of the example; reliability, the probability that a label of theirs is correct, with its 95 % credible
        interval from low to high; flagged, whether that interval lies below the mean reliability over all labels.

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
    v = found.votes
    row = np.arange(len(v.label))
    total = np.bincount(v.annotator, minlength=v.annotators)
    p = found.p[v.example]
    reliability, low, high = sample_reliability(found)
    return {
        "annotator": found.names,
        "labels": total,
        "agreement": v.mean_by_annotator(p.argmax(1) == v.label),
        "confidence": v.mean_by_annotator(p[row, v.label]),
        "support": v.mean_by_annotator(found.others[row, v.label]),
        "reliability": reliability,
        "low": low,
        "high": high,
        "flagged": high < np.average(reliability, weights=total),
    }


def sample_reliability(
    found: Inference, level: float = 0.95, *, sweeps: int = 1000, random_state: int = 0
) -> tuple[Floats, Floats, Floats]:
    """Sample the probability that a label of an annotator is correct, and return its mean and interval.

    The estimates of z, b, μ, σ_b² and β depend on each other, so an interval that takes the others as certain is too
    short. Gibbs sampling draws all of them, with the errors C and the weights w as estimated, and with the labels'
    likelihood raised to `found.exponent` throughout: labels of one example share errors, so n labels say less about
    an annotator than n independent ones.

    Parameters
    ----------
    found : Inference
        From `infer`.
    level : float
        Probability of the credible interval.
    sweeps : int
        Number of draws, after a tenth of that number as burn-in.
    random_state : int
        Seed.

    Returns
    -------
    mean, low, high : ndarray
        [annotators] each.
    """
    v, rng, exponent = found.votes, np.random.default_rng(random_state), found.exponent
    J, of_errors = v.annotators, error_evidence(v, found.errors)
    cell = v.example * v.classes + v.label
    theta, mu, variance, scale = found.mean + found.effects, found.mean, found.variances[0], 1.0
    offset = found.log_odds - theta[v.annotator]
    information = np.bincount(v.annotator, found.right * (1 - found.right), J)
    step = 2.4 / np.sqrt(1 / variance + exponent * information)
    log_prior, draws = found.log_prior, []
    for sweep in range(sweeps // 10 + sweeps):
        gain = np.bincount(cell, theta[v.annotator] + offset, of_errors.size).reshape(of_errors.shape)
        q = softmax(log_prior + exponent * (of_errors + gain))
        z = (np.cumsum(q, 1) > rng.random((v.examples, 1))).argmax(1)
        sign = np.where(z[v.example] == v.label, 1.0, -1.0)

        def log_density(theta: Floats, sign: Floats = sign, mu: float = mu, variance: float = variance) -> Floats:
            log = log_expit(sign * (theta[v.annotator] + offset))
            return np.asarray(exponent * np.bincount(v.annotator, log, J) - (theta - mu) ** 2 / (2 * variance))

        # Metropolis steps for each annotator, given z; then μ and σ_b² given the annotators.
        density = log_density(theta)
        for _ in range(3):
            new = theta + step * rng.normal(size=J)
            new_density = log_density(new)
            accept = np.log(rng.random(J)) < new_density - density
            theta, density = np.where(accept, new, theta), np.where(accept, new_density, density)
        precision = 1 / 4 + J / variance
        mu = (1 / 4 + theta.sum() / variance) / precision + rng.normal() / np.sqrt(precision)
        variance = (0.5 + ((theta - mu) ** 2).sum() / 2) / rng.gamma(1 + J / 2)
        # A Metropolis step for the sharpness of the prior (a factor of β), given z.
        new_scale = float(scale * np.exp(0.1 * rng.normal()))
        new_prior = log_softmax(new_scale * found.log_prior)
        gain_of_prior = (new_prior - log_prior)[np.arange(v.examples), z].sum()
        gain_of_prior += (np.log(found.beta * scale) ** 2 - np.log(found.beta * new_scale) ** 2) / 2
        if np.log(rng.random()) < gain_of_prior:
            scale, log_prior = new_scale, new_prior
        if sweep >= sweeps // 10:
            draws.append(v.mean_by_annotator(expit(theta[v.annotator] + offset)))
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.mean(draws, 0), low, high

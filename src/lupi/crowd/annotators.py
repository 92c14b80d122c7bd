"""How reliable each annotator is, with a credible interval, by Gibbs sampling.

Kim and Ghahramani, "Bayesian classifier combination" (AISTATS 2012).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from lupi.crowd.inference import Inference
from lupi.crowd.pool import log_pool_density
from lupi.crowd.posterior import TINY, normalize_exp
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
    """Sample θ, the probability that a label of an annotator is correct, and return its mean and interval.

    The estimates of z, θ, a, b and β depend on each other, so an interval that takes the others as certain is too
    short. Gibbs sampling draws all of them, with errors C and offsets c as estimated, and π_j[k] = m_j[k].

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
    v, rng = found.votes, np.random.default_rng(random_state)
    label = np.arange(v.classes) == v.label[:, None]  # [labels, classes]
    wrong = np.log(found.pool.errors.T[v.label].clip(TINY))
    total = np.bincount(v.annotator, minlength=v.annotators)
    a, b, scale = found.pool.a, found.pool.b, 1.0
    theta = np.einsum("jkk->j", found.pool.pseudo) / found.pool.pseudo.sum((1, 2))
    log_prior, draws = found.log_prior, []
    for sweep in range(sweeps // 10 + sweeps):
        theta = theta.clip(1e-9, 1 - 1e-9)
        log = np.where(label, np.log(theta)[v.annotator, None], np.log1p(-theta)[v.annotator, None] + wrong)
        joint = log_prior + np.stack([np.bincount(v.example, column, v.examples) for column in log.T], 1)
        z = (np.cumsum(normalize_exp(joint), 1) > rng.random((v.examples, 1))).argmax(1)
        right = np.bincount(v.annotator, z[v.example] == v.label, v.annotators)
        theta = rng.beta(right + a, total - right + b)
        # Metropolis steps: a and b given θ, and the sharpness of the prior (a factor of β) given z.
        new_a, new_b = np.exp(np.log([a, b]) + 0.3 * rng.normal(size=2))
        gain = log_pool_density(new_a, new_b, theta) - log_pool_density(a, b, theta)
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
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.mean(draws, 0), low, high

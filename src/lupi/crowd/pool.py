"""What annotators have in common: the prior that lets annotators with few labels borrow strength from the others."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import betaln, gammaln, logsumexp

from lupi.crowd.posterior import TINY, normalize_exp
from lupi.crowd.votes import Floats, Votes

GRID = (np.arange(200) + 0.5) / 200
"""Values of θ at which its posterior is computed."""


class Pool(NamedTuple):
    """The prior of annotators' confusions: θ_j ~ Beta(a, b) and π_j[k] ~ Dirichlet(s m_j[k])."""

    a: float
    b: float
    errors: Floats
    """C, [classes, classes] with a zero diagonal: the distribution of wrong labels for each true label."""
    pseudo: Floats
    """s m, [annotators, classes, classes]: pseudo-counts of π."""


def fit_pool(count: Floats, log_likelihood: Floats | None = None) -> Pool:
    """Fit what annotators have in common by maximum likelihood under weak priors.

    log a ~ N(1, 2²), log b ~ N(0, 2²), log s ~ N(log 10, 2²), and half a label of pseudo-count per row of C.

    Parameters
    ----------
    count : array
        Expected numbers of labels, from `expected_counts`.
    log_likelihood : array, [annotators, grid], optional
        Log-likelihood of θ, from `accuracy_log_likelihood`; by default the counts are taken as certain.
    """
    K = count.shape[1]
    if log_likelihood is None:
        right, total = np.einsum("jkk->j", count)[:, None], count.sum((1, 2))[:, None]
        log_likelihood = right * np.log(GRID) + (total - right) * np.log1p(-GRID)

    def beta_loss(log: Floats) -> float:
        evidence = logsumexp(log_likelihood + _log_beta(*np.exp(log)), axis=1).sum()
        return float(((log[0] - 1) ** 2 + log[1] ** 2) / 8 - evidence)

    a, b = np.exp(minimize(beta_loss, [1.0, 0.0], method="L-BFGS-B", bounds=[(-3, 6)] * 2).x)
    theta = (normalize_exp(log_likelihood + _log_beta(a, b)) @ GRID)[:, None, None]
    errors = (count.sum(0) + 0.5 / (K - 1)) * (1 - np.eye(K))
    errors /= errors.sum(1, keepdims=True)
    m = theta * np.eye(K) + (1 - theta) * errors

    def dirichlet_loss(log: float) -> float:
        s = np.exp(log)
        gain = (gammaln(s * m + count) - gammaln(s * m)).sum() - (gammaln(s + count.sum(2)) - gammaln(s)).sum()
        return float((log - np.log(10)) ** 2 / 8 - gain)

    s = np.exp(minimize_scalar(dirichlet_loss, bounds=(-1, 7), method="bounded").x)
    return Pool(float(a), float(b), errors, s * m)


def accuracy_log_likelihood(others: Floats, errors: Floats, votes: Votes) -> Floats:
    """Return the log-probability of each annotator's labels at the values of θ in the grid, [annotators, grid].

    With r = P(z | the other labels, x), a label y has the probability θ r[y] + (1 − θ) Σ_k r[k] C[k, y].
    """
    right = others[np.arange(len(votes.label)), votes.label]
    wrong = (others * errors[:, votes.label].T).sum(1)
    log = [np.bincount(votes.annotator, np.log(t * right + (1 - t) * wrong + TINY), votes.annotators) for t in GRID]
    return np.stack(log, 1)


def log_pool_density(a: float, b: float, theta: Floats) -> float:
    """Return the log-density of log a, log b and θ under the weak priors of `fit_pool`."""
    theta = theta.clip(1e-9, 1 - 1e-9)
    log = (a - 1) * np.log(theta) + (b - 1) * np.log1p(-theta) - betaln(a, b)
    return float(log.sum() - ((np.log(a) - 1) ** 2 + np.log(b) ** 2) / 8)


def _log_beta(a: float, b: float) -> Floats:
    """Return the log-density of Beta(a, b) on the grid."""
    return np.asarray((a - 1) * np.log(GRID) + (b - 1) * np.log1p(-GRID) - betaln(a, b))

"""Stacking: the mixture of models that maximizes the likelihood of the labels, with the true labels summed out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lupi._internal.arrays import Floats
from lupi.crowd.likelihood import split_rows


def stack_weights(
    predictions: Sequence[ArrayLike], evidence: ArrayLike, *, tolerance: float = 1e-6, steps: int = 10_000
) -> Floats:
    """Return the weights w of the mixture of models that best explains the labels.

    EM maximizes Σ_i log Σ_m w_m Σ_k p_m[i, k] exp(evidence[i, k]). The problem is concave, so EM converges to the
    maximum. Examples without labels have constant evidence and no influence.
    """
    evidence = np.asarray(evidence, dtype=np.float64)
    shapes = {np.shape(p) for p in predictions}
    if evidence.ndim != 2 or shapes != {evidence.shape}:
        raise ValueError(
            f"Expected `predictions` to be arrays of the shape of `evidence`, {list(evidence.shape)}, "
            f"but got {[list(np.shape(p)) for p in predictions]}."
        )
    likelihood = model_likelihoods(predictions, evidence)
    likelihood = likelihood[np.ptp(evidence, axis=1) > 0]
    return weigh_models(likelihood, np.ones(len(likelihood)), tolerance=tolerance, steps=steps)


def weigh_models(likelihood: Floats, count: Floats, *, tolerance: float = 1e-6, steps: int = 10_000) -> Floats:
    """Return the weights w that maximize Σ_i count_i log Σ_m w_m likelihood[i, m]."""
    weights, total = np.full(likelihood.shape[1], 1 / likelihood.shape[1]), count.sum()
    if not total:
        return weights
    for _ in range(steps):
        # The gradient of the mean log-likelihood. By concavity, the log of its largest entry bounds the gap to the
        # optimum.
        slope = count / total @ (likelihood / (likelihood @ weights)[:, None])
        if np.log(slope.max()) < tolerance:
            break
        weights = weights * slope
    return np.asarray(weights / weights.sum())


def model_likelihoods(predictions: Sequence[ArrayLike], evidence: Floats) -> Floats:
    """Return Σ_k p_m[i, k] exp(evidence[i, k]), [examples, models], up to a factor for each example."""
    found = np.empty((len(evidence), len(predictions)))
    for rows in split_rows(*evidence.shape):
        weight = np.exp(evidence[rows] - evidence[rows].max(1, keepdims=True))
        for m, p in enumerate(predictions):
            found[rows, m] = (np.asarray(p)[rows] * weight).sum(1)
    return np.maximum(found, np.finfo(np.float64).tiny)  # an example that no model explains is ignored

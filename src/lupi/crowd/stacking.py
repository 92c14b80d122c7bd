"""Stacking: the mixture of models that maximizes the likelihood of the labels, with the true labels summed out."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from lupi.crowd.votes import Floats, split_rows


def stack_weights(
    predictions: Sequence[ArrayLike], evidence: ArrayLike, *, tolerance: float = 1e-6, steps: int = 10_000
) -> Floats:
    """Return the weights w of the mixture of models that best explains the labels.

    EM maximizes Σ_i log Σ_m w_m Σ_k p_m[i, k] exp(evidence[i, k]). The problem is concave, so EM converges to the
    maximum. Examples without labels have constant evidence and no influence.

    Parameters
    ----------
    predictions : sequence of arrays, [examples, classes] each
        The predictions of each model for examples that it was not trained on.
    evidence : array, [examples, classes]
        Log-probability of the labels of each example given each true label, such as `Inference.evidence`.
    tolerance : float
        EM stops when the mean log-likelihood per example is this close to its maximum.
    steps : int
        Maximum number of steps.

    Returns
    -------
    ndarray
        Weights of the models, which sum to 1.

    Examples
    --------
    The first model knows what the labels say; the second guesses.

    >>> evidence = np.log([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1]])
    >>> stack_weights([[[0.8, 0.2], [0.1, 0.9], [0.7, 0.3]], np.full((3, 2), 0.5)], evidence).round(2).tolist()
    [1.0, 0.0]
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
    weights = np.full(len(predictions), 1 / len(predictions))
    if not len(likelihood):
        return weights
    for _ in range(steps):
        # The gradient of the mean log-likelihood. By concavity, the log of its largest entry bounds the gap to the
        # optimum.
        slope = (likelihood / (likelihood @ weights)[:, None]).mean(0)
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

"""Logistic regressions of the true label, which see the labels only through the model of the annotators.

They maximize Σ_i log Σ_z p(z | x_i) P(labels of i | z) − ‖w‖² / 2c, as in Raykar et al., with the annotators as they
have been inferred. Where networks learn the errors of annotators from a few hundred examples, a linear model often does
not. c grows until the regressions explain the labels of examples that they have not seen less well.

References
----------
Raykar et al., "Learning from crowds" (JMLR 2010).
"""

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from lupi._internal.arrays import Floats
from lupi.crowd.inference import one_blas_thread
from lupi.crowd.likelihood import normalize
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Categorical
from lupi.methods.no_pi import NoPI
from lupi.nn.inference import over_examples

VARIANCES = 4.0 ** np.arange(-5, 2)
"""c, the prior variances of the weights of standardized inputs, each regression starting from the previous one."""
STEPS = 15
"""Maximum number of steps of L-BFGS for each regression."""
MAX_CELLS = 4_000_000
"""Maximum number of examples × (inputs + outputs). If there are more, the regressions learn from a sample."""


def has_vectors(data: Annotations) -> bool:
    """Return whether the inputs are vectors of real numbers."""
    x = data.x
    return len(getattr(x, "shape", ())) == 2 and (not isinstance(x, Tensor) or x.dtype == torch.float32)


def cross_fit_linear(
    data: Annotations, fold: Tensor, evidence: Floats, likelihood: Categorical | Bernoulli
) -> list[NoPI]:
    """Return one regression per fold, trained on the other folds.

    `evidence` is the log-probability of the labels of each annotated example given each true label, [examples, classes]
    or, of several binary labels, [examples × labels, 2].
    """
    examples = data.annotated[fold[data.annotated] >= 0]
    evidence = (evidence - evidence.max(1, keepdims=True)).reshape(data.annotated.shape[0], -1)
    evidence = evidence[(fold[data.annotated] >= 0).cpu().numpy()]
    most = MAX_CELLS // (data.x.shape[1] + evidence.shape[1])  # type: ignore[union-attr] # x is a matrix
    sample = np.random.default_rng(0).permutation(len(evidence))[:most]
    evidence, rows = evidence[sample], examples[torch.from_numpy(sample).to(examples.device)]
    x, of = over_examples(nn.Identity(), data.x, rows=rows).double().cpu().numpy(), fold[rows].cpu().numpy()
    centre, scale = x.mean(0), x.std(0)
    scale[scale < 1e-6] = np.inf  # constant inputs get no weight
    x = (x - centre) / scale
    binary = isinstance(likelihood, Bernoulli)
    start = np.zeros((x.shape[1] + 1, evidence.shape[1] // (1 + binary)))
    path, losses = [[start] * (int(fold.max()) + 1)], [np.inf]
    with one_blas_thread():
        for variance in VARIANCES:
            path.append([fit(w, x[of != k], evidence[of != k], binary, variance) for k, w in enumerate(path[-1])])
            own = (negative_log_likelihood(w, x[of == k], evidence[of == k], binary) for k, w in enumerate(path[-1]))
            losses.append(sum(loss for loss, _ in own))
            if min(losses[-2:]) > min(losses):  # it falls, then rises
                break
    return [to_network(w, centre, scale, data.row.device) for w in path[int(np.argmin(losses))]]


def fit(start: Floats, x: Floats, evidence: Floats, binary: bool, variance: float) -> Floats:
    """Return the weights and, in the last row, the biases of the regression with a variance."""

    def negative_log_posterior(flat: Floats) -> tuple[float, Floats]:
        w = flat.reshape(start.shape)
        value, gradient = negative_log_likelihood(w, x, evidence, binary)
        gradient[:-1] += w[:-1] / variance
        return value + float((w[:-1] ** 2).sum()) / (2 * variance), gradient.ravel()

    found = minimize(negative_log_posterior, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    return np.asarray(found.x.reshape(start.shape))


def negative_log_likelihood(w: Floats, x: Floats, evidence: Floats, binary: bool) -> tuple[float, Floats]:
    """Return −Σ_i log Σ_z p(z | x_i) P(labels of i | z), and its gradient with respect to the weights."""
    logits = x @ w[:-1] + w[-1]
    if binary:  # the logits of 0 are 0
        logits = np.stack([np.zeros_like(logits), logits], -1).reshape(-1, 2)
        evidence = evidence.reshape(-1, 2)
    truth, total = normalize(logits + evidence)
    p, total_of_p = normalize(logits)
    slope = (p - truth)[:, 1].reshape(len(x), -1) if binary else p - truth
    return float((total_of_p - total).sum()), np.vstack([x.T @ slope, slope.sum(0)])


def to_network(w: Floats, centre: Floats, scale: Floats, device: torch.device) -> NoPI:
    """Return a network of a single layer that takes inputs that are not standardized."""
    layer = nn.Linear(len(centre), w.shape[1])
    weights = w[:-1] / scale[:, None]
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weights.T))
        layer.bias.copy_(torch.from_numpy(w[-1] - centre @ weights))
    return NoPI(nn.Identity(), layer).to(device)

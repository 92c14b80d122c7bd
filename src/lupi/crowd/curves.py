"""Learning curves: what more labels are expected to buy for the model.

The expected loss of a model that is trained on n labels is a + b / n^c, with a, b ≥ 0. The losses of models that were
trained on nested samples of the labels determine a, b and c, up to their errors; these errors, and what the samples
leave open about c, become an interval for larger n. Another training on n labels has another loss, whose variance is
taken to be proportional to 1 / n.

References
----------
Hestness et al., "Deep learning scaling is predictable, empirically" (2017).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lupi._internal.arrays import Floats
from lupi.crowd.votes import Integers

EXPONENTS = np.linspace(0.1, 1.5, 29)
"""Values of c that are equally probable beforehand; small samples may gain faster than 1 / n."""
DRAWS = 1000
"""Number of curves to draw, in all and for each value of c."""


class Expected(NamedTuple):
    """The loss of a model with its 95 % interval, and by how much more labels are expected to lower it."""

    loss: float
    low: float
    high: float
    gain: float
    gain_low: float
    gain_high: float


def extrapolate(losses: Floats, sizes: Sequence[float], fold: Integers, at: Sequence[float]) -> list[Expected]:
    """Return the expected losses of models that are trained on more labels.

    `losses` are the out-of-fold losses of every example by models trained on samples of `sizes` labels, [sizes,
    examples], and `at` are the numbers of labels of the models in question; gains are those over the first.
    """
    examples, scale, seen, wanted = losses.shape[1], float(max(sizes)), np.asarray(sizes, float), np.asarray(at, float)
    mean, between = losses.mean(1), measure_trainings(losses, seen, fold)
    error = np.cov(losses) / examples + np.diag(between / seen / (fold.max() + 1) + 1e-12)
    precision, rng = np.linalg.inv(error), np.random.default_rng(0)
    curves, weights = [], []
    for c in EXPONENTS:
        design = np.stack([np.ones(len(seen)), (seen / scale) ** -c], 1)
        spread = np.linalg.inv(design.T @ precision @ design)
        best = spread @ design.T @ precision @ mean
        rest = mean - design @ best
        draws = rng.multivariate_normal(best, spread, DRAWS)
        possible = draws[(draws >= 0).all(1)]
        points = possible[:, :1] + possible[:, 1:] * (wanted / scale) ** -c
        curves.append(points)
        # the evidence of c, and the share of its curves that are possible
        weights.append(np.full(len(points), np.exp(-0.5 * rest @ precision @ rest) * np.sqrt(np.linalg.det(spread))))
    drawn, weight = np.concatenate(curves), np.concatenate(weights)
    if not len(drawn):  # more labels made every model worse
        drawn, weight = np.full((1, len(at)), mean[-1]), np.ones(1)
    drawn = rng.choice(drawn, DRAWS, p=weight / weight.sum())
    trained = np.maximum(0, drawn + np.sqrt(between / wanted) * rng.normal(size=(DRAWS, 1)))
    columns = [
        limits
        for values in (trained, drawn[:, :1] - drawn)
        for limits in (values.mean(0), *np.quantile(values, [0.025, 0.975], axis=0))
    ]
    return [Expected(*row) for row in np.stack(columns, 1).tolist()]


def measure_trainings(losses: Floats, sizes: Floats, fold: Integers) -> float:
    """Return the variance of the mean loss between trainings, times their size.

    It is the variance between folds, less what examples explain; larger samples, which are nearer to the models in
    question, count for more.
    """
    count = np.bincount(fold)
    within = np.array([losses[:, fold == k].var(1, ddof=1) / count[k] for k in range(len(count))])
    means = np.array([losses[:, fold == k].mean(1) for k in range(len(count))])
    return max(0.0, float(np.average(sizes * (means.var(0, ddof=1) - within.mean(0)), weights=sizes)))

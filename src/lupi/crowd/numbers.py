"""Infer true numbers from several annotators' numbers and the predictions of a model.

    true number     z_i = f(x_i) + c + u_i,                    u_i ~ N(0, τ²)
    given number    y_n = z_i + b_j + e_n,                     b_j ~ N(0, σ_b²), e_n ~ N(0, s_j² / weight_n)

b_j is the offset of annotator j, and s_j² the variance of the annotator's errors, shrunk towards the geometric mean of
all annotators. f was learnt from the labels, so busy annotators have pulled it towards their offsets; the constant c
lets every annotator count once instead. EM estimates c and the variances; it accounts for the uncertainty of u and b.
If every example has one label, τ² and s² are told apart only by differences between annotators; what these leave open
is shared equally.

References
----------
Raykar et al., "Learning from crowds" (JMLR 2010), section 6.
"""

from typing import NamedTuple

import numpy as np

from lupi._internal.arrays import Floats
from lupi.crowd.votes import Integers

STEPS = 200
"""Maximum number of EM steps."""
CONVERGED = 1e-4
"""Relative change of the variances at which the steps end."""
SMALLEST = 1e-6
"""Smallest variance, as a share of that of the labels around the predictions: EM would stay at zero."""
FEW = 2.0
"""Number of labels for which the mean of all annotators counts in an annotator's variance."""


class Numbers(NamedTuple):
    """Estimates of true numbers and of annotators."""

    truth: Floats
    """[examples] posterior means of the true numbers."""
    offsets: Floats
    """[annotators] posterior means of b."""
    variances: Floats
    """[annotators] s²."""
    unexplained: float
    """τ², the variance of the true numbers around the predictions."""
    level: float
    """c, which is added to the predictions."""


def infer_numbers(
    y: Floats, prediction: Floats, *, example: Integers, annotator: Integers, weight: Floats, gold: Floats
) -> Numbers:
    """Infer true numbers from numbers y, [labels], and predictions, [examples].

    `gold` has the true numbers, [examples], NaN where they are unknown.
    """
    examples, annotators = len(prediction), int(annotator.max()) + 1
    known = ~np.isnan(gold)
    residual = y - prediction[example]
    total = max(float(weight @ residual**2) / float(weight.sum()), 1e-12)
    unexplained, of_offsets, s2, b = total / 2, total / 10, np.full(annotators, total / 2), np.zeros(annotators)
    each, level = np.bincount(annotator, minlength=annotators), 0.0
    for _ in range(STEPS):
        before = unexplained, of_offsets, float(s2.mean())
        precision = weight / s2[annotator]
        v = 1 / (1 / unexplained + np.bincount(example, precision, examples))
        u = v * np.bincount(example, precision * (residual - level - b[annotator]), examples)
        u, v = np.where(known, gold - prediction - level, u), np.where(known, 0.0, v)
        b_variance = 1 / (1 / of_offsets + np.bincount(annotator, precision, annotators))
        b = b_variance * np.bincount(annotator, precision * (residual - level - u[example]), annotators)
        square = weight * ((residual - level - u[example] - b[annotator]) ** 2 + v[example] + b_variance[annotator])
        s2 = (np.bincount(annotator, square, annotators) + FEW * np.exp(np.log(s2).mean())) / (each + FEW)
        unexplained, of_offsets = float(np.mean(u**2 + v)), float(np.mean(b**2 + b_variance))
        unexplained, of_offsets = max(unexplained, SMALLEST * total), max(of_offsets, SMALLEST * total)
        s2, shift = np.maximum(s2, SMALLEST * total), float(b.mean())
        level, b = level + shift, b - shift
        after = unexplained, of_offsets, float(s2.mean())
        if np.allclose(before, after, rtol=CONVERGED, atol=SMALLEST * total):
            break
    return Numbers(np.where(known, gold, prediction + level + u), b, s2, unexplained, level)

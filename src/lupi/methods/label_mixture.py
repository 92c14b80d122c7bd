"""Mix predictions of labels: how people would answer, rather than what is true.

Where a question is subjective, annotators who disagree are not wrong. Out-of-fold predictions of the labels are then
mixed so that the given labels are most probable under the mixture, whoever gave them, and the mixture is the target of
the student. Nothing is inferred about a true label.
"""

from collections.abc import Sequence

import numpy as np

from lupi._internal.arrays import Floats
from lupi.crowd.stacking import weigh_models
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli, Gaussian, Likelihood
from lupi.methods.explanation import Explanation, minimize_on_simplex, mix, number_examples, to_numpy


def mix_by_labels(data: Annotations, predictions: Sequence[Floats], likelihood: Likelihood) -> Explanation:
    """Mix out-of-fold predictions, [annotated examples, outputs], by the weighted likelihood of the labels.

    A soft label counts as its classes in proportion to their probabilities. Real numbers are mixed by least squares.
    """
    row, y = number_examples(data), to_numpy(data.y)
    weight = np.ones(len(row)) if data.weight is None else to_numpy(data.weight)
    if isinstance(likelihood, Gaussian):
        numbers = [p[:, 0] for p in predictions]
        weights = minimize_on_simplex(np.stack([np.sqrt(weight) * (p[row] - y) for p in numbers], 1))
        return Explanation(weights, mix(numbers, weights))
    if isinstance(likelihood, Bernoulli):
        every = [np.concatenate([p[row], 1 - p[row]], 1) for p in predictions]
        y = np.concatenate([y, 1 - y], 1)
    else:
        every = [p[row] for p in predictions]
        y = y if y.ndim == 2 else np.eye(predictions[0].shape[1])[y.astype(np.int64)]
    given = y > 0
    of_labels = np.stack([p[given] for p in every], 1).clip(np.finfo(np.float64).tiny)
    weights = weigh_models(of_labels, (weight[:, None] * y)[given])
    return Explanation(weights, mix(predictions, weights))

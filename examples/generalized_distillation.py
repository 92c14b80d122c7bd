"""Synthetic experiments 1 and 3 of Lopez-Paz et al., "Unifying distillation and privileged information" (ICLR 2016).

Logistic regression on 200 examples with 50 features. In experiment 1 the privileged information is the distance to the
decision boundary, to which labels add noise; in experiment 3 it is the three features that matter.

>>> main(repetitions=2, epochs=1)  # doctest: +ELLIPSIS
experiment 1, privileged information instead of x: ...
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lupi import PrivilegedClassifier
from lupi.estimators import fit_together

TRAINING, TEST, FEATURES, RELEVANT = 200, 10_000, 50, 3
SETTINGS: dict[str, Any] = {
    "hidden": (),  # no hidden layer: logistic regression
    "batch_size": 128,
    "learning_rate": 3e-3,
    "training": {"validation_fraction": 0.2},  # if there is a patience
}
MODELS = {
    "privileged information instead of x": None,
    "no privileged information": None,
    "student of a linear teacher of a": "linear",
    "student of a teacher of a": "privileged",
    "student of a teacher of x and a": "both",
}
"""What is trained, and the teacher of what is a student."""
PUBLISHED = {1: (0.96, 0.88, 0.95), 3: (0.98, 0.89, 0.97)}
"""Accuracies of the first three, in the paper."""

Array = NDArray[np.float64]


def draw(experiment: int, rng: np.random.Generator, normal: Array, rows: int) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Draw x, a and y; `normal` is the normal vector of the hyperplane."""
    x = rng.normal(size=(rows, FEATURES))
    if experiment == 1:
        distance = x @ normal
        return x, distance[:, None], distance + rng.normal(size=rows) > 0
    relevant = x[:, :RELEVANT]
    return x, relevant, relevant @ normal[:RELEVANT] > 0


def accuracies(experiment: int, model: str, repetitions: int, epochs: int = 1000, patience: int | None = None) -> Array:
    """Return the test accuracy of one of `MODELS` in every repetition."""
    teacher = MODELS[model]
    method, options = "no-pi", {}
    if teacher is not None:
        method, options = "generalized-distillation", {"teacher": teacher, "temperature": 1.0, "weight": 1.0}
    models = []
    training: list[dict[str, Any]] = []
    test: list[dict[str, Any]] = []
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        normal = rng.normal(size=FEATURES)
        for rows, sets in ((TRAINING, training), (TEST, test)):
            x, a, y = draw(experiment, rng, normal, rows)
            sets.append({"X": a if model.startswith("privileged") else x, "y": y, "privileged": a})
        kind = {f"a{i}": "standardized" for i in range(training[-1]["privileged"].shape[1])}
        settings = SETTINGS | {
            "kind": kind,
            "method_options": options,
            "epochs": epochs,
            "patience": patience,
            "random_state": seed,
        }
        models.append(PrivilegedClassifier(method, **settings))
    fit_together(models, training)
    return np.array([fitted.score(rows["X"], rows["y"]) for fitted, rows in zip(models, test, strict=True)])


def main(repetitions: int = 100, epochs: int = 1000, patience: int | None = None) -> None:
    """Print mean and standard deviation of the accuracies, and the published means."""
    for experiment, published in PUBLISHED.items():
        for model, mean in zip(MODELS, (*published, None, None), strict=True):
            result = accuracies(experiment, model, repetitions, epochs, patience)
            print(
                f"experiment {experiment}, {model}: {result.mean():.3f} ± {result.std():.3f}"
                + (f" (published {mean})" if mean else ""),
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""Relabel a data set with models as annotators, as the paper relabels ImageNet.

An annotation of an example is drawn in two steps:

1. the annotator: the malicious one with probability `malicious`, otherwise one of the models, uniformly;
2. the label, from the annotator's predictive distribution for the example, which is uniform for the malicious one.

The privileged information of a label is the annotator, and the probability that the annotator assigned to the label.

References
----------
Collier, Jenatton, Kokiopoulou and Berent, *Transfer and Marginalize: Explaining Away Label Noise with
Privileged Information*, ICML 2022: the experiment on ImageNet ILSVRC12.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from lupi._internal.checks import check_integer, check_number

MALICIOUS = "malicious"
"""Name of the annotator that answers at random."""

_TOLERANCE = 1e-3  # distributions stored in half precision sum to one only approximately
_BLOCK = 2**22  # probabilities read at a time, so that memory-mapped arrays are never loaded whole


class Relabelled(NamedTuple):
    """Annotations of examples, ordered by example."""

    row: NDArray[np.int64]
    """Example of each annotation."""
    label: NDArray[Any]
    """Label of each annotation."""
    privileged: pd.DataFrame
    """`annotator` (categorical), and the `probability` that the annotator assigned to the label."""


def relabel(
    probabilities: Sequence[ArrayLike] | NDArray[np.floating],
    *,
    annotations: int = 1,
    malicious: float = 0.1,
    names: Sequence[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Relabelled:
    """Draw annotations from the predictive distributions of models.

    Parameters
    ----------
    probabilities : array or sequence of arrays
        Predictive distributions, [models, examples, classes]. Memory-mapped arrays are read in blocks.
    annotations : int
        Annotations per example.
    malicious : float
        Probability that an annotation comes from an additional, malicious annotator, whose labels are uniform. With 0
        there is no such annotator.
    names : sequence of str, optional
        Names of the models; by default "model-0", "model-1", ….
    random_state : int or Generator, optional
        Seed or generator of the draws.

    Returns
    -------
    Relabelled
        Row, label (the index of the class) and privileged information of each annotation.

    Notes
    -----
    Choices that the paper leaves open:

    - The paper draws one annotation per example. Here several are drawn independently, so a model may answer twice.
    - The paper does not say which probability a malicious label has. Here it is 1 / classes, the probability of
      drawing that label, as for every other annotator.

    Examples
    --------
    Two models and three classes; the second model is certain.

    >>> probabilities = [[[0.2, 0.3, 0.5]], [[0.0, 1.0, 0.0]]]
    >>> row, label, privileged = relabel(probabilities, annotations=4, malicious=0.25, names=["mild", "sure"])
    >>> row, label
    (array([0, 0, 0, 0]), array([1, 2, 1, 2]))
    >>> privileged
       annotator  probability
    0  malicious     0.333333
    1  malicious     0.333333
    2       sure     1.000000
    3       mild     0.500000
    """
    models: list[NDArray[np.floating]] = [np.asarray(model) for model in probabilities]
    shapes = sorted({model.shape for model in models})
    if len(shapes) != 1 or models[0].ndim != 2 or models[0].size == 0:
        raise ValueError(
            "Expected `probabilities` to have the shape [models, examples, classes], none of them zero, but got "
            f"models of shapes {shapes}."
        )
    check_integer("annotations", annotations, 1)
    check_number("malicious", malicious, maximum=1)
    names = [f"model-{number}" for number in range(len(models))] if names is None else list(names)
    if len(names) != len(models) or len({*names, MALICIOUS}) != len(models) + 1:
        raise ValueError(
            f"Expected `names` to be {len(models)} distinct names other than {MALICIOUS!r}, but got {names}."
        )
    examples, classes = models[0].shape
    rng = np.random.default_rng(random_state)

    row = np.repeat(np.arange(examples), annotations)
    annotator = rng.integers(len(models), size=len(row))
    annotator[rng.random(len(row)) < malicious] = len(models)
    quantile = rng.random(len(row))  # where the label lies in the annotator's distribution

    # Start with malicious labels; then each model overwrites its own annotations.
    label = np.floor(quantile * classes).astype(np.int64)
    probability = np.full(len(row), 1 / classes)
    for number, model in enumerate(models):
        own = np.flatnonzero(annotator == number)
        size = max(1, _BLOCK // classes)
        for start in range(0, examples, size):
            block = model[start : start + size]
            _check_distributions(block, number, start)
            some = own[slice(*np.searchsorted(row[own], [start, start + len(block)]))]
            label[some] = _at_quantile(block[row[some] - start], quantile[some])
            probability[some] = block[row[some] - start, label[some]]

    everyone = pd.Index([*names, MALICIOUS] if malicious else names)
    who = pd.Categorical.from_codes(annotator, categories=everyone)
    return Relabelled(row, label, pd.DataFrame({"annotator": who, "probability": probability}))


def annotate(
    models: Sequence[Any],
    X: Any,
    *,
    annotations: int = 1,
    malicious: float = 0.1,
    names: Sequence[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Relabelled:
    """Annotate the rows of X with fitted classifiers, by `relabel` with their predictions.

    The classes are the union of the models' classes. Classes that a model does not know have probability zero.

    Parameters
    ----------
    models : sequence of classifiers
        Fitted scikit-learn classifiers, or any objects with `classes_` and `predict_proba`.
    X : array or DataFrame
        Examples, in a form that the models accept.
    annotations, malicious, names, random_state
        As for `relabel`.

    Returns
    -------
    Relabelled
        Row of X, label (the class itself) and privileged information of each annotation.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> models = [GaussianNB().fit(X, y), DecisionTreeClassifier(max_depth=1, random_state=0).fit(X, y)]
    >>> row, label, privileged = annotate(models, X, names=["bayes", "stump"])
    >>> privileged["annotator"].value_counts().to_dict()
    {'stump': 75, 'bayes': 58, 'malicious': 17}
    >>> float((label == y[row]).mean().round(2))
    0.71
    """
    if len(models) == 0:
        raise ValueError("Expected `models` to have at least one classifier, but got none.")
    classes = np.unique(np.concatenate([model.classes_ for model in models]))
    probabilities = []
    for model in models:
        known = np.asarray(model.predict_proba(X))
        every = np.zeros((len(known), len(classes)))
        every[:, np.searchsorted(classes, model.classes_)] = known
        probabilities.append(every)
    row, label, privileged = relabel(
        probabilities, annotations=annotations, malicious=malicious, names=names, random_state=random_state
    )
    return Relabelled(row, classes[label], privileged)


def _at_quantile(distributions: NDArray[np.floating], quantile: NDArray[np.float64]) -> NDArray[np.int64]:
    """Invert the cumulative distribution of each row. Classes of probability zero are never returned."""
    cumulative = np.cumsum(distributions, axis=1, dtype=np.float64)
    # The total is not exactly one because of rounding; scaling by it ensures that each quantile < 1 has a class.
    label: NDArray[np.int64] = np.sum(cumulative <= quantile[:, None] * cumulative[:, -1:], axis=1)
    return label


def _check_distributions(block: NDArray[np.floating], model: int, start: int) -> None:
    """Raise an error unless the rows are distributions."""
    total, least = block.sum(axis=1, dtype=np.float64), block.min(axis=1)
    wrong = ~((np.abs(total - 1) <= _TOLERANCE) & (least >= 0))  # negated, so that NaN is wrong too
    if wrong.any():
        example = int(np.argmax(wrong))
        raise ValueError(
            "Expected `probabilities` to be at least zero and to sum to one over the classes, but got a minimum of "
            f"{least[example]:g} and a sum of {total[example]:g} for model {model}, example {start + example}."
        )

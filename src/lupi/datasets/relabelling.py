"""Relabel any labelled set with models as its annotators, the way the paper relabels ImageNet.

One annotation of one example is made in two draws:

1. an annotator: the malicious one with probability `malicious`, otherwise any of the models, equally likely;
2. a label from that annotator's predictive distribution for the example; the malicious one's is uniform.

The privileged information of the label is who gave it and how probable it was to them.

References
----------
Collier, Jenatton, Kokiopoulou and Berent, *Transfer and Marginalize: Explaining Away Label Noise with
Privileged Information*, ICML 2022: the experiment on ImageNet ILSVRC12.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

MALICIOUS = "malicious"
"""The name of the annotator that answers at random."""

_TOLERANCE = 1e-3  # distributions kept in half precision sum to one only this well
_BLOCK = 2**22  # probabilities looked at together, so that memory-mapped ones are never copied whole


class Relabelled(NamedTuple):
    """Annotations of a set of examples: one entry per annotation, in the order of the examples."""

    row: NDArray[np.int64]
    """The example that each annotation belongs to."""
    label: NDArray[Any]
    """The label that was given."""
    privileged: pd.DataFrame
    """Who gave it (`annotator`, categorical) and how probable the label was to them (`probability`)."""


class Annotator(Protocol):
    """A fitted scikit-learn classifier, or anything that has these two."""

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, one per column of `predict_proba`."""

    def predict_proba(self, X: Any, /) -> NDArray[np.floating]:
        """Return the predictive distribution of every example."""


def relabel(
    probabilities: Sequence[ArrayLike] | NDArray[np.floating],
    *,
    annotations: int = 1,
    malicious: float = 0.1,
    names: Sequence[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Relabelled:
    """Draw annotations of examples from the predictive distributions of models.

    Parameters
    ----------
    probabilities
        For each model its predictive distribution of each example: [models, examples, classes], or a sequence
        of [examples, classes]. Memory-mapped arrays are read a block of rows at a time.
    annotations
        Annotations per example.
    malicious
        Probability that an annotation comes from the malicious annotator, which is added to the models and
        always answers with a class drawn uniformly. With 0 there is no such annotator.
    names
        Names of the models, "model-0", "model-1", … unless given.
    random_state
        Seed or generator of the draws.

    Returns
    -------
    Relabelled
        Row, label (the number of the class) and privileged information of every annotation.

    Notes
    -----
    Where the paper leaves a choice:

    - It draws one annotation per example. Several are independent draws here, so a model may answer twice.
    - It does not say which probability goes with a malicious label. Here it is 1 / classes, the probability
      with which that label was sampled, as for every other annotator.

    Examples
    --------
    Two models and three classes; the second model is always sure.

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
    models = _as_models(probabilities)
    if annotations < 1:
        raise ValueError(f"Expected `annotations` to be at least 1, but got {annotations}.")
    if not 0 <= malicious <= 1:
        raise ValueError(f"Expected `malicious` to be a probability, but got {malicious}.")
    names = _as_names(names, len(models))
    examples, classes = models[0].shape
    rng = np.random.default_rng(random_state)

    row = np.repeat(np.arange(examples), annotations)
    annotator = rng.integers(len(models), size=len(row))
    annotator[rng.random(len(row)) < malicious] = len(models)
    quantile = rng.random(len(row))  # a label is this quantile of its annotator's distribution

    # Everyone is malicious at first; then each model overwrites its own annotations.
    label = np.floor(quantile * classes).astype(np.int64)
    probability = np.full(len(row), 1 / classes)
    for number, model in enumerate(models):
        own = np.flatnonzero(annotator == number)
        for start, block in _blocks(model):
            _check_distributions(block, number, start)
            some = own[slice(*np.searchsorted(row[own], [start, start + len(block)]))]
            label[some] = _at_quantile(block[row[some] - start], quantile[some])
            probability[some] = block[row[some] - start, label[some]]

    everyone = pd.Index([*names, MALICIOUS] if malicious else names)
    who = pd.Categorical.from_codes(annotator, categories=everyone)
    return Relabelled(row, label, pd.DataFrame({"annotator": who, "probability": probability}))


def annotate(
    models: Sequence[Annotator],
    X: Any,
    *,
    annotations: int = 1,
    malicious: float = 0.1,
    names: Sequence[str] | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> Relabelled:
    """Let fitted classifiers annotate the rows of X: `relabel` with the models' own predictions.

    The classes are those that any of the models knows; a model gives those it does not know probability zero.
    Labels come back as classes, not as their numbers.

    Parameters
    ----------
    models
        Fitted classifiers: they have `classes_` and `predict_proba`.
    X
        Examples, as the models take them.
    annotations, malicious, names, random_state
        As for `relabel`.

    Returns
    -------
    Relabelled
        Row of X, label and privileged information of every annotation.

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
        raise ValueError("Expected `models` to hold at least one classifier, but got none.")
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
    """Invert the cumulative distribution of each row. A class of probability zero is never the answer."""
    cumulative = np.cumsum(distributions, axis=1, dtype=np.float64)
    # Scaled by the total, which rounding keeps from being exactly one: a quantile < 1 always finds a class.
    label: NDArray[np.int64] = np.sum(cumulative <= quantile[:, None] * cumulative[:, -1:], axis=1)
    return label


def _blocks(model: NDArray[np.floating]) -> Iterator[tuple[int, NDArray[np.floating]]]:
    """Cut the rows into blocks, each with the number of its first row."""
    size = max(1, _BLOCK // model.shape[1])
    for start in range(0, len(model), size):
        yield start, model[start : start + size]


def _as_models(probabilities: Sequence[ArrayLike] | NDArray[np.floating]) -> list[NDArray[np.floating]]:
    """Look at the distributions as one array [examples, classes] per model, without copying arrays."""
    models = [np.asarray(model) for model in probabilities]
    shapes = {model.shape for model in models}
    if len(shapes) != 1 or models[0].ndim != 2 or models[0].size == 0:
        got = ", ".join(map(str, sorted(shapes))) or "no models"
        raise ValueError(
            "Expected `probabilities` to have the shape [models, examples, classes], none of them zero, "
            f"but got models of shape {got}."
        )
    return models


def _as_names(names: Sequence[str] | None, models: int) -> list[str]:
    if names is None:
        return [f"model-{number}" for number in range(models)]
    if len(names) != models or len({*names, MALICIOUS}) != models + 1:
        raise ValueError(
            f"Expected `names` to be {models} different names, none of them {MALICIOUS!r}, but got {list(names)}."
        )
    return list(names)


def _check_distributions(block: NDArray[np.floating], model: int, start: int) -> None:
    total = block.sum(axis=1, dtype=np.float64)
    wrong = ~(np.abs(total - 1) <= _TOLERANCE)  # so written, NaN is wrong too
    if wrong.any():
        example = int(np.argmax(wrong))
        raise ValueError(
            f"Expected `probabilities` to sum to one over the classes, but got a sum of {total[example]:g} "
            f"for model {model}, example {start + example}."
        )
    if block.min() < 0:
        example = int(np.argmax(block.min(axis=1) < 0))
        raise ValueError(
            f"Expected `probabilities` to be at least zero, but got {block[example].min():g} "
            f"for model {model}, example {start + example}."
        )

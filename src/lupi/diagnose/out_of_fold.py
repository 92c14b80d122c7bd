"""Predict the classes of examples with models that were trained on other examples."""

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lupi._internal.devices import one_thread
from lupi._internal.parallel import run_parallel
from lupi._internal.progress import Steps
from lupi.estimators import PrivilegedClassifier
from lupi.tabular.encoding import MissingValuesWarning
from lupi.tabular.grouping import grouped_folds, number_examples, take_rows


def predict_out_of_fold(
    X: Any,
    y: Any,
    *,
    privileged: Any = None,
    example: Any = None,
    sample_weight: Any = None,
    method: str = "pi-transition",
    folds: int = 5,
    share: float = 1.0,
    random_state: int = 0,
    parameters: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: bool = False,
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Predict class probabilities for the example of each label, out of fold.

    Parameters
    ----------
    X, y, privileged, example, sample_weight
        As for `PrivilegedClassifier.fit`; y is multi-class.
    method : str
        Name of the method.
    folds : int
        Number of folds; the examples of each are predicted by a model trained on the others.
    share : float
        Share of the examples of the other folds to train on; the samples of smaller shares are parts of larger ones.
    random_state : int
        Seed for folds, samples and models.
    parameters : mapping, optional
        Parameters of `PrivilegedClassifier`.
    jobs : int
        Number of networks to train in parallel, with joblib.
    progress : bool
        Whether to show progress.

    Returns
    -------
    p : ndarray, [labels, classes]
        Class probabilities, equal for all labels of an example.
    classes : ndarray
        The classes, sorted.

    Examples
    --------
    >>> from lupi.datasets import load_digits_annotated
    >>> digits = load_digits_annotated()
    >>> A = digits.privileged[["annotator"]]
    >>> p, classes = predict_out_of_fold(
    ...     digits.X_train, digits.y_train, privileged=A, folds=2, parameters={"epochs": 5}
    ... )
    >>> p.shape, bool((classes[p.argmax(1)] == digits.gold_train).mean() > 0.5)
    ((1000, 10), True)
    """
    classes, label = np.unique(np.asarray(y), return_inverse=True)
    group = number_examples(example, len(label))
    examples = len(np.unique(group))
    if not 2 <= folds <= examples:
        raise ValueError(f"Expected `folds` to be from 2 to {examples}, the number of examples, but got {folds}.")

    def predict(train: NDArray[np.intp], test: NDArray[np.intp], seed: int) -> NDArray[np.float64]:
        with one_thread(), warnings.catch_warnings(action="ignore", category=MissingValuesWarning):
            model = PrivilegedClassifier(method, random_state=seed, **(parameters or {}))
            model.fit(
                take_rows(X, train),
                label[train],
                privileged=None if privileged is None else take_rows(privileged, train),
                example=group[train],
                sample_weight=None if sample_weight is None else np.asarray(sample_weight)[train],
            )
            p = np.zeros((len(test), len(classes)))
            p[:, model.classes_] = model.predict_proba(take_rows(X, test))  # no other fold may have a rare class
        return p

    split = [
        (sample_examples(train, group, share, random_state), test)
        for train, test in grouped_folds(group, folds, random_state)
    ]
    calls = [partial(predict, *rows, random_state * folds + fold) for fold, rows in enumerate(split)]
    p = np.empty((len(label), len(classes)))
    with Steps(f"out of fold, {method},", folds, show=progress) as steps:
        for fold, part in run_parallel(calls, jobs):
            p[split[fold][1]] = part
            steps.advance(1, "folds")
    return p, classes


def sample_examples(rows: NDArray[np.intp], group: NDArray[np.int64], share: float, seed: int) -> NDArray[np.intp]:
    """Return the rows of a random share of their examples."""
    if share == 1:
        return rows
    order = np.random.default_rng(seed).permutation(np.unique(group[rows]))
    return rows[np.isin(group[rows], order[: max(2, round(share * len(order)))])]

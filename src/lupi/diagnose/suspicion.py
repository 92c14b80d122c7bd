"""Which labels are likely wrong, without true labels.

A label is suspicious when the model, which has not seen its example, and the example's other labels speak against it,
each annotator's word weighted by how reliable they are; see `lupi.crowd.reliability`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from lupi._internal.progress import Steps
from lupi.crowd.reliability import Inference
from lupi.estimators import PrivilegedClassifier


def out_of_fold(
    X: Any,
    y: Any,
    *,
    privileged: Any = None,
    example: Any = None,
    method: str = "pi-transition",
    folds: int = 5,
    random_state: int = 0,
    parameters: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: bool = False,
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Predict each label's example by a model that was trained on other examples.

    Parameters
    ----------
    X, y, privileged, example
        As for `PrivilegedClassifier.fit`; y is multi-class.
    method : str
        Name of the method.
    folds : int
        Parts that the examples are split into; each is predicted by a model trained on the others.
    random_state : int
        Seed of split and models.
    parameters : mapping, optional
        Parameters of `PrivilegedClassifier`.
    jobs : int
        Trainings at a time, through joblib.
    progress : bool
        Show progress.

    Returns
    -------
    p : ndarray, [labels, classes]
        Probabilities of the classes, equal for the labels of one example.
    classes : ndarray
        The classes, in order.

    Examples
    --------
    >>> from lupi.datasets import load_digits_annotated
    >>> digits = load_digits_annotated()
    >>> p, classes = out_of_fold(digits.X_train, digits.y_train, privileged=digits.privileged[["annotator"]], folds=2,
    ...                          parameters={"epochs": 5})
    >>> p.shape, bool((classes[p.argmax(1)] == digits.gold_train).mean() > 0.5)
    ((1000, 10), True)
    """
    classes, label = np.unique(np.asarray(y), return_inverse=True)
    group = np.arange(len(label)) if example is None else pd.factorize(np.asarray(example), use_na_sentinel=False)[0]
    if not 2 <= folds <= len(np.unique(group)):
        raise ValueError(
            f"Expected `folds` to be from 2 to the number of examples, {len(np.unique(group))}, but got {folds}."
        )
    split = GroupKFold(folds, shuffle=True, random_state=random_state).split(label, groups=group)

    def predict(train: NDArray[np.int64], rest: NDArray[np.int64], seed: int) -> NDArray[np.float64]:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # small networks are faster so, and jobs do not get into each other's way
        try:
            model = PrivilegedClassifier(method, random_state=seed, **(parameters or {}))
            model.fit(
                _rows(X, train),
                label[train],
                privileged=None if privileged is None else _rows(privileged, train),
                example=None if example is None else group[train],
            )
            p = np.zeros((len(rest), len(classes)))
            p[:, model.classes_] = model.predict_proba(_rows(X, rest))  # a rare class may be in no other fold
        finally:
            torch.set_num_threads(threads)
        return p

    work = [(train, rest, random_state * folds + fold) for fold, (train, rest) in enumerate(split)]
    parts = joblib.Parallel(n_jobs=jobs, return_as="generator")(joblib.delayed(predict)(*part) for part in work)
    p = np.empty((len(label), len(classes)))
    with Steps(f"out of fold, {method},", folds, show=progress) as steps:
        for (_, rest, _), part in zip(work, parts, strict=True):
            p[rest] = part
            steps.advance(1, "folds")
    return p, classes


def suspicious_labels(found: Inference, classes: Any = None) -> pd.DataFrame:
    """List labels, the most suspicious first.

    Parameters
    ----------
    found : Inference
        From `lupi.crowd.reliability.infer`.
    classes : array, optional
        Names of the classes; by default their numbers.

    Returns
    -------
    DataFrame
        row, the label's place in the data; label; probable, the most probable label; wrong, the probability that the
        label is wrong given the model, all labels of the example and the annotators' reliability.

    Examples
    --------
    >>> from lupi.crowd.reliability import infer
    >>> p = np.array([[0.9, 0.1]] * 4 + [[0.2, 0.8]] * 4)
    >>> table = suspicious_labels(infer(p, [0, 0, 1, 0, 1, 1, 1, 1]), ["no", "yes"])
    >>> table[["row", "label"]].head(1)
       row label
    0    2   yes
    """
    v = found.votes
    names = np.arange(v.classes) if classes is None else np.asarray(classes)
    if names.shape != (v.classes,):
        raise ValueError(f"Expected `classes` to be {v.classes} names, but got shape {list(names.shape)}.")
    # One annotator has nobody to be told apart from: then their own label says nothing of itself.
    right = found.right if v.annotators > 1 else found.others[np.arange(len(v.label)), v.label]
    table = pd.DataFrame(
        {
            "row": np.arange(len(v.label)),
            "label": names[v.label],
            "probable": names[found.truth.argmax(1)[v.example]],
            "wrong": 1 - right,
        }
    )
    return table.sort_values("wrong", ascending=False, kind="stable", ignore_index=True)


def _rows(table: Any, rows: NDArray[np.int64]) -> Any:
    """Take rows of a table of pandas or polars, of an array, tensor or list."""
    if isinstance(table, pd.DataFrame | pd.Series):
        return table.iloc[rows]
    return np.asarray(table, dtype=object)[rows] if isinstance(table, list) else table[rows]

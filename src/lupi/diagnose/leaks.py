"""Which privileged columns give the label away.

Honest privileged information says how a label came about: who gave it, how long it took. By itself it tells little of
the label; it tells more beside the input. A leak is the answer: a copy or a recoding of the label, true labels, another
model's answers. A network that can read the label there need not learn from the inputs.

A column alone predicts held-out labels by the frequencies of labels beside each of its values. A value that no other
example has predicts no more than no value, so that an id of its own for each row or example cannot seem to leak.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

if TYPE_CHECKING:
    Column: TypeAlias = pd.Series[Any]

Floats = NDArray[np.float64]

MOST_BINS = 100
"""Bins of numbers; a bin has about twenty rows or more."""
COPY = 0.8
"""A column that alone explains so much of the label is a copy of it."""
ANSWER = 0.2
"""One that alone explains so much, and more than all inputs do, knows the answer."""
GIVEN = 0.9
"""A column that beside the inputs explains so much of what they leave open settles the label."""


class Alone(NamedTuple):
    """What a column alone says of held-out labels."""

    losses: Floats
    """−log q(y | a) of each row."""
    share: float
    """Share of the label that it explains: 1 − loss / loss without it, at least 0."""
    known: float
    """Share of the rows whose value other examples have too."""


def alone(column: Column, kind: str, y: NDArray[np.int64], example: NDArray[Any], *, folds: int = 5) -> Alone:
    """Predict held-out labels from one column alone.

    Parameters
    ----------
    column : Series
        The column; a missing value is a value.
    kind : "number" or "category"
        Numbers are binned.
    y : array of int
        Codes of the labels; two-dimensional where there are several targets, whose losses are summed.
    example : array
        Ids of examples: those of one example are held out together.
    folds : int
        Parts of the examples; each is predicted by the others.

    Examples
    --------
    >>> y = np.arange(100) % 2
    >>> copy, row = pd.Series(np.where(y, "yes", "no")), pd.Series([f"row {i}" for i in range(100)])
    >>> round(alone(copy, "category", y, np.arange(100)).share, 2), alone(row, "category", y, np.arange(100)).share
    (0.98, 0.0)
    """
    codes = value_codes(column, kind)
    losses, without, known = np.zeros(len(codes)), np.zeros(len(codes)), np.zeros(len(codes), bool)
    split = list(GroupKFold(folds, shuffle=True, random_state=0).split(codes, groups=example))
    for target in y.reshape(len(y), -1).T:
        values, classes = int(codes.max()) + 1, int(target.max()) + 1
        for train, rest in split:
            cell = codes[train] * classes + target[train]
            counts = np.bincount(cell, minlength=values * classes).reshape(values, classes)
            share = (counts.sum(0) + 1) / (len(train) + classes)
            q = (counts[codes[rest]] + share) / (counts[codes[rest]].sum(1, keepdims=True) + 1)
            losses[rest] -= np.log(q[np.arange(len(rest)), target[rest]])
            without[rest] -= np.log(share[target[rest]])
            known[rest] = counts.sum(1)[codes[rest]] > 0
    return Alone(losses, max(0.0, 1 - float(losses.mean() / without.mean())), float(known.mean()))


def value_codes(column: Column, kind: str, bins: int | None = None) -> NDArray[np.int64]:
    """Number the values of a column, or the bins of its numbers; a missing value has a number too.

    Examples
    --------
    >>> value_codes(pd.Series(["b", None, "b"]), "category").tolist()
    [0, 1, 0]
    """
    if kind == "number":
        bins = bins or max(10, min(MOST_BINS, len(column) // 20))
        if column.nunique() > bins:
            column = pd.qcut(column.rank(), bins, labels=False, duplicates="drop")
    return pd.factorize(column, use_na_sentinel=False)[0].astype(np.int64)


def leak(own: float, given: float, beats_inputs: bool) -> str:
    """Say how a column gives the label away: "copy", "answer", "settles" or, where it does not, "".

    Parameters
    ----------
    own : float
        Share of the label that it explains alone.
    given : float
        Share of what the inputs leave open that it explains beside them.
    beats_inputs : bool
        Whether it alone predicts the labels better than the inputs do.

    Examples
    --------
    >>> leak(0.99, 0.9, True), leak(0.4, 0.3, True), leak(0.0, 0.95, False), leak(0.05, 0.1, False)
    ('copy', 'answer', 'settles', '')
    """
    if own >= COPY:
        return "copy"
    if own >= ANSWER and beats_inputs:
        return "answer"
    return "settles" if given >= GIVEN else ""


def advice(column: str, how: str, own: float) -> str:
    """Say what a leak is and what to do about it.

    Examples
    --------
    >>> advice("gold", "copy", 0.99)
    "Column 'gold' gives the label away (alone it explains 99 % of it): leave it out, `--ignore gold`, since a network \
that can read the label there need not learn from the inputs."
    """
    if how == "copy":
        return (
            f"Column {column!r} gives the label away (alone it explains {100 * own:.0f} % of it): leave it out, "
            f"`--ignore {column}`, since a network that can read the label there need not learn from the inputs."
        )
    if how == "answer":
        return (
            f"Column {column!r} alone predicts the labels better than all inputs do, as true labels or another "
            f"model's answers would: unless you know why, leave it out, `--ignore {column}`."
        )
    return (
        f"Column {column!r} beside the inputs settles the label, as a note whether the label is right would: unless "
        f"you know why, leave it out, `--ignore {column}`."
    )

"""Find privileged columns that leak the label.

Genuine privileged information describes how a label was made: who gave it, how long it took. On its own it is hardly
informative about the label, but together with the input it is more so. A leak contains the answer itself: a copy or a
recoding of the label, a true label, or the answer of another model. A network that can read the label from a column
need not learn from the inputs.

To measure how well a column predicts held-out labels on its own, the frequencies of labels for each of its values are
used. A value that occurs in no other example falls back to the frequencies in the whole column, so an id that is unique
to a row or an example does not look like a leak.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi._internal.arrays import Floats
from lupi.tabular.grouping import Rows
from lupi.tabular.values import as_bytes

MOST_BINS = 100
"""Maximum number of bins of a numeric column; a bin has about twenty rows or more."""
COPY = 0.8
"""A column that explains this share of the label on its own is a copy of the label."""
ANSWER = 0.2
"""A column that explains this share of the label on its own, and more than all inputs, contains the answer."""
GIVEN = 0.9
"""A column that explains this share of what the inputs leave open settles the label."""


class Alone(NamedTuple):
    """How well a column on its own predicts held-out labels."""

    losses: Floats
    """−log q(y | a) of each row."""
    share: float
    """Share of the label that the column explains: 1 − loss / loss without it, at least 0."""
    known: float
    """Share of rows whose value also occurs in other examples."""


def predict_alone(codes: NDArray[np.int64], y: NDArray[np.int64], split: Sequence[tuple[Rows, Rows]]) -> Alone:
    """Predict held-out labels from the numbered values of a single column."""
    losses, without, known = np.zeros(len(codes)), np.zeros(len(codes)), np.zeros(len(codes), bool)
    for target in y.reshape(len(y), -1).T:
        values, classes = int(codes.max()) + 1, int(target.max()) + 1
        for train, test in split:
            cell = codes[train] * classes + target[train]
            counts = np.bincount(cell, minlength=values * classes).reshape(values, classes)
            share = (counts.sum(0) + 1) / (len(train) + classes)
            q = (counts[codes[test]] + share) / (counts[codes[test]].sum(1, keepdims=True) + 1)
            losses[test] -= np.log(q[np.arange(len(test)), target[test]])
            without[test] -= np.log(share[target[test]])
            known[test] = counts.sum(1)[codes[test]] > 0
    return Alone(losses, max(0.0, 1 - float(losses.mean() / without.mean())), float(known.mean()))


def classify_leak(alone: float, given: float, beats_inputs: bool) -> str:
    """Return how a column leaks the label: "copy", "answer", "settles", or "" if it does not."""
    if alone >= COPY:
        return "copy"
    if alone >= ANSWER and beats_inputs:
        return "answer"
    return "settles" if given >= GIVEN else ""


def code_values(column: "pd.Series[Any]", kind: str, bins: int | None = None) -> NDArray[np.int64]:
    """Number the values of a column, or the bins of a numeric column; missing values get a separate number."""
    if kind == "number":
        bins = bins or max(10, min(MOST_BINS, len(column) // 20))
        if column.nunique() > bins:
            column = pd.qcut(column.rank(), bins, labels=False, duplicates="drop")
    return pd.factorize(as_bytes(column), use_na_sentinel=False)[0].astype(np.int64)

"""Split annotations into folds without splitting an example."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from lupi.tabular.lazy import Columns

Rows = NDArray[np.intp]


def number_examples(example: Any, rows: int) -> NDArray[np.int64]:
    """Number examples by first appearance; by default each row is an example."""
    if example is None:
        return np.arange(rows)
    return pd.factorize(np.asarray(example), use_na_sentinel=False)[0].astype(np.int64)


def grouped_folds(example: Any, folds: int, seed: int = 0) -> list[tuple[Rows, Rows]]:
    """Return the training rows and the held-out rows of each fold."""
    group = number_examples(example, len(example))
    return list(GroupKFold(folds, shuffle=True, random_state=seed).split(group, groups=group))


def take_rows(table: Any, rows: Rows) -> Any:
    """Select rows of a pandas or polars table, `Columns`, an array, a tensor or a list."""
    if isinstance(table, pd.DataFrame | pd.Series | Columns):
        return table.take(rows)
    return np.asarray(table, dtype=object)[rows] if isinstance(table, list) else table[rows]

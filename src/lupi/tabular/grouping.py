"""Which rows are labels of the same example: find and check them, and split or sample by whole examples."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold

from lupi.tabular.frames import Columns, Frame
from lupi.tabular.values import Column, RowNumbers, as_bytes, is_coded

Rows = NDArray[np.intp]
MOST_LABELS, FEW_VALUES = 20, 20
"""Every row is an example if there are on average more than `MOST_LABELS` rows per distinct input and no input has more
than `FEW_VALUES` distinct values."""


def group_equal_inputs(inputs: Frame) -> tuple[NDArray[np.int64] | None, list[str]]:
    """Number the examples of rows without ids: rows with equal inputs are labels of one example.

    This is the rule of all commands, with one exception. If there are more than `MOST_LABELS` rows per distinct input,
    and no input has more than `FEW_VALUES` distinct values, different examples probably have equal inputs, and every
    row is an example. The columns are read one by one, and take memory for a hash of each row.
    """
    hashes = hash_rows(inputs)
    ordered = np.sort(hashes)  # needs less memory than `factorize`
    rows, different = len(ordered), 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if rows <= different:
        return None, []
    if rows > MOST_LABELS * different and all(
        as_bytes(inputs[name]).nunique() <= FEW_VALUES for name in inputs.columns
    ):
        return None, [
            f"The {rows:,} rows have only {different:,} different inputs, so every row counts as an example; if rows "
            "with equal inputs are labels of one example, name a column of ids in `example`."
        ]
    return pd.factorize(hashes)[0].astype(np.int64), [
        f"The {rows:,} rows have {different:,} different inputs, and without `example` rows with equal inputs count as "
        "labels of one example; if they are different examples, name a column of ids in `example`."
    ]


def hash_rows(inputs: Frame, names: Collection[str] | None = None) -> NDArray[np.uint64]:
    """Hash each row. 1 and 1.0 are equal, since tables may store the same number as either."""
    total = np.zeros(len(inputs), np.uint64)
    for name in inputs.columns if names is None else names:
        column = as_bytes(inputs[name])
        if column.dtype.kind in "biuf":
            column = column.astype(float) + 0.0  # -0.0 becomes 0.0
        total *= np.uint64(0x9E3779B97F4A7C15)
        total += pd.util.hash_pandas_object(column, index=False).to_numpy()
    return total


def check_examples(
    ids: NDArray[np.object_] | Column, inputs: NDArray[np.generic] | Frame, rows: RowNumbers | None = None
) -> list[str]:
    """Check that every row has an id, and that rows with equal ids have equal inputs.

    A value may be missing in some rows of an example: notes say so, and `fill_missing` fills it in.
    """
    numbers = range(len(ids)) if rows is None else rows
    codes, _ = pd.factorize(ids)
    if (codes < 0).any():
        raise ValueError(
            f"Expected `example` to have an id in every row, but row {numbers[int(codes.argmin())]} has none."
        )
    first = np.flatnonzero(~pd.Series(codes).duplicated())[codes]
    named = [(None, inputs)] if isinstance(inputs, np.ndarray) else inputs.items()
    notes = []
    for name, column in named:
        if isinstance(column, pd.Series):
            filled = take_known(column, codes)
            count = int(column.isna().sum() - filled.isna().sum())
            which = f"{count:,} rows" if count > 1 else "1 row"
            if count:
                notes.append(f"In {which} without {name!r}, the value of another row of the same example is used.")
            column = filled.cat.codes if is_coded(filled) else as_bytes(filled)
        row = find_difference(np.asarray(column), first)
        if row is None:
            continue
        where = "" if name is None else f" in {name!r}; a column that describes the label is `privileged`"
        example = np.asarray(ids[row : row + 1]).item()
        raise ValueError(
            "Expected rows with equal `example` ids to have equal inputs, but "
            f"rows {numbers[first[row]]} and {numbers[row]} of example {example!r} differ{where}."
        )
    return notes


def fill_missing(frame: Frame, ids: Any, names: Collection[str]) -> Frame:
    """Fill in values of the given columns that some rows of an example lack but others have."""
    codes, _ = pd.factorize(ids)
    if isinstance(frame, Columns):
        return frame.map(lambda column: take_known(column, codes) if column.name in names else column)
    return frame.assign(**{name: take_known(frame[name], codes) for name in names})


def take_known(column: Column, codes: NDArray[np.intp]) -> Column:
    """Replace missing values with the first known value of the same example, if there is one."""
    missing = column.isna().to_numpy()
    if not missing.any() or missing.all():
        return column
    known = np.flatnonzero(~missing)[::-1]
    source = np.full(codes.max() + 1, -1)
    source[codes[known]] = known  # the first row of each example is written last
    rows = np.where(missing & (source[codes] >= 0), source[codes], np.arange(len(column)))
    return column.iloc[rows].set_axis(column.index)


def note_repetitions(example: NDArray[np.int64], annotator: Column) -> list[str]:
    """Return a note on labels of examples that their annotators had labelled before."""
    who, names = pd.factorize(annotator)
    votes = pd.Series((example * len(names) + who)[who >= 0])
    count = int(votes.duplicated().sum())
    if not count:
        return []
    return [
        f"{count:,} of {len(who):,} labels {'is' if count == 1 else 'are'} by an annotator who had labelled the same "
        "example before; each counts like the label of another annotator, so leave out those that are copies."
    ]


def find_difference(values: NDArray[np.generic], first: NDArray[np.int64]) -> int | None:
    """Return the first row i of `values` that differs from row `first[i]`; missing values are equal."""
    missing = np.asarray(pd.isna(values))
    if values.dtype == object:
        values = np.where(missing, np.nan, values)  # pd.NA == "a" is neither true nor false
    equal = (values == values[first]) | (missing & missing[first])
    differs = ~equal.reshape(len(equal), -1).all(axis=1)
    return int(differs.argmax()) if differs.any() else None


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


def sample_rows(example: Rows, size: int, seed: int = 0) -> Rows:
    """Sample whole examples with at most `size` rows in total, and return their rows in the order of the table.

    Examples are added in random order until the next one would not fit. There is at least one.
    """
    codes, _ = pd.factorize(example)
    counts = np.bincount(codes)
    order = np.random.default_rng(seed).permutation(len(counts))
    fitting = int(np.searchsorted(np.cumsum(counts[order]), size, side="right"))
    return np.flatnonzero(np.isin(codes, order[: max(1, fitting)]))

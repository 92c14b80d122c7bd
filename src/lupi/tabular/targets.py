"""Check labels, soft labels, weights and true labels, choose the task, and find rows without a label.

Messages count rows from 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from lupi.tabular.frames import EXACT, Frame
from lupi.tabular.values import Column, as_text, is_number

MAX_CLASSES = 100
"""A target with more distinct integers is a quantity, unless the user chooses the task."""
FEW_ROWS = 50
"""Integers with fewer rows each, on average, are probably quantities rather than classes, if there are many."""
TASKS = ("classification", "regression")
SCALES = ("nominal", "ordinal")
MAX_GRADES = 25
"""A target of more distinct integers is probably no rating scale."""
ROUNDING = 0.01
"""Largest allowed difference between a sum of probabilities and 1, since files may hold only a few digits."""


def choose_task(frame: pd.DataFrame, target: Sequence[str], task: str | None, *, soft: bool = False) -> tuple[str, str]:
    """Check the target columns, and choose classification or regression.

    A target of numbers is a quantity if some are not integers or if there are more than `MAX_CLASSES` distinct ones.
    `soft` targets are class probabilities.
    """
    if task not in (None, *TASKS):
        raise ValueError(f"Expected `task` to be one of {', '.join(TASKS)}, but got {task!r}.")
    for name in target:
        check_target(frame[name], binary=len(target) > 1 and not soft)
    if soft:
        check_probabilities(frame[list(target)], "the targets, which are `soft`,")
        if task == "regression":
            raise ValueError("Expected `soft` targets for classification, but `task` is 'regression'.")
        return "classification", f"the targets are probabilities of {len(target)} classes"
    for name in target:
        if frame[name].nunique() < 2:
            got = as_text(frame[name].iloc[0])
            raise ValueError(f"Expected target {name!r} to have at least two values, but all are {got!r}.")
    if len(target) > 1:
        if task == "regression":
            raise ValueError(f"Expected one target for regression, but got {len(target)}.")
        return "classification", f"{len(target)} targets of 0 and 1"
    column = frame[target[0]]
    if task == "regression" and not is_numeric_dtype(column.dtype):
        raise ValueError(
            f"Expected target {target[0]!r} to be numbers for regression, but got {as_text(column.iloc[0])!r}."
        )
    if task == "classification" and is_number(column) and not (column % 1 == 0).all():
        got = as_text(column[column % 1 != 0].iloc[0])
        raise ValueError(f"Expected target {target[0]!r} to be names or integers for classification, but got {got!r}.")
    if task is not None:
        return task, "as `task` says"
    if not is_number(column):
        return "classification", "the target holds names"
    if not (column % 1 == 0).all():
        return "regression", "the target holds real numbers"
    count = column.nunique()
    return "regression" if count > MAX_CLASSES else "classification", f"the target holds {count} distinct integers"


def note_quantity(column: Column) -> list[str]:
    """Return a note if classes are many integers with few rows each, such as ages, which are probably quantities."""
    count = column.nunique()
    rows = column.count() / count
    if not is_number(column) or count <= 20 or rows >= FEW_ROWS:
        return []
    average = f"{rows:.0f} row{'' if rows < 1.5 else 's'} on average"
    return [
        f"Each of the {count} distinct integers of target {column.name!r} is a class, with {average}; if they are "
        "numbers to predict, set `task` to 'regression'."
    ]


def note_scale(column: Column) -> list[str]:
    """Return a note if classes are a few integers, which may be grades of a rating scale."""
    if not is_number(column) or not 3 <= column.nunique() <= MAX_GRADES:
        return []
    grades = f"the integers from {column.min():g} to {column.max():g} of target {column.name!r}"
    return [
        f"If {grades} are grades of a rating scale, set `scale` to 'ordinal', so that their order counts; 'nominal' "
        "turns this note off."
    ]


def order_grades(labels: NDArray[Any], scale: str | Sequence[Any]) -> tuple[NDArray[Any], bool]:
    """Return the classes that sorted labels have on a scale, and whether they are grades in order.

    A scale is one of `SCALES`, or a list of all grades in order.
    """
    if isinstance(scale, str) and scale in SCALES:
        if scale == "ordinal" and labels.dtype.kind not in "iuf":
            got = f"{as_text(labels[0])!r}: list the grades in order instead"
            raise ValueError(f"Expected labels to be numbers with `scale` 'ordinal', but got {got}.")
        return labels, scale == "ordinal"
    grades = None if isinstance(scale, str) or not isinstance(scale, Sequence) else np.asarray(list(scale))
    if grades is None or len(grades) < 2 or pd.Index(grades).has_duplicates:
        known = f"one of {', '.join(SCALES)}, or a list of different grades in order"
        raise ValueError(f"Expected `scale` to be {known}, but got {scale!r}.")
    for label in labels[~pd.Index(labels).isin(grades)]:
        raise ValueError(f"Expected `scale` to list the grades in order, but it has no {as_text(label)!r}.")
    return grades, True


def split_scale(scale: str, classes: Sequence[Any]) -> str | list[Any]:
    """Split the comma-separated grades of a scale, which are of the type of the classes."""
    if scale in SCALES or "," not in scale:
        return scale
    named = {as_text(label): label for label in classes}
    whole = all(isinstance(label, int | np.integer) for label in classes)
    names = [name.strip() for name in scale.split(",")]
    return [named.get(name, int(name) if whole and name.lstrip("-").isdigit() else name) for name in names]


def note_spellings(column: Column) -> list[str]:
    """Return a note if classes differ only in case or spaces, which is often a mistake."""
    seen: dict[str, str] = {}
    for name in sorted(map(as_text, column.unique())):
        other = seen.setdefault(" ".join(name.split()).casefold(), name)
        if other != name:
            what = "differ only in case or spaces; if they mean the same, give them one name"
            return [f"Classes {other!r} and {name!r} {what}."]
    return []


def check_target(column: Column, *, binary: bool, of: str = "") -> None:
    """Raise a `ValueError` unless a target has a value in every row, 0 or 1 if `binary`; `of` names the table."""
    missing = column.isna().to_numpy()
    if missing.any():
        row = column.index[int(np.argmax(missing))]
        raise ValueError(f"Expected target {column.name!r}{of} to have a value in every row, but row {row} has none.")
    infinite = np.isinf(column.to_numpy(np.float64)) if is_number(column) else missing
    if infinite.any():
        row = column.index[int(np.argmax(infinite))]
        raise ValueError(f"Expected target {column.name!r}{of} to be finite, but row {row} is infinite.")
    wrong = ~column.isin([0, 1]).to_numpy()
    if binary and wrong.any():
        place = int(np.argmax(wrong))
        got = f"{as_text(column.iloc[place])!r} in row {column.index[place]}"
        raise ValueError(f"Expected several targets to be 0 or 1, but {column.name!r}{of} has {got}.")


def find_unlabelled(labels: pd.DataFrame, *, classes: bool) -> NDArray[np.bool_]:
    """Return which rows have no label: all of their targets are missing or, for a single target of classes, −1.

    −1 means unlabelled only if all other labels are non-negative integers of at least two classes. Among names or other
    negative numbers, or in {−1, 1}, it is a class.
    """
    missing = np.asarray(labels.isna().all(axis=1))
    column = labels.iloc[:, 0]
    if not classes or labels.shape[1] > 1 or not is_number(column):
        return missing
    values = column.to_numpy(np.float64, na_value=np.nan)
    others = np.unique(values[~missing & (values != -1)])
    counts = len(others) > 1 and np.isfinite(others).all() and (others >= 0).all() and (others % 1 == 0).all()
    return missing | (values == -1) if counts else missing


def code_gold(gold: Any, classes: Sequence[Any] | NDArray[Any]) -> NDArray[np.float64]:
    """Return true labels as class numbers: NaN where missing, −1 where they are not among the classes."""
    numbers = {as_text(name): number for number, name in enumerate(classes)}
    coded = pd.Series(np.asarray(gold, dtype=object)).map(
        lambda value: numbers.get(as_text(value), -1), na_action="ignore"
    )
    return coded.to_numpy(np.float64)


def check_gold(table: Frame, gold: str, target: Sequence[str], task: str, *, soft: bool) -> tuple[str, list[str]]:
    """Check a column of true labels; return a sentence that says how many there are, and notes on it."""
    if task != "classification" or (len(target) > 1 and not soft):
        got = "several targets" if len(target) > 1 else task
        raise ValueError(f"Expected a single target of classes for `gold`, but got {got}.")
    classes = list_classes(table, target, soft=soft)
    values = table[gold]
    codes = code_gold(values, classes)
    if not (codes >= 0).any():
        got = min(map(as_text, values.dropna()), default="no value")
        raise ValueError(f"Expected `gold` to have labels such as {min(map(as_text, classes))!r}, but got {got!r}.")
    strange = sorted({as_text(value) for value in values[codes == -1]} - {"-1"})
    choice = f"True labels: {gold}, known in {(codes >= 0).sum():,} of {len(codes):,} rows."
    if not strange:
        return choice, []
    return choice, [f"Some true labels, such as {strange[0]!r}, are no labels of the target and are not learned from."]


def list_classes(table: Frame, target: Sequence[str], *, soft: bool) -> list[Any]:
    """Return the classes of a target, sorted, or the names of several targets."""
    return list(target) if soft or len(target) > 1 else list(np.unique(np.asarray(as_classes(table[target[0]]))))


def as_classes(column: Column) -> Column:
    """Return classes that are numbers as integers; missing labels, which are left out, had made them floats."""
    if not is_number(column) or column.isna().any() or (column % 1 != 0).any():
        return column
    exact = column.abs().max() <= EXACT or column.dtype.kind != "f"
    return column.astype(np.uint64 if column.max() > np.iinfo(np.int64).max else np.int64) if exact else column


def check_weights(weights: Column, what: str) -> NDArray[np.float64]:
    """Return weights as an array; raise a `ValueError` unless they are finite, non-negative and not all zero."""
    try:
        values = weights.to_numpy(np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected {what} to be numbers, but got {weights.dtype}.") from error
    wrong = ~(np.isfinite(values) & (values >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        got = f"row {weights.index[place]} has {values[place]}"
        raise ValueError(f"Expected {what} to be finite and not negative, but {got}.")
    if not values.any():
        raise ValueError(f"Expected {what} to be greater than zero in some row, but all are zero.")
    return values


def check_probabilities(labels: pd.DataFrame, what: str) -> NDArray[np.float64]:
    """Return probabilities, [rows, classes], normalized; raise a `ValueError` unless rows sum to one up to rounding."""
    if labels.shape[1] < 2:
        raise ValueError(f"Expected {what} to have a column for each class, but got 1 column.")
    try:
        p = labels.to_numpy(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"Expected {what} to be probabilities, but some are no numbers.") from error
    if (p < 0).any():
        row, column = np.argwhere(p < 0)[0]
        got = f"{p[row, column]:g} in row {labels.index[row]}, column {labels.columns[column]!r}"
        raise ValueError(f"Expected {what} to be probabilities, but got {got}.")
    total = p.sum(1, keepdims=True)
    wrong = ~(np.abs(total[:, 0] - 1) <= ROUNDING)
    if wrong.any():
        place = int(wrong.argmax())
        got = f"row {labels.index[place]} sums to {total[place, 0]:.4g}"
        raise ValueError(f"Expected rows of {what} to be probabilities that sum to one, but {got}.")
    return np.asarray(p / total)

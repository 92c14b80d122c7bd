"""Check the arguments of an estimator. Messages name the row, column or parameter that is wrong."""

import warnings
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from sklearn.utils.validation import check_array

from lupi.tabular import soft_labels
from lupi.tabular.containers import as_pandas
from lupi.tabular.examples import check_examples
from lupi.tabular.frames import as_frame
from lupi.tabular.kinds.vector import holds_vectors
from lupi.tabular.lazy import Columns, Frame
from lupi.tabular.notation import note_notation
from lupi.tabular.recognizing import (
    LISTS,
    check_privileged,
    find_annotator,
    note_privileged,
    recognize_input,
    recognize_privileged_column,
)
from lupi.tabular.roles import check_name
from lupi.tabular.targets import find_unlabelled
from lupi.tabular.values import code_categories, is_coded, is_number

ADVICE = {"identifier": "leave it out, or pass it as `example` or `privileged`", "truth": "leave it out"}
"""Advice for users of an estimator on columns that cannot be inputs."""
KINDS = ("number", "category", "text", "vector")


def check_length(name: str, length: int, expected: int) -> None:
    """Check that an argument has as many rows as X."""
    if length != expected:
        raise ValueError(f"Expected `{name}` to have {expected} rows as X has, but got {length}.")


def check_widths(name: str, widths: Any, count: int | None = None) -> None:
    """Check a sequence of layer widths."""
    listed = isinstance(widths, Sequence | np.ndarray) and count in (None, len(widths))
    if not (listed and all(isinstance(width, Integral) and int(width) > 0 for width in widths)):
        what = f"{count} positive integers" if count else "a sequence of positive integers"
        raise ValueError(f"Expected `{name}` to be {what}, but got {widths!r}.")


def check_index(X: Any, **others: Any) -> None:
    """Check that pandas tables and columns of the same length have the same index as X."""
    tables = (pd.DataFrame, pd.Series)
    for name, other in others.items():
        if not (isinstance(X, tables) and isinstance(other, tables) and len(X) == len(other)):
            continue
        if not X.index.equals(other.index):
            i = int(np.argmax(X.index != other.index))
            left, right = to_python(X.index[i]), to_python(other.index[i])
            raise ValueError(
                f"Expected X and `{name}` to have the same index, but row {i} is {left!r} in X and {right!r} in "
                f"`{name}`."
            )


def read_labels(y: Any) -> Any:
    """Return y as `read_targets` does, except that dictionary-encoded strings become a pandas categorical."""
    return pd.Categorical(y) if isinstance(y, pd.Series) and is_coded(y) else read_targets(y)


def read_targets(y: Any) -> NDArray[Any]:
    """Return y as an array. Labels may be missing."""
    y = as_pandas(y)
    if isinstance(y, pd.Series | pd.DataFrame):
        y = y.to_numpy()  # scikit-learn would turn nullable integers and booleans into floats
    return np.asarray(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y"))


def number_classes(y: NDArray[Any] | pd.Categorical) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the sorted classes, and the class number of each label."""
    if not isinstance(y, pd.Categorical):
        classes, codes = np.unique(y, return_inverse=True)
        return classes, codes.astype(np.int64)
    used = np.flatnonzero(np.bincount(y.codes, minlength=len(y.categories)))
    number = np.zeros(len(y.categories), np.int64)
    classes, number[used] = np.unique(np.asarray(y.categories, dtype=object)[used], return_inverse=True)
    return classes, number[y.codes]


def find_labelled(y: NDArray[Any] | pd.Categorical, *, classes: bool) -> NDArray[np.bool_]:
    """Return which rows have a label; raise a `ValueError` if none has, or if a label is incomplete or infinite."""
    table = pd.DataFrame(y)
    labelled = ~find_unlabelled(table.convert_dtypes() if y.dtype == object else table, classes=classes)
    if not labelled.any():
        raise ValueError(f"Input y contains NaN. Expected y to have labels, but all {len(y)} are missing.")
    missing = np.asarray(pd.isna(y)).reshape(len(y), -1) & labelled[:, np.newaxis]
    infinite = np.isinf(y).reshape(len(y), -1) if y.dtype.kind == "f" else np.zeros_like(missing)
    if (missing | infinite).any():
        row, column = np.argwhere(missing | infinite)[0]
        what = "NaN" if missing[row, column] else "infinity"  # the wording that `check_estimator` looks for
        raise ValueError(f"Input y contains {what} in row {row}.")
    return labelled


def recognize_inputs(inputs: NDArray[Any] | Frame, kind: Mapping[str, str] | None) -> dict[str, str]:
    """Return the kinds of input columns for `InputEncoder`; reject identifiers, true labels and lists."""
    frame = inputs if isinstance(inputs, Frame) else as_frame(inputs, "x", "X")
    expanded = {name.rpartition("[")[0] for name in frame.columns}
    chosen = {
        str(name): value for name, value in (kind or {}).items() if value != "vector" or str(name) not in expanded
    }
    for name, value in chosen.items():
        if value not in KINDS:
            raise ValueError(f"Expected `kind` of column {name!r} to be one of {KINDS}, but got {value!r}.")
        check_name(name, list(frame.columns), "kind", "X")
        dtype = frame[name].dtype
        numeric = is_numeric_dtype(dtype)
        if value == "vector" or (value == "number" and not numeric) or (value == "text" and numeric):
            raise ValueError(f"Expected column {name!r} to be one that can be read as {value}, but it is {dtype}.")
    for name in frame.columns:
        if name not in chosen:
            column = frame[name]
            known = is_categorical(frame, column)
            chosen[name] = "category" if known else recognize_input(column, stored_as(column), ADVICE)
            if not known and stored_as(column) == "string":
                warn_of_notation(note_notation(column, "Input column"))
    return chosen


def warn_of_notation(notes: list[str]) -> None:
    """Warn of a column of numbers or dates that are written in another notation."""
    for note in notes:
        warnings.warn(note, stacklevel=5)


def is_categorical(frame: Frame, column: "pd.Series[Any]") -> bool:
    """Return whether a column is categorical by the user's choice; in `Columns`, that type is used for strings."""
    return isinstance(frame, pd.DataFrame) and isinstance(column.dtype, pd.CategoricalDtype)


def stored_as(column: "pd.Series[Any]") -> str:
    """Return the family of a column's data type, as `lupi.tabular.columns.stored_as` does for Arrow."""
    if is_number(column):
        return "number"
    return "boolean" if is_bool_dtype(column.dtype) else "string"


def check_values(frame: Frame, what: str) -> Frame:
    """Return the frame; raise a `ValueError` that names a column whose values are lists, arrays or dicts."""

    def check(column: "pd.Series[Any]") -> "pd.Series[Any]":
        if column.dtype == object and len(known := column.dropna()):
            got = type(known.iloc[0])
            if issubclass(got, list | tuple | dict | np.ndarray) and not holds_vectors(column):
                wrong = f"{got.__name__}s{LISTS}"
                raise ValueError(f"Expected {what} {column.name!r} to have one value per row, but got {wrong}.")
        return column

    if isinstance(frame, Columns):
        return frame.map(check)
    for name in frame.columns:
        check(frame[name])
    return frame


def choose_numbers(
    privileged: Frame, numbers: str | Mapping[str, str], annotator: str | int | None
) -> str | Mapping[str, str]:
    """Return the parameter `numbers` of `PrivilegedEncoder`, including columns of text; reject identifiers.

    Columns that `numbers` names, categorical columns of a DataFrame and the column of annotators are not recognized.
    """
    named = {str(name): value for name, value in numbers.items()} if isinstance(numbers, Mapping) else {}
    texts = {}
    for place, (name, column) in enumerate(privileged.items()):
        known = is_number(column) or is_categorical(privileged, column) or holds_vectors(column)
        if known or name in named or annotator in (name, place):
            continue
        kind = recognize_privileged_column(column)
        check_privileged(column, kind, f"leave it out, or pass `numbers={{{name!r}: 'category'}}` to use it")
        warn_of_notation(note_privileged(column, kind))
        if kind == "text":
            texts[str(name)] = kind
    if not texts:
        return numbers
    if isinstance(numbers, str) and numbers != "quantile":  # which is the default of a mapping
        named = {str(name): numbers for name, column in privileged.items() if is_number(column)}
    return named | texts


def check_weights(weights: Any, n: int) -> NDArray[np.float64] | None:
    """Return `sample_weight` as an array of n weights, or None."""
    if weights is None:
        return None
    values = np.asarray(as_pandas(weights))
    if values.ndim != 1:
        raise ValueError(f"Expected `sample_weight` to be one number per row, but got shape {list(values.shape)}.")
    check_length("sample_weight", len(values), n)
    return soft_labels.check_weights(pd.Series(values), "`sample_weight`")


def check_probabilities(y: NDArray[Any]) -> NDArray[np.float64]:
    """Return soft labels, [rows, classes]."""
    if y.ndim != 2:
        raise ValueError(f"Expected y to have a column for each class with `soft`, but got shape {list(y.shape)}.")
    return soft_labels.check_probabilities(pd.DataFrame(y), "y")


def to_python(value: Any) -> Any:
    """Convert a numpy scalar to a Python object, whose repr does not show the type."""
    return value.item() if isinstance(value, np.generic) else value


def find_examples(example: Any, inputs: NDArray[Any] | Frame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first row of each example in X, and the example of each row."""
    ids = example if isinstance(example, pd.Series) else np.asarray(example)
    ids = ids[:, 0] if ids.ndim == 2 and ids.shape[1] == 1 else ids
    if ids.ndim != 1:
        raise ValueError(f"Expected `example` to be one column of ids, but got shape {list(ids.shape)}.")
    check_length("example", len(ids), inputs.shape[0])
    check_examples(ids, inputs)
    codes, _ = pd.factorize(ids)
    first = np.flatnonzero(~pd.Series(codes).duplicated())
    return first, codes


def find_annotators(
    privileged: Any, annotator: str | int | None, numbers: str | Mapping[str, str]
) -> NDArray[np.int64] | None:
    """Return the number of the annotator of each label, from the given column or the one that has a typical name.

    A missing id counts as one more annotator. The result is None if no column is given or found.
    """
    column = find_annotator_column(privileged, annotator, numbers)
    return None if column is None else code_categories(column)


def find_annotator_column(
    privileged: Any, annotator: str | int | None, numbers: str | Mapping[str, str]
) -> "pd.Series[Any] | None":
    """Return the column of annotators, if there is one."""
    if isinstance(annotator, bool) or not isinstance(annotator, str | Integral | None):
        raise ValueError(f"Expected `annotator` to be the name or number of a column, but got {annotator!r}.")
    if privileged is None:
        if annotator is not None:
            raise ValueError(f"Expected `privileged` to have the `annotator` column {annotator!r}, but got None.")
        return None
    frame = as_frame(privileged)
    name: str | None
    if annotator is None:
        kinds = numbers if isinstance(numbers, Mapping) else {}
        name = find_annotator(frame, {str(column): kind for column, kind in kinds.items()})
        return None if name is None else frame[name]
    name = str(annotator)
    if name not in frame.columns and not isinstance(annotator, str):
        if not 0 <= annotator < frame.shape[1]:
            last = frame.shape[1] - 1
            raise ValueError(f"Expected `annotator` to be a column from 0 to {last}, but got {annotator}.")
        name = frame.columns[int(annotator)]
    check_name(name, list(frame.columns), "annotator", "`privileged`")
    return frame[name]

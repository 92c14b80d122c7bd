"""Check the arguments of `fit`, select the rows to train on, and hold some out.

Messages name the row, column or parameter that is wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array
from torch import Tensor

from lupi import methods
from lupi._internal.checks import check_name
from lupi.crowd.trusted import read_trust
from lupi.data import Annotations
from lupi.tabular import targets
from lupi.tabular.frames import Frame, as_pandas
from lupi.tabular.grouping import check_examples, fill_missing, take_rows
from lupi.tabular.recognizing import find_annotator
from lupi.tabular.values import Column, as_text, code_categories, is_coded


def check_length(name: str, length: int, expected: int) -> None:
    """Check that an argument has as many rows as X."""
    if length != expected:
        raise ValueError(f"Expected `{name}` to have {expected} rows as X has, but got {length}.")


def check_predicts(predicts: Any, method: Any) -> None:
    """Check what a method is to predict."""
    if predicts not in ("truth", "labels"):
        raise ValueError(f"Expected `predicts` to be 'truth' or 'labels', but got {predicts!r}.")
    if predicts == "labels" and isinstance(method, str) and not methods.kind(method).can_predict_labels():
        raise ValueError(f"Expected `predicts` to be 'truth' for method {method!r}, which predicts only true labels.")


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
        comparable = isinstance(X, tables) and isinstance(other, tables) and len(X) == len(other)
        if comparable and not X.index.equals(other.index):
            i = int(np.argmax(X.index != other.index))
            got = f"row {i} is {to_python(X.index[i])!r} in X and {to_python(other.index[i])!r} in `{name}`"
            raise ValueError(f"Expected X and `{name}` to have the same index, but {got}.")


def read_labels(y: Any) -> Any:
    """Return y as `read_targets` does, except that dictionary-encoded strings become a pandas categorical."""
    return pd.Categorical(y) if isinstance(y, pd.Series) and is_coded(y) else read_targets(y)


def read_targets(y: Any) -> NDArray[Any]:
    """Return y as an array. Labels may be missing."""
    y = as_pandas(y)
    if isinstance(y, pd.Series | pd.DataFrame):
        y = y.to_numpy()  # scikit-learn would turn nullable integers and booleans into floats
    return np.asarray(check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=False, input_name="y"))


def find_labelled(y: NDArray[Any] | pd.Categorical, *, classes: bool) -> NDArray[np.bool_]:
    """Return which rows have a label; raise a `ValueError` if none has, or if a label is incomplete or infinite."""
    table = pd.DataFrame(y)
    labelled = ~targets.find_unlabelled(table.convert_dtypes() if y.dtype == object else table, classes=classes)
    if not labelled.any():
        raise ValueError(f"Input y contains NaN. Expected y to have labels, but all {len(y)} are missing.")
    missing = np.asarray(pd.isna(y)).reshape(len(y), -1) & labelled[:, np.newaxis]
    infinite = np.isinf(y).reshape(len(y), -1) if y.dtype.kind == "f" else np.zeros_like(missing)
    if (missing | infinite).any():
        row, column = np.argwhere(missing | infinite)[0]
        what = "NaN" if missing[row, column] else "infinity"  # the wording that `check_estimator` looks for
        raise ValueError(f"Input y contains {what} in row {row}.")
    return labelled


def check_weights(weights: Any, n: int) -> NDArray[np.float64] | None:
    """Return `sample_weight` as an array of n weights, or None."""
    if weights is None:
        return None
    values = np.asarray(as_pandas(weights))
    if values.ndim != 1:
        raise ValueError(f"Expected `sample_weight` to be one number per row, but got shape {list(values.shape)}.")
    check_length("sample_weight", len(values), n)
    return targets.check_weights(pd.Series(values), "`sample_weight`")


def to_python(value: Any) -> Any:
    """Convert a numpy scalar to a Python object, whose repr does not show the type."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True, kw_only=True)
class LabelledRows:
    """The arguments of `fit`, for the selected rows."""

    inputs: Any
    y: Any
    privileged: Any
    example: Any
    weight: NDArray[np.float64] | None
    kept: NDArray[np.bool_]
    """Whether each row of X is selected."""


def select_labelled(
    inputs: Any, y: Any, *, privileged: Any, example: Any, sample_weight: Any, classes: bool
) -> LabelledRows:
    """Check that all arguments have as many rows as X; drop rows without a label, with a warning, or without weight."""
    y = read_labels(y)
    labelled = find_labelled(y, classes=classes)
    check_length("y", len(y), inputs.shape[0])
    if not labelled.all():
        warnings.warn(f"{(~labelled).sum()} of {len(y)} rows have no label and are dropped.", stacklevel=5)
    weight = check_weights(sample_weight, len(y))
    kept = labelled if weight is None else labelled & (weight > 0)
    if not kept.all():
        inputs, y = take_rows(inputs, np.flatnonzero(kept)), y[kept]
        weight = None if weight is None else weight[kept]
        if privileged is not None:
            check_length("privileged", len(privileged), len(kept))
            privileged = privileged.take(np.flatnonzero(kept))
        if example is not None:
            check_length("example", len(example), len(kept))
            example = np.asarray(example)[kept]
    return LabelledRows(inputs=inputs, y=y, privileged=privileged, example=example, weight=weight, kept=kept)


def find_examples(example: Any, inputs: NDArray[Any] | Frame) -> tuple[Any, NDArray[np.int64]]:
    """Return the inputs of each example, and the example of each row."""
    ids = example if isinstance(example, pd.Series) else np.asarray(example)
    ids = ids[:, 0] if ids.ndim == 2 and ids.shape[1] == 1 else ids
    if ids.ndim != 1:
        raise ValueError(f"Expected `example` to be one column of ids, but got shape {list(ids.shape)}.")
    check_length("example", len(ids), inputs.shape[0])
    notes = check_examples(ids, inputs)
    for note in notes:
        warnings.warn(note, stacklevel=6)
    if notes and not isinstance(inputs, np.ndarray):
        inputs = fill_missing(inputs, ids, list(inputs.columns))
    codes, _ = pd.factorize(ids)
    return take_rows(inputs, np.flatnonzero(~pd.Series(codes).duplicated())), codes


def find_annotators(privileged: Frame | None, annotator: str | int | None, kinds: Mapping[str, str]) -> Column | None:
    """Return the column of annotators: the given one, or the first category that has a typical name."""
    if isinstance(annotator, bool) or not isinstance(annotator, str | Integral | None):
        raise ValueError(f"Expected `annotator` to be the name or number of a column, but got {annotator!r}.")
    if privileged is None:
        if annotator is not None:
            raise ValueError(f"Expected `privileged` to have the `annotator` column {annotator!r}, but got None.")
        return None
    found = name_annotator(privileged, annotator) or find_annotator(privileged, kinds)
    return None if found is None else privileged[found]


def name_annotator(privileged: Frame, annotator: str | int | None) -> str | None:
    """Return the name of the column of annotators if a user gives it, by name or, for arrays, by number."""
    if annotator is None:
        return None
    name = str(annotator)
    if name not in privileged.columns and not isinstance(annotator, str):
        if not 0 <= annotator < privileged.shape[1]:
            last = privileged.shape[1] - 1
            raise ValueError(f"Expected `annotator` to be a column from 0 to {last}, but got {annotator}.")
        name = str(privileged.columns[int(annotator)])
    check_name(name, list(privileged.columns), "annotator", "`privileged`")
    return name


def read_gold(
    gold: Any, kept: NDArray[np.bool_], row: NDArray[np.int64], code: Callable[[NDArray[Any]], Tensor], classes: Any
) -> Tensor | None:
    """Return the true label of each example, −1 where it is unknown, or NaN if labels are floating-point."""
    values = read_targets(gold)
    check_length("gold", len(values), len(kept))
    values = values[kept]
    known = pd.DataFrame(values).notna().all(axis=1).to_numpy(copy=True)
    if classes is not None and values.ndim == 1 and -1 not in classes.tolist():
        known[known] = [value != -1 for value in values[known].tolist()]
    if not known.any():
        return None
    coded, examples = code(values[known]), int(row.max()) + 1
    fill = float("nan") if coded.is_floating_point() else -1
    found = torch.full((examples, *coded.shape[1:]), fill, dtype=coded.dtype)
    of = torch.from_numpy(row[known])
    found[of] = coded
    same = (found[of] == coded).reshape(len(coded), -1).all(1).numpy()
    if not same.all():
        place = int(np.flatnonzero(kept)[known][same.argmin()])
        raise ValueError(
            f"Expected `gold` to be the same in all rows of an example, but row {place} differs; rows of different "
            "examples need different ids in `example`."
        )
    return found


def check_trust(trust: Mapping[Any, float], column: Column | None) -> Tensor:
    """Return the trust in each annotator in the order of their numbers, NaN for annotators not in `trust`."""
    if column is None:
        raise ValueError("Expected `privileged` to have a column of annotators for `trust`: name it in `annotator`.")
    first = np.unique(code_categories(column), return_index=True)[1]
    names = ["" if pd.isna(value) else as_text(value) for value in column.iloc[first]]
    named = {as_text(to_python(name)): value for name, value in trust.items()} if isinstance(trust, Mapping) else trust
    return torch.from_numpy(read_trust(named, np.array(names, dtype=object)))


def hold_out(data: Annotations, fraction: float, seed: int) -> tuple[Annotations, Annotations]:
    """Split off a fraction of the examples, each with all of its labels."""
    examples = data.examples
    count = round(examples * fraction)
    if not 0 < count < examples:
        raise ValueError(
            f"Expected `validation_fraction` to hold out examples, but {fraction} of {examples} is {count}."
        )
    order = torch.randperm(examples, generator=torch.Generator().manual_seed(seed))
    held = torch.isin(data.row, order[:count])
    return data.take((~held).nonzero().squeeze(1)), data.take(held.nonzero().squeeze(1))

"""Read out-of-fold predictions of another model from a file."""

from pathlib import Path
from typing import Any

import numpy as np

from lupi._internal.arrays import Floats
from lupi.tabular import TableDataset, TableSpec, read_table


def read_probabilities(path: Path, spec: TableSpec, data: TableDataset) -> Floats:
    """Read class probabilities for the labels of a table, [labels, classes]."""
    if data.task != "classification":
        raise ValueError(f"Expected a single target of classes for `probabilities`, but the task is {data.task}.")
    if spec.soft:
        raise ValueError("Expected a column of labels with `probabilities`, but got `soft` ones.")
    if not path.exists():
        raise FileNotFoundError(f"Expected `probabilities` to be a .npy file, but there is no {path}.")
    try:
        p: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"Expected `probabilities` to be a .npy file of numbers, but could not read {path}."
        ) from error
    if not isinstance(p, np.ndarray) or p.dtype.kind not in "fiu":
        raise ValueError(f"Expected `probabilities` to be a .npy file of numbers, but got {path}.")
    if p.shape != (len(data.rows), len(data.classes)):
        total = read_table(spec.table, list(data.schema.roles.target[:1])).num_rows
        if p.shape != (total, len(data.classes)):
            got = f"shape {list(p.shape)}"
            raise ValueError(f"Expected `probabilities` to be of shape {[total, len(data.classes)]}, but got {got}.")
        p = p[data.rows]
    return check_predictions(p)


def check_predictions(p: Any) -> Floats:
    """Normalize probabilities; raise a `ValueError` unless they are non-negative and rows sum to about one."""
    values = np.asarray(p, dtype=np.float64)
    total = values.sum(1, keepdims=True)
    wrong = ~((values >= 0).all(1) & (np.abs(total[:, 0] - 1) < 0.01))
    if wrong.any():
        row = int(wrong.argmax())
        few = ", ".join(f"{value:.4g}" for value in values[row, :5]) + (", …" if values.shape[1] > 5 else "")
        raise ValueError(
            f"Expected rows of `probabilities` to be from 0 to 1 and to sum to 1, but row {row} is [{few}]."
        )
    return np.asarray(values / total)

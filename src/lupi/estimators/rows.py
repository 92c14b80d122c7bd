"""Select the rows of a training set that have a label and a non-zero weight."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lupi.estimators import arguments
from lupi.tabular.folds import take_rows
from lupi.tabular.frames import as_frame


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
    y = arguments.read_labels(y)
    labelled = arguments.find_labelled(y, classes=classes)
    arguments.check_length("y", len(y), inputs.shape[0])
    if not labelled.all():
        warnings.warn(f"{(~labelled).sum()} of {len(y)} rows have no label and are dropped.", stacklevel=4)
    weight = arguments.check_weights(sample_weight, len(y))
    kept = labelled if weight is None else labelled & (weight > 0)
    if not kept.all():
        inputs, y = take_rows(inputs, np.flatnonzero(kept)), y[kept]
        weight = None if weight is None else weight[kept]
        if privileged is not None:
            privileged = as_frame(privileged)
            arguments.check_length("privileged", len(privileged), len(kept))
            privileged = privileged.take(np.flatnonzero(kept))
        if example is not None:
            arguments.check_length("example", len(example), len(kept))
            example = np.asarray(example)[kept]
    return LabelledRows(inputs=inputs, y=y, privileged=privileged, example=example, weight=weight, kept=kept)

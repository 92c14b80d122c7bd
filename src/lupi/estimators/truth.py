"""Known true labels and trusted annotators, as users pass them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from lupi.crowd.trusted import read_trust
from lupi.estimators.arguments import read_targets, to_python
from lupi.tabular.values import as_text, code_categories


def read_gold(
    gold: Any, kept: NDArray[np.bool_], row: NDArray[np.int64], code: Callable[[NDArray[Any]], Tensor], classes: Any
) -> Tensor | None:
    """Return the true label of each example, −1 where it is unknown, or NaN if labels are floating-point."""
    values = read_targets(gold)
    if len(values) != len(kept):
        raise ValueError(f"Expected `gold` to have {len(kept)} rows as X has, but got {len(values)}.")
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


def check_trust(trust: Mapping[Any, float], column: "pd.Series[Any] | None") -> Tensor:
    """Return the trust in each annotator in the order of their numbers, NaN for annotators not in `trust`."""
    if column is None:
        raise ValueError("Expected `privileged` to have a column of annotators for `trust`: name it in `annotator`.")
    first = np.unique(code_categories(column), return_index=True)[1]
    names = ["" if pd.isna(value) else as_text(value) for value in column.iloc[first]]
    named = {as_text(to_python(name)): value for name, value in trust.items()} if isinstance(trust, Mapping) else trust
    return torch.from_numpy(read_trust(named, np.array(names, dtype=object)))

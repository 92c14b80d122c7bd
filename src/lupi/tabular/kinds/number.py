"""Quantities, which estimators standardize."""

import numpy as np
import pandas as pd

from lupi.tabular.kinds.base import Kind, RowNumbers
from lupi.tabular.values import Column, as_text


class Number(Kind):
    """A quantity; dates and durations count as quantities."""

    name = "number"
    privileged = "quantile"
    may_be_missing = True

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return True

    def clean(self, values: Column, stored: str, rows: RowNumbers) -> Column:
        if stored not in ("string", "number"):
            return values
        numbers = pd.to_numeric(values.astype(object).map(str), errors="coerce") if stored == "string" else values
        numbers = numbers.astype(np.float64) if numbers.dtype == object else numbers
        wrong = ~(np.isfinite(numbers.to_numpy(np.float64, na_value=np.nan)) | values.isna().to_numpy())
        if wrong.any():
            place = int(wrong.argmax())
            got = f"{as_text(values.iloc[place])!r} in row {rows[place]}"
            raise ValueError(f"Expected input column {values.name!r} to be finite numbers, but got {got}.")
        return numbers

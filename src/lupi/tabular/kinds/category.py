"""Names, which estimators one-hot encode."""

import numpy as np
import pandas as pd

from lupi.tabular.kinds.base import Kind, RowNumbers
from lupi.tabular.values import Column, as_text


class Category(Kind):
    """One of a set of names."""

    name = "category"
    privileged = "category"
    may_be_missing = True

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "string"

    def accepts(self, trained: str, stored: str) -> bool:
        return stored in (trained, "string")

    def clean(self, values: Column, stored: str, rows: RowNumbers) -> Column:  # noqa: ARG002
        if isinstance(values.dtype, pd.CategoricalDtype):
            return values  # codes of strings
        codes, distinct = pd.factorize(values)
        names = np.array([*map(as_text, distinct), None], dtype=object)  # a missing value has code −1
        return pd.Series(names[codes], index=values.index, name=values.name, dtype=object)

"""Names, which estimators one-hot encode."""

import pandas as pd

from lupi.tabular.kinds.base import Kind, RowNumbers
from lupi.tabular.values import Column, as_text


class Category(Kind):
    """One of a set of names."""

    name = "category"
    privileged = "category"

    def recognises(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "string"

    def accepts(self, trained: str, stored: str) -> bool:
        return stored in (trained, "string")

    def clean(self, values: Column, stored: str, rows: RowNumbers) -> Column:  # noqa: ARG002
        return pd.Series([as_text(value) for value in values], index=values.index, dtype=object)

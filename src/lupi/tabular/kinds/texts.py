"""Texts, encoded as several features."""

import numpy as np

from lupi.tabular.kinds.base import ColumnEncoder, Kind
from lupi.tabular.text import make_text_encoder
from lupi.tabular.values import Column


class Text(Kind):
    """Strings, most of which have three words or more."""

    name = "text"
    privileged = "text"
    may_be_missing = True
    wants = "strings"

    def recognizes(self, column: Column, stored: str) -> bool:
        if stored != "string":
            return False
        values = [str(value) for value in column.dropna().unique()]
        return len(values) > 20 and bool(np.mean([len(value.split()) >= 3 for value in values[:10_000]]) > 0.5)

    def reads(self, stored: str) -> bool:
        return stored == "string"

    def make_encoder(self, name: str | None, device: str) -> ColumnEncoder | None:
        return make_text_encoder(name, device)

"""Texts, encoded as several features: with TF-IDF or, as ``"text:MODEL"``, with a Hugging Face model."""

import numpy as np

from lupi.tabular.frames import Frame
from lupi.tabular.kinds.base import ColumnEncoder, Encoding, Kind
from lupi.tabular.kinds.embedded import Embedded
from lupi.tabular.text import make_text_encoder
from lupi.tabular.values import Column


class Text(Kind):
    """Strings, most of which have three words or more."""

    name = "text"
    wants = "strings"

    def recognizes(self, column: Column, stored: str) -> bool:
        if stored != "string":
            return False
        values = [str(value) for value in column.dropna().unique()]
        return len(values) > 20 and bool(np.mean([len(value.split()) >= 3 for value in values[:10_000]]) > 0.5)

    def reads(self, stored: str) -> bool:
        return stored == "string"

    def make_encoder(self, device: str) -> ColumnEncoder:
        return make_text_encoder(self.argument, device)

    def encode(self, frame: Frame, columns: list[str], *, privileged: bool, device: str = "auto") -> Encoding:  # noqa: ARG002
        return Embedded(self, columns, self.make_encoder(device)).fit(frame)

"""Columns whose values an encoder turns into several features, such as texts.

Texts are encoded with TF-IDF or, as ``"text:MODEL"``, with a Hugging Face model.
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.tabular.frames import Frame
from lupi.tabular.images import UnreadableImageError
from lupi.tabular.kinds.base import ColumnEncoder, Encoding, Kind
from lupi.tabular.kinds.vector import Features
from lupi.tabular.onnx_graph import OnnxGraph
from lupi.tabular.text_encoders import TfidfEncoder, make_text_encoder
from lupi.tabular.values import Column, check_not_all_missing


class Embedded(Features):
    """The standardized features of an encoder, which encodes every distinct value once."""

    encoder: ColumnEncoder

    def __init__(self, kind: Kind, columns: list[str], encoder: ColumnEncoder) -> None:
        super().__init__(kind, columns)
        self.encoder = encoder

    def fit(self, frame: Frame) -> Self:
        """Fit the encoder, and learn the mean and scale of each feature."""
        known = check_not_all_missing(frame[self.columns[0]]).dropna()
        self.encoder.fit([str(value) for value in known.unique()])
        return super().fit(frame)

    def values(self, column: Column) -> NDArray[Any]:
        return np.asfortranarray(embed(self.encoder, column))

    def read_onnx(self, graph: OnnxGraph) -> str:
        if not isinstance(self.encoder, TfidfEncoder):
            raise self.not_in_onnx()
        return self.encoder.to_onnx(graph, graph.read(self.columns[0], self.kind.name, missing=""))

    def draw(self, rng: np.random.Generator, rows: int) -> dict[str, Any]:
        return {self.columns[0]: self.encoder.draw(rng, rows)} if isinstance(self.encoder, TfidfEncoder) else {}


class EmbeddedKind(Kind):
    """Strings that an encoder turns into several features."""

    def reads(self, stored: str) -> bool:
        return stored == "string"

    @abstractmethod
    def make_encoder(self, device: str) -> ColumnEncoder: ...

    def encode(self, frame: Frame, columns: list[str], *, privileged: bool, device: str = "auto") -> Encoding:  # noqa: ARG002
        return Embedded(self, columns, self.make_encoder(device)).fit(frame)


class Text(EmbeddedKind):
    """Strings, most of which have three words or more."""

    name = "text"
    wants = "strings"

    def recognizes(self, column: Column, stored: str) -> bool:
        if stored != "string":
            return False
        values = [str(value) for value in column.dropna().unique()]
        return len(values) > 20 and bool(np.mean([len(value.split()) >= 3 for value in values[:10_000]]) > 0.5)

    def make_encoder(self, device: str) -> ColumnEncoder:
        return make_text_encoder(self.argument, device)


def embed(encoder: ColumnEncoder, column: Column) -> NDArray[np.float32]:
    """Encode a column; a missing value is an empty text. An error about an unreadable image names its row."""
    codes, distinct = pd.factorize(column)
    values = [str(value) for value in distinct]
    if column.empty or column.isna().any():
        values.append("")  # a missing value has code −1, the last element
    try:
        return np.asarray(encoder.transform(values))[codes]
    except UnreadableImageError as error:
        row = column.index[column.tolist().index(error.path)]
        what = f"Expected column {column.name!r} to name images, but {error.path} in row {row} is none"
        raise ValueError(f"{what}: {error.why}.") from error

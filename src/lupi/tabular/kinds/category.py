"""Names: one feature per name."""

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from lupi.tabular.frames import Frame
from lupi.tabular.kinds.base import Encoding, Kind
from lupi.tabular.onnx_graph import ML, OnnxGraph
from lupi.tabular.values import Column, category_codes, category_labels


class Category(Kind):
    """One of a set of names."""

    name = "category"
    when_missing = "they count as an unseen category"

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "string"

    def accepts(self, trained: str, stored: str) -> bool:
        return stored in (trained, "string")

    def encode(self, frame: Frame, columns: list[str], *, privileged: bool, device: str = "auto") -> Encoding:  # noqa: ARG002
        return OneHot(self, columns).fit(frame)


class OneHot(Encoding):
    """One feature per category seen in training, and one for missing values if there were some."""

    sign: ClassVar[str] = "="

    numbers = 0
    codes = 1
    labels: list[str]
    missing: bool

    def __init__(self, kind: Kind, columns: list[str]) -> None:
        self.kind, self.columns = kind, columns

    def fit(self, frame: Frame) -> Self:
        """Learn the categories of a column."""
        column = frame[self.columns[0]]
        self.labels, self.missing = category_labels(column), bool(column.isna().any())
        return self

    @property
    def width(self) -> int:
        return len(self.labels) + self.missing

    @property
    def features(self) -> list[str]:
        name = self.columns[0]
        return [f"{name}{self.sign}{label}" for label in self.labels] + [f"{name}=missing"] * self.missing

    def code(self, column: Column) -> NDArray[np.signedinteger]:
        """Return the index of the label of each value: the number of labels if it is missing, −1 if it is unseen."""
        return category_codes(column, self.labels)

    def fill(
        self,
        frame: Frame,
        numbers: NDArray[np.floating],  # noqa: ARG002
        codes: NDArray[np.signedinteger],
        first: int,
        none: int,
    ) -> list[str]:
        known = first + np.arange(len(self.labels))
        feature = np.append(known, [first + len(self.labels) if self.missing else none, none]).astype(codes.dtype)
        found = self.code(frame[self.columns[0]])
        codes[:, 0] = feature[found]
        return self.columns if not self.missing and bool((found == len(self.labels)).any()) else []

    def to_onnx(self, graph: OnnxGraph) -> str:
        missing = "" if "" not in self.labels else "(missing)"
        text = graph.read(self.columns[0], self.kind.name, missing=missing)
        categories = [*self.labels, *([missing] if self.missing else [])]
        return graph.apply("OneHotEncoder", text, domain=ML, cats_strings=categories, zeros=1)

    def draw(self, rng: np.random.Generator, rows: int) -> dict[str, Any]:
        values = [*self.labels, "an unseen category", *([None] if self.missing else [])]
        return {self.columns[0]: np.array(values, dtype=object)[rng.integers(len(values), size=rows)]}

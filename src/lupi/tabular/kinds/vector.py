"""Vectors, such as embeddings: several numbers per row, the same number in all rows."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lupi.tabular.frames import Frame
from lupi.tabular.kinds.base import Encoding, Kind
from lupi.tabular.kinds.number import Standard, measure
from lupi.tabular.onnx_graph import OnnxGraph
from lupi.tabular.values import Column, RowNumbers, is_missing, to_vector


class Vector(Kind):
    """Several numbers per row."""

    name = "vector"
    may_be_missing = False
    wants = "lists of numbers"

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "vector"

    def reads(self, stored: str) -> bool:
        return stored in ("vector", "string")

    def accepts(self, trained: str, stored: str) -> bool:  # noqa: ARG002
        return self.reads(stored)

    def encode(self, frame: Frame, columns: list[str], *, privileged: bool, device: str = "auto") -> Encoding:  # noqa: ARG002
        return Vectors(self, columns, privileged=privileged).fit(frame)


class Features(Standard):
    """Several standardized numbers of one column. A missing value has no feature of its own."""

    @abstractmethod
    def values(self, column: Column) -> NDArray[Any]:
        """Return the numbers of each row, [rows, numbers]."""

    def fit(self, frame: Frame) -> Self:
        """Learn the mean and scale of each number."""
        values = self.values(frame[self.columns[0]])
        self.mean = np.empty(values.shape[1])  # for the names
        self.mean, self.scale = measure(values, self.features)
        return self

    @property
    def features(self) -> list[str]:
        return [f"{self.columns[0]}[{i}]" for i in range(self.numbers)]

    def read(self, frame: Frame) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yield the numbers of a column."""
        yield slice(0, self.numbers), self.values(frame[self.columns[0]])

    def fill(
        self, frame: Frame, numbers: NDArray[Any], codes: NDArray[np.signedinteger], first: int, none: int
    ) -> list[str]:
        super().fill(frame, numbers, codes, first, none)
        return []


class Vectors(Features):
    """The numbers of vectors; a missing one counts as the mean, and is refused in inputs."""

    privileged: bool
    length: int

    def __init__(self, kind: Kind, columns: list[str], *, privileged: bool) -> None:
        super().__init__(kind, columns)
        self.privileged, self.length = privileged, -1

    def values(self, column: Column) -> NDArray[Any]:
        rows = stack_vectors(column, column.index, width=self.length, may_be_missing=self.privileged)
        self.length = rows.shape[1]
        return np.asfortranarray(rows)

    def read_onnx(self, graph: OnnxGraph) -> str:
        return graph.read(self.columns[0], self.kind.name, width=self.length)

    def draw(self, rng: np.random.Generator, rows: int) -> dict[str, Any]:
        return {self.columns[0]: list(self.draw_numbers(rng, rows))}


def stack_vectors(column: Column, rows: RowNumbers, *, width: int = -1, may_be_missing: bool = False) -> NDArray[Any]:
    """Return the vectors of a column as an array, [rows, width], or raise a `ValueError` that names a row.

    Every row must have `width` numbers or, if that is negative, as many as the first.
    """
    missing = np.array([is_missing(value) for value in column])
    vectors = [None if absent else to_vector(value) for value, absent in zip(column, missing, strict=True)]
    like = "in training" if width >= 0 else f"row {rows[int(missing.argmin())]} has"
    for row, value, vector in zip(rows, column, vectors, strict=True):
        if vector is None:
            if is_missing(value) and may_be_missing:
                continue
            got = f"row {row} has none" if is_missing(value) else f"row {row} has {str(value)[:50]!r}"
            raise ValueError(f"Expected column {column.name!r} to have a vector of numbers in every row, but {got}.")
        if not len(vector):
            raise ValueError(f"Expected the vectors of column {column.name!r} to have numbers, but row {row} has none.")
        width = len(vector) if width < 0 else width
        if len(vector) != width:
            got = f"row {row} has {len(vector)}"
            raise ValueError(
                f"Expected the vectors of column {column.name!r} to have {width} numbers as {like}, but {got}."
            )
        if not np.isfinite(vector).all():
            wrong = vector[~np.isfinite(vector)][0]
            raise ValueError(f"Expected column {column.name!r} to have finite numbers, but got {wrong} in row {row}.")
    absent = np.full(width, np.nan, np.float32)
    return np.stack([absent if vector is None else vector for vector in vectors])

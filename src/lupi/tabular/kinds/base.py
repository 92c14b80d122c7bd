"""What a kind of column is: how it is recognized, cleaned and encoded."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lupi.tabular.frames import Frame
from lupi.tabular.onnx_graph import OnnxGraph
from lupi.tabular.values import Column


class Encoding(ABC):
    """A fitted encoding of a column, or of adjacent columns of one kind, as numbers and as codes of features.

    A code is the position of a feature that is 1. Instances are saved as JSON and arrays, so attributes are plain.
    """

    kind: "Kind"
    columns: list[str]

    @property
    @abstractmethod
    def numbers(self) -> int:
        """Number of features that are numbers; they come first."""

    @property
    @abstractmethod
    def codes(self) -> int:
        """Number of codes of a row."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of features."""

    @property
    @abstractmethod
    def features(self) -> list[str]:
        """Names of the features."""

    @abstractmethod
    def fill(
        self, frame: Frame, numbers: NDArray[Any], codes: NDArray[np.signedinteger], first: int, none: int
    ) -> list[str]:
        """Write the numbers, [rows, numbers], and codes, [rows, codes], of a table.

        `first` is the position of the first feature, and `none` the code of no feature. Returns the columns with
        missing values that had none in training.
        """

    def to_onnx(self, graph: OnnxGraph) -> str:  # noqa: ARG002
        """Add the operators that encode the columns, and return their features, [rows, width] float32."""
        raise self.not_in_onnx()

    def not_in_onnx(self) -> ValueError:
        """Return the error for columns that ONNX cannot encode."""
        name, kind = self.columns[0], self.kind.name + (":MODEL" if self.kind.argument else "")
        return ValueError(f"Expected columns that an ONNX file can encode, but column {name!r} is of kind {kind!r}.")

    def draw(self, rng: np.random.Generator, rows: int) -> dict[str, Any]:  # noqa: ARG002
        """Draw values of the columns, to compare an ONNX file with the model."""
        return {}


@runtime_checkable
class ColumnEncoder(Protocol):
    """Encode the values of a column as several numeric features."""

    learns: ClassVar[bool]
    """Whether `fit` learns from the values. If not, all rows may be encoded at once, test rows included."""

    def fit(self, values: Sequence[str]) -> Self:
        """Learn from distinct values."""

    def transform(self, values: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features per value."""


class Kind(ABC):
    """A kind of column, for inputs and for privileged information.

    `stored` is the family of a column's data type, as returned by `lupi.tabular.values.stored_as`: boolean, number,
    string, date, duration or vector. `argument` is what users write after a colon, as in ``"text:MODEL"``.
    """

    name: ClassVar[str]
    may_be_privileged: ClassVar[bool] = True
    """Whether privileged columns may be of this kind."""
    may_be_missing: ClassVar[bool] = True
    """Whether values of an input column may be missing."""
    wants: ClassVar[str] = "values"
    """The data types that can be read as this kind, for messages."""
    names_files: ClassVar[bool] = False
    """Whether values are paths of files beside the table."""
    joins: ClassVar[bool] = False
    """Whether adjacent input columns of this kind are encoded together."""
    when_missing: ClassVar[str] = ""
    """What happens to the missing values of an input column that had none in training."""

    argument: str | None

    def __init__(self, argument: str | None = None) -> None:
        self.argument = argument

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        """Return whether an input column with one value per example is of this kind; by default, users choose it."""
        return False

    def reads(self, stored: str) -> bool:
        """Return whether a column with the given type can be read as this kind."""
        return stored != "vector"

    def accepts(self, trained: str, stored: str) -> bool:
        """Return whether a column may have the type `stored` if its type was `trained` in training."""
        return trained == stored or {trained, stored} == {"number", "boolean"}

    def clean(self, column: Column) -> Column:
        """Convert values to the type of this kind, or raise an error that names the row.

        Cleaning a clean column changes nothing.
        """
        return column

    def make_encoder(self, device: str) -> ColumnEncoder | None:  # noqa: ARG002
        """Return an encoder of values as several features, or None if this kind has none."""
        return None

    @abstractmethod
    def encode(self, frame: Frame, columns: list[str], *, privileged: bool, device: str = "auto") -> Encoding:
        """Learn how to encode columns, one or, if the kind `joins`, several."""

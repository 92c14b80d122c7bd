"""The base class of kinds of columns."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol, Self, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.tabular.values import Column

RowNumbers: TypeAlias = Sequence[int] | NDArray[np.int64] | pd.Index


class ColumnEncoder(Protocol):
    """Encode the values of a column as several numeric features."""

    learns: ClassVar[bool]
    """Whether `fit` learns from the values. If not, all rows may be encoded at once, test rows included."""

    def fit(self, values: Sequence[str]) -> Self:
        """Learn from distinct values."""

    def transform(self, values: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features per value."""


class Kind(ABC):
    """A kind of column. The defaults are for a kind that estimators can encode directly.

    `stored` is the family of a column's data type, as returned by `lupi.tabular.columns.stored_as`: boolean, number,
    string, date, duration or vector.
    """

    name: ClassVar[str]
    choosable: ClassVar[bool] = True
    """Whether users may choose this kind for a column."""
    privileged: ClassVar[str | None] = None
    """The encoding of `PrivilegedEncoder` for such a privileged column; None if there is none."""
    may_be_missing: ClassVar[bool] = False
    """Whether values of an input column may be missing."""
    wants: ClassVar[str] = "values"
    """The data types that can be read as this kind, for messages."""
    names_files: ClassVar[bool] = False
    """Whether values are paths of files beside the table; the files are located before `clean`."""

    @abstractmethod
    def recognizes(self, column: Column, stored: str) -> bool:
        """Return whether an input column with one value per example is of this kind."""

    def reads(self, stored: str) -> bool:
        """Return whether a column with the given type can be read as this kind."""
        return stored != "vector"

    def accepts(self, trained: str, stored: str) -> bool:
        """Return whether a column may have the type `stored` if its type was `trained` in training."""
        return trained == stored or {trained, stored} == {"number", "boolean"}

    def clean(self, values: Column, stored: str, rows: RowNumbers) -> "Column | pd.DataFrame":  # noqa: ARG002
        """Convert values for an estimator to one or several columns, or raise an error; `rows` are row numbers."""
        return values

    def make_encoder(self, name: str | None, device: str) -> ColumnEncoder | None:  # noqa: ARG002
        """Return an encoder for such a column, or None if estimators encode it.

        Parameters
        ----------
        name : str or None
            The pretrained model that users chose for columns of this kind.
        device : str
            Device of the model.
        """
        return None

"""The kinds of column: number, boolean, category and text. One class says everything about a kind.

To add a kind, subclass `Kind` and add an instance to `KINDS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Protocol, Self, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.tabular.encoding import Column, as_text
from lupi.tabular.text import make_text_encoder

RowNumbers: TypeAlias = Sequence[int] | NDArray[np.int64]


class ColumnEncoder(Protocol):
    """Turns the values of a column into several numeric features."""

    def fit(self, values: Sequence[str]) -> Self:
        """Learn from distinct values."""

    def transform(self, values: Sequence[str]) -> NDArray[np.float32]:
        """Return one row of features per value."""


class Kind(ABC):
    """A kind of column. The defaults suit a kind that estimators can encode as it is.

    A column is *stored* as one of the families of `lupi.tabular.columns.stored_as`: boolean, number, string, date or
    duration.
    """

    name: ClassVar[str]
    choosable: ClassVar[bool] = True
    """Whether users may choose this kind for a column."""
    privileged: ClassVar[str | None] = None
    """How `PrivilegedEncoder` encodes such a privileged column; None if it cannot."""
    may_be_missing: ClassVar[bool] = False
    """Whether values of an input column may be missing."""

    @abstractmethod
    def recognises(self, column: Column, stored: str) -> bool:
        """Return whether an input column, one value per example, is of this kind."""

    def reads(self, stored: str) -> bool:  # noqa: ARG002
        """Return whether a column that is stored in this way can be read as this kind."""
        return True

    def accepts(self, trained: str, stored: str) -> bool:
        """Return whether a column may be stored in this way when it was stored as `trained` in training."""
        return trained == stored or {trained, stored} == {"number", "boolean"}

    def clean(self, values: Column, stored: str, rows: RowNumbers) -> Column:  # noqa: ARG002
        """Return values for an estimator, or refuse them; `rows` are the numbers of their rows."""
        return values

    def make_encoder(self, text_encoder: str | None, device: str) -> ColumnEncoder | None:  # noqa: ARG002
        """Return an encoder that turns such a column into features, or None if estimators encode it."""
        return None


class Boolean(Kind):
    """True or false."""

    name = "boolean"
    choosable = False
    privileged = "category"
    may_be_missing = True

    def recognises(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "boolean"


class Text(Kind):
    """Strings of which most have three words or more."""

    name = "text"
    privileged = "text"

    def recognises(self, column: Column, stored: str) -> bool:
        if stored != "string":
            return False
        values = [str(value) for value in column.dropna().unique()]
        return len(values) > 20 and bool(np.mean([len(value.split()) >= 3 for value in values[:10_000]]) > 0.5)

    def reads(self, stored: str) -> bool:
        return stored == "string"

    def make_encoder(self, text_encoder: str | None, device: str) -> ColumnEncoder | None:
        return make_text_encoder(text_encoder, device)


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


class Number(Kind):
    """A quantity; dates and durations count as quantities."""

    name = "number"
    privileged = "quantile"
    may_be_missing = True

    def recognises(self, column: Column, stored: str) -> bool:  # noqa: ARG002
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


KINDS: dict[str, Kind] = {kind.name: kind for kind in (Boolean(), Text(), Category(), Number())}
"""All kinds by name, in the order in which they are recognised."""

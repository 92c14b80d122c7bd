"""Quantities: standardized as inputs, and divided into quantile bins as privileged information."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype
from sklearn.preprocessing import StandardScaler

from lupi._internal.sparse_rows import ROWS_AT_ONCE
from lupi.tabular.frames import Frame, to_seconds
from lupi.tabular.kinds.base import Encoding, Kind
from lupi.tabular.kinds.category import OneHot
from lupi.tabular.onnx_graph import OnnxGraph
from lupi.tabular.values import Column, as_numbers, as_text, check_not_all_missing

MAX_BINS = 10
"""Maximum number of bins of a privileged column. A fraction i / q of the training rows lies below edge i of q."""
MAX_NUMBER = 1e36
"""Largest magnitude of a training value; exported models take float32, whose maximum is 3e38."""
MAX_STANDARDIZED = 1e6
"""Standardized values are clipped to ± this number, since larger values make networks overflow."""
MIN_RELATIVE_RANGE = 1e-6
"""A column whose range is below this fraction of its magnitude is shifted before its statistics are computed."""


class Standard(Encoding):
    """Numbers as (x − mean) / sd, 0 where missing; columns with missing values in training get a feature for them."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    missing: NDArray[np.int64]
    """Places of the columns with missing values."""
    texts: list[str]
    """Columns that were strings in training, such as dates."""

    def __init__(self, kind: Kind, columns: list[str]) -> None:
        self.kind, self.columns, self.texts = kind, columns, []
        self.mean, self.scale, self.missing = np.empty(len(columns)), np.empty(len(columns)), np.empty(0, np.int64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if type(self) is Standard and not isinstance(self.kind, Number):
            raise ValueError(f"Expected numbers, but got columns of kind {self.kind.name!r}.")
        if not (
            self.mean.shape == self.scale.shape == (self.numbers,) and set(self.missing) <= set(range(self.numbers))
        ):
            raise ValueError("Expected a mean and a scale for each number, but got others.")

    def fit(self, frame: Frame) -> Self:
        """Learn the means and scales of columns."""
        missing: list[int] = []
        for place, values in self.read(frame):
            absent = np.isnan(values)
            for i in np.flatnonzero(absent.all(0)):
                check_not_all_missing(frame[self.columns[place][i]])
            missing += [int(place.start + i) for i in np.flatnonzero(absent.any(0))]
            self.mean[place], self.scale[place] = measure(values, self.columns[place])
        self.missing = np.array(missing, dtype=np.int64)
        if isinstance(frame, pd.DataFrame):
            self.texts = [name for name in self.columns if not is_numeric_dtype(frame[name].dtype)]
        return self

    @property
    def numbers(self) -> int:
        return len(self.mean)

    @property
    def codes(self) -> int:
        return len(self.missing)

    @property
    def width(self) -> int:
        return len(self.mean) + len(self.missing)

    @property
    def features(self) -> list[str]:
        return [*self.columns, *(f"{self.columns[i]}=missing" for i in self.missing)]

    def read(self, frame: Frame) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Yield the numbers of a table with their columns: all columns of a DataFrame at once, others one by one."""
        assert isinstance(self.kind, Number)
        if isinstance(frame, pd.DataFrame | np.ndarray):
            yield slice(0, len(self.columns)), self.kind.measure(self.read_matrix(frame))
            return
        for place, name in enumerate(self.columns):
            yield slice(place, place + 1), self.kind.measure(as_matrix(self.kind.clean(frame[name]).to_frame()))

    def read_matrix(self, frame: pd.DataFrame | NDArray[Any]) -> NDArray[Any]:
        """Return the numbers of all columns; values that are not finite numbers are refused."""
        if isinstance(frame, np.ndarray):
            if not np.isinf(frame).any():
                return frame
            frame = pd.DataFrame(frame, columns=self.columns)
        part = frame if list(frame.columns) == self.columns else frame[self.columns]
        if all(map(is_numeric_dtype, part.dtypes)) and not np.isinf(values := as_matrix(part)).any():
            return values
        return as_matrix(pd.DataFrame({name: self.kind.clean(part[name]) for name in self.columns}))

    def fill(
        self, frame: Frame, numbers: NDArray[Any], codes: NDArray[np.signedinteger], first: int, none: int
    ) -> list[str]:
        new = []
        for place, values in self.read(frame):
            for start in range(0, len(values), ROWS_AT_ONCE):
                some = slice(start, start + ROWS_AT_ONCE)
                part = standardize(values[some], self.mean[place], self.scale[place])
                absent = np.isnan(part)
                part[absent] = 0
                numbers[some, place] = part + 0.0  # turn −0 into 0
                for number, i in enumerate(self.missing):
                    if place.start <= i < place.stop:
                        feature = first + self.numbers + number
                        codes[some, number] = np.where(absent[:, i - place.start], feature, none)
                new += [int(place.start + i) for i in np.flatnonzero(absent.any(0))]
        return [self.features[i] for i in dict.fromkeys(new) if i not in self.missing]

    def to_onnx(self, graph: OnnxGraph) -> str:
        return self.scale_onnx(graph, self.read_onnx(graph))

    def read_onnx(self, graph: OnnxGraph) -> str:
        """Return the numbers that are standardized, [rows, numbers] float64."""
        if getattr(type(self.kind), "measure", None) is not Number.measure:
            raise self.not_in_onnx()
        axis, kind = graph.constant([1]), self.kind.name
        numbers = [graph.read_number(name, kind, text=name in self.texts) for name in self.columns]
        return graph.apply("Concat", *(graph.apply("Unsqueeze", one, axis) for one in numbers), axis=1)

    def scale_onnx(self, graph: OnnxGraph, numbers: str) -> str:
        """Standardize numbers, and mark missing ones.

        The operator Scaler of ONNX-ML has float32 parameters, which cannot hold a date in seconds.
        """
        absent, zero = graph.apply("IsNaN", numbers), graph.constant(0.0)
        features = graph.apply("Sub", numbers, graph.constant(self.mean))
        features = graph.apply("Where", absent, zero, graph.apply("Div", features, graph.constant(self.scale)))
        features = graph.apply("Clip", features, graph.constant(-MAX_STANDARDIZED), graph.constant(MAX_STANDARDIZED))
        features = graph.cast(features, np.float32)
        if not len(self.missing):
            return features
        marks = graph.cast(graph.apply("Gather", absent, graph.constant(self.missing), axis=1), np.float32)
        return graph.apply("Concat", features, marks, axis=1)

    def draw_numbers(self, rng: np.random.Generator, rows: int) -> NDArray[np.float64]:
        """Draw rows with the mean and scale of training; the first misses every value that was missing there."""
        scale = np.where(np.isinf(self.scale), 0.0, self.scale)  # a constant column stays constant
        numbers = rng.normal(self.mean, scale, size=(rows, self.numbers))
        numbers[0, self.missing] = np.nan
        return numbers

    def draw(self, rng: np.random.Generator, rows: int) -> dict[str, Any]:
        return dict(zip(self.columns, self.draw_numbers(rng, rows).T, strict=True))


class Quantiles(OneHot):
    """Numbers as one feature per quantile bin; the edges are training values, and the outer bins extend to infinity."""

    sign = " in "
    kind: "Number"
    edges: NDArray[np.float64]

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if len(self.labels) != len(self.edges) + 1:
            raise ValueError(f"Expected {len(self.labels) - 1} edges of bins, but got {len(self.edges)}.")

    def fit(self, frame: Frame) -> Self:
        """Learn the edges of the bins; a column with few distinct values has one bin per value."""
        values = self.read(frame[self.columns[0]])
        self.edges, self.missing = find_edges(values, MAX_BINS), bool(np.isnan(values).any())
        bins = [f"[{low}, {high})" for low, high in pairwise(["-inf", *map(as_text, self.edges), "inf"])]
        self.labels = [bins[0].replace("[", "("), *bins[1:]]
        return self

    def read(self, column: Column) -> NDArray[np.float64]:
        """Return a column as numbers, NaN where missing."""
        return np.asarray(self.kind.measure(as_numbers(self.kind.clean(column))))

    def code(self, column: Column) -> NDArray[np.signedinteger]:
        values = self.read(column)
        return np.where(np.isnan(values), len(self.labels), np.searchsorted(self.edges, values, side="right"))


class Number(Kind):
    """A quantity; dates and durations count as quantities, in seconds."""

    name = "number"
    joins = True
    when_missing = "they are replaced by the mean"
    privileged_encoding: ClassVar[type[OneHot] | type[Standard]] = Quantiles
    """How a privileged column is encoded."""

    def recognizes(self, column: Column, stored: str) -> bool:
        return stored in ("number", "date", "duration") or (stored == "string" and holds_dates(column))

    def accepts(self, trained: str, stored: str) -> bool:
        return super().accepts(trained, stored) or {trained, stored} == {"date", "string"}  # a CSV file has no dates

    def clean(self, column: Column) -> Column:
        column = to_seconds(column)
        numbers = column if is_numeric_dtype(column.dtype) else parse_numbers(column)
        values = numbers.to_numpy(np.float64, na_value=np.nan)
        wrong = np.isinf(values) | (np.isnan(values) & column.notna().to_numpy())
        if wrong.any():
            place = int(wrong.argmax())
            got = f"{as_text(column.iloc[place])!r} in row {column.index[place]}"
            raise ValueError(f"Expected column {column.name!r} to be finite numbers, but got {got}.")
        return numbers

    def measure(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return numbers on the scale on which they are encoded; here, their own."""
        return numbers

    def encode(self, frame: Frame, columns: list[str], *, privileged: bool, device: str = "auto") -> Encoding:  # noqa: ARG002
        encoding = self.privileged_encoding if privileged else Standard
        return encoding(self, columns).fit(frame)


class Standardized(Number):
    """A quantity that is standardized as privileged information too. Users choose it; it is never recognized."""

    name = "standardized"
    privileged_encoding = Standard

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return False


class Boolean(Number):
    """True or false."""

    name = "boolean"
    wants = "true or false"
    privileged_encoding = OneHot

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "boolean"

    def reads(self, stored: str) -> bool:
        return stored == "boolean"


def holds_dates(column: Column) -> bool:
    """Return whether strings are dates in ISO format, such as 2026-12-31 or 2026-12-31T10:00:00Z."""
    some = column.dropna().head(1000)
    if not len(some) or not some.astype(str).str.match(r"\d{4}-\d{2}-\d{2}").all():
        return False
    values = pd.Series(column.dropna().unique()).astype(str)
    return bool(parse_dates(values).notna().all())


def parse_numbers(column: Column) -> "pd.Series[float]":
    """Convert strings to numbers, and dates in ISO format to seconds; other values become NaN."""
    text = column.astype(object).map(str)
    numbers = pd.to_numeric(text, errors="coerce").astype(np.float64)
    others = numbers.isna() & column.notna()
    if others.any():
        numbers[others] = to_seconds(parse_dates(text[others]))
    return numbers


def parse_dates(text: Column) -> Column:
    """Convert strings in ISO format to dates, in UTC unless they name a zone; other strings become missing.

    Times without a zone get one, since pandas 2 reads them in the zone of the last row that has one.
    """
    zoned = text.str.replace(r"([T ]\d\d(?::?\d\d){0,2}(?:[.,]\d+)?)$", r"\1Z", regex=True)
    return pd.to_datetime(zoned, format="ISO8601", errors="coerce", utc=True)


def find_edges(values: NDArray[np.float64], quantiles: int) -> NDArray[np.float64]:
    """Return the inner edges of at most `quantiles` bins; they are training values, so no bin is empty."""
    ordered = np.sort(values[~np.isnan(values)])
    edges = np.unique(ordered)
    if len(edges) > quantiles:  # otherwise each value has its own bin
        edges = np.unique(ordered[np.arange(1, quantiles) * len(ordered) // quantiles])
    return np.asarray(edges[edges > ordered[0]])


# -------------------------------------------------------------------------------- standardizing


def as_matrix(frame: pd.DataFrame) -> NDArray[Any]:
    """Return a frame of numbers as an array, without a copy if possible."""
    dtypes = set(frame.dtypes)
    same = len(dtypes) == 1 and isinstance(dtypes.pop(), np.dtype)
    return frame.to_numpy() if same else frame.to_numpy(np.float64, na_value=np.nan)


def find_offset(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the offset to subtract from each column before computing its statistics: 0 unless it is far from zero.

    For numbers far from zero, the rounding error of the mean can exceed the differences between the numbers.
    """
    low, high = np.nanmin(values, 0).astype(np.float64), np.nanmax(values, 0).astype(np.float64)
    return np.where(high - low < MIN_RELATIVE_RANGE * np.maximum(np.abs(low), np.abs(high)), low, 0.0)


def find_too_large(values: NDArray[Any]) -> tuple[int, ...] | None:
    """Return the index of the first number that is too large to standardize, or None."""
    places = np.argwhere(np.abs(values.astype(np.float64, copy=False)) > MAX_NUMBER)
    return tuple(map(int, places[0])) if len(places) else None


def measure(values: NDArray[Any], names: Sequence[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the standard deviation of each column, which is infinite for a constant column."""
    place = find_too_large(values)
    if place is not None:
        raise ValueError(
            f"Expected column {names[place[1]]!r} to be numbers of at most {MAX_NUMBER:g} in size, "
            f"but got {values[place]:g} in row {place[0]}."
        )
    offset = find_offset(values)
    scaler = StandardScaler().fit(values - offset)
    constant = np.nanmax(values, 0) == np.nanmin(values, 0)
    return scaler.mean_ + offset, np.where(constant, np.inf, scaler.scale_)


def standardize(values: NDArray[Any], mean: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (x − mean) / scale in double precision, clipped to ± `MAX_STANDARDIZED`."""
    with np.errstate(over="ignore"):
        features = (values - mean) / scale
    return np.clip(features, -MAX_STANDARDIZED, MAX_STANDARDIZED, out=features)

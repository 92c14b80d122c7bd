"""Encode columns, such as texts, as several numeric columns."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pandas as pd

from lupi.tabular.columns import InputColumn
from lupi.tabular.images import UnreadableImageError
from lupi.tabular.kinds import KINDS, ColumnEncoder
from lupi.tabular.lazy import Columns, Frame, FrameType
from lupi.tabular.text import encode_texts
from lupi.tabular.values import Column, check_not_all_missing


def fit_encoders(
    X: Frame,
    inputs: Mapping[str, InputColumn],
    pretrained: Mapping[str, str | None] | None = None,
    device: str = "cpu",
) -> dict[str, ColumnEncoder]:
    """Fit an encoder for each input column whose kind has one, on the distinct values of X."""
    encoders = {name: make_encoder(column, pretrained, device) for name, column in inputs.items()}
    return {
        name: encoder.fit([str(value) for value in check_not_all_missing(X[name]).dropna().unique()])
        for name, encoder in encoders.items()
        if encoder is not None
    }


def make_encoder(
    column: InputColumn, pretrained: Mapping[str, str | None] | None, device: str = "cpu"
) -> ColumnEncoder | None:
    """Return an unfitted encoder for a column; None if its kind needs none."""
    return KINDS[column.kind].make_encoder((pretrained or {}).get(column.kind), device)


def is_fixed(column: InputColumn, pretrained: Mapping[str, str | None]) -> bool:
    """Return whether a column has an encoder that learns nothing, so that all rows can be encoded before any split."""
    encoder = make_encoder(column, pretrained)
    return encoder is not None and not encoder.learns


def encode_columns(X: FrameType, encoders: Mapping[str, ColumnEncoder]) -> FrameType:
    """Replace each column that has an encoder with its features; every distinct value is encoded once.

    Features are held in memory, even those of `Columns`.
    """
    parts: dict[str, pd.DataFrame] = {}
    for name, encoder in encoders.items():
        column = X[name]
        with explain_images(column):
            rows = encode_texts(encoder, column)
        names = [f"{name}[{i}]" for i in range(rows.shape[1])]
        parts[name] = pd.DataFrame(rows, columns=names, index=column.index)
    if isinstance(X, Columns):
        return X.expand(parts)
    pieces: list[pd.DataFrame] = []
    start = 0
    for place, name in enumerate(X.columns):
        if name in parts:
            pieces += [X.iloc[:, start:place], parts[name]]
            start = place + 1
    return pd.concat([*pieces, X.iloc[:, start:]], axis="columns")


@contextmanager
def explain_images(column: Column) -> Iterator[None]:
    """Turn an error about an unreadable image into one that names its row."""
    try:
        yield
    except UnreadableImageError as error:
        row = column.index[column.tolist().index(error.path)]
        what = f"Expected column {column.name!r} to name images, but {error.path} in row {row} is none"
        raise ValueError(f"{what}: {error.why}.") from error

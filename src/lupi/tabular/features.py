"""Turn columns of one value, such as texts, into several numeric columns."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.tabular.columns import InputColumn
from lupi.tabular.images import Size, UnreadableImageError, read_image
from lupi.tabular.kinds import KINDS, ColumnEncoder
from lupi.tabular.text import encode_texts
from lupi.tabular.values import Column


def fit_encoders(
    X: pd.DataFrame,
    inputs: Mapping[str, InputColumn],
    pretrained: Mapping[str, str | None] | None = None,
    device: str = "cpu",
) -> dict[str, ColumnEncoder]:
    """Fit an encoder for each input column whose kind has one, on the distinct values of X.

    Parameters
    ----------
    X : DataFrame
        Cleaned inputs.
    inputs : mapping
        The input columns.
    pretrained : mapping, optional
        Name or folder of a pretrained model for the columns of a kind; see `TableSpec.pretrained`.
    device : str
        Where encoders compute.

    Examples
    --------
    >>> X = pd.DataFrame({"age": [20, 40], "note": ["good cast", "bad plot"]})
    >>> inputs = {"age": InputColumn("number", "number"), "note": InputColumn("text", "string")}
    >>> list(fit_encoders(X, inputs))
    ['note']
    """
    encoders = {name: make_encoder(column, pretrained, device) for name, column in inputs.items()}
    return {
        name: encoder.fit([str(value) for value in X[name].unique()])
        for name, encoder in encoders.items()
        if encoder is not None
    }


def make_encoder(
    column: InputColumn, pretrained: Mapping[str, str | None] | None, device: str = "cpu"
) -> ColumnEncoder | None:
    """Return an encoder of a column that is not fitted; None if its kind needs none."""
    return KINDS[column.kind].make_encoder((pretrained or {}).get(column.kind), device)


def is_fixed(column: InputColumn, pretrained: Mapping[str, str | None]) -> bool:
    """Return whether a column has an encoder that learns nothing, so that all rows may be encoded before any split.

    Examples
    --------
    >>> is_fixed(InputColumn("text", "string"), {}), is_fixed(InputColumn("text", "string"), {"text": "some/model"})
    (False, True)
    """
    encoder = make_encoder(column, pretrained)
    return encoder is not None and not encoder.learns


def encode_columns(X: pd.DataFrame, encoders: Mapping[str, ColumnEncoder]) -> pd.DataFrame:
    """Replace each column that has an encoder by its features; every distinct value is encoded once.

    Examples
    --------
    >>> X = pd.DataFrame({"age": [20, 40, 60], "note": ["good cast", "bad plot", "good cast"]})
    >>> encoders = fit_encoders(X, {"note": InputColumn("text", "string")})
    >>> list(encode_columns(X, encoders))
    ['age', 'note[0]', 'note[1]']
    """
    parts = []
    for name, column in X.items():
        if name not in encoders:
            parts.append(column.to_frame())
            continue
        with explain_images(column):
            rows = encode_texts(encoders[str(name)], column)
        names = [f"{name}[{i}]" for i in range(rows.shape[1])]
        parts.append(pd.DataFrame(rows, columns=names, index=X.index))
    return pd.concat(parts, axis="columns")


def stack_images(column: Column, size: Size) -> NDArray[np.uint8]:
    """Return the images that a column names, [rows, 3, height, width]; every file is read once."""
    codes, distinct = pd.factorize(column)
    with explain_images(column):
        images = np.stack([read_image(path, size) for path in distinct])
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2)[codes])


@contextmanager
def explain_images(column: Column) -> Iterator[None]:
    """Say which row names a file that is no image."""
    try:
        yield
    except UnreadableImageError as error:
        row = column.index[column.tolist().index(error.path)]
        what = f"Expected column {column.name!r} to name images, but {error.path} in row {row} is none"
        raise ValueError(f"{what}: {error.why}.") from error

"""Turn columns of one value, such as texts, into several numeric columns."""

from collections.abc import Mapping

import pandas as pd

from lupi.tabular.columns import InputColumn
from lupi.tabular.kinds import KINDS, ColumnEncoder
from lupi.tabular.text import encode_texts


def fit_encoders(
    X: pd.DataFrame, inputs: Mapping[str, InputColumn], text_encoder: str | None = None, device: str = "cpu"
) -> dict[str, ColumnEncoder]:
    """Fit an encoder for each input column whose kind has one, on the distinct values of X.

    Parameters
    ----------
    X : DataFrame
        Cleaned inputs.
    inputs : mapping
        The input columns.
    text_encoder : str, optional
        Name or folder of a Hugging Face model for text columns.
    device : str
        Where encoders compute.

    Examples
    --------
    >>> X = pd.DataFrame({"age": [20, 40], "note": ["good cast", "bad plot"]})
    >>> inputs = {"age": InputColumn("number", "number"), "note": InputColumn("text", "string")}
    >>> list(fit_encoders(X, inputs))
    ['note']
    """
    encoders = {name: KINDS[column.kind].make_encoder(text_encoder, device) for name, column in inputs.items()}
    return {
        name: encoder.fit([str(value) for value in X[name].unique()])
        for name, encoder in encoders.items()
        if encoder is not None
    }


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
        rows = encode_texts(encoders[str(name)], column)
        names = [f"{name}[{i}]" for i in range(rows.shape[1])]
        parts.append(pd.DataFrame(rows, columns=names, index=X.index))
    return pd.concat(parts, axis="columns")

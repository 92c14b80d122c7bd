"""What was labelled, to show beside suspicious labels."""

from collections.abc import Mapping

import pandas as pd
import pyarrow as pa

from lupi.tabular import TableSpec, read_table
from lupi.tabular.columns import InputColumn
from lupi.tabular.containers import to_pandas

MOST = 3
"""Number of input columns to show at most."""
TAKEN = ("row", "example", "annotator", "given", "likely", "wrong", "right")


def choose_content(inputs: Mapping[str, InputColumn]) -> list[str]:
    """Choose the input columns that say most about an example: texts first, then in the order of the table, no vectors.

    Examples
    --------
    >>> number, text = InputColumn("number", "number"), InputColumn("text", "string")
    >>> choose_content({"length": number, "pitch": number, "title": text, "year": number})
    ['title', 'length', 'pitch']
    """
    shown = [name for name, column in inputs.items() if column.kind != "vector"]
    return sorted(shown, key=lambda name: inputs[name].kind != "text")[:MOST]


def add_content(labels: pd.DataFrame, spec: TableSpec, inputs: Mapping[str, InputColumn]) -> pd.DataFrame:
    """Add the content of each label's example to a table of labels, whose rows are counted as in the file."""
    names = choose_content(inputs)
    if not names:
        return labels
    table = read_table(spec.table, names, dict.fromkeys(names, pa.string()))
    shown = to_pandas(table).iloc[labels["row"]].reset_index(drop=True)
    return pd.concat([labels, shown.rename(columns={n: f"input_{n}" for n in names if n in TAKEN})], axis="columns")

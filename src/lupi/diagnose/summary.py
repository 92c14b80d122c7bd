"""Format a diagnosis as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from lupi.diagnose.annotators import FEW_LABELS
from lupi.diagnose.diagnosis import Diagnosis


def format_diagnosis(found: Diagnosis, most: int = 8) -> str:
    """Format the verdict, the tops of the tables and the notes.

    Parameters
    ----------
    found : Diagnosis
        From `diagnose`.
    most : int
        Number of annotators and labels to show.
    """
    parts = [found.verdict]
    table = found.information.assign(share=100 * found.information["share"], alone=100 * found.information["alone"])
    table = table.rename(columns={"estimate": "nats", "share": "% of loss", "alone": "% alone", "how": "leak?"})
    shown = table[["column", "nats", "low", "high", "% of loss", "% alone", "leak?"]]
    parts.append(
        f"Information about the label beyond the inputs (held-out loss without it {found.loss:.4f}):\n"
        + format_table(shown, digits=1, precise=("nats", "low", "high"))
    )
    if found.annotators is not None:
        columns = ["annotator", "labels", "agreement", "confidence", "support", "reliability", "low", "high", "flagged"]
        top = found.annotators[found.annotators["labels"] >= FEW_LABELS].head(most)[columns]
        top = top.assign(flagged=np.where(top["flagged"], "yes", ""))
        parts.append(
            f"Annotators with {FEW_LABELS} labels or more, the least supported first:\n{format_table(top, digits=2)}"
        )
    if found.labels is not None:
        parts.append(f"Labels, the most suspicious first:\n{format_table(found.labels.head(most), digits=3)}")
    if found.scores is not None:
        table = found.scores.assign(what=found.scores["of"] + ", " + found.scores["score"])
        wide = table.pivot_table(index="what", columns="estimate", values="value", sort=False, dropna=False)
        parts.append(f"Scored by true labels:\n{format_table(wide.reset_index(), digits=3)}")
    return "\n\n".join([*parts, "\n".join(f"Note: {note}" for note in found.notes)])


def format_table(table: pd.DataFrame, *, digits: int, precise: Sequence[str] = ()) -> str:
    """Format a table as indented text with some decimals, or four in `precise` columns; a missing number is a dash."""

    def format_column(column: pd.Series[Any]) -> pd.Series[Any]:
        decimals = 4 if column.name in precise else digits
        if column.dtype.kind != "f":
            return column
        return column.map(lambda value: "–" if pd.isna(value) else f"{value:.{decimals}f}")

    text = table.apply(format_column).to_string(index=False)
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())

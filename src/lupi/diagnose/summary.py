"""Format a diagnosis as text for a terminal."""

from typing import Any

import numpy as np
import pandas as pd

from lupi.diagnose.findings import Diagnosis
from lupi.diagnose.rankings import FEW_LABELS


def format_diagnosis(diagnosis: Diagnosis, most: int = 8) -> str:
    """Format the verdict, the tops of the tables and the notes.

    Parameters
    ----------
    diagnosis : Diagnosis
        Result of `diagnose`.
    most : int
        Number of annotators and labels to show.
    """
    table = diagnosis.information
    table = table.assign(share=100 * table["share"], alone=100 * table["alone"])
    table = table.rename(columns={"estimate": "nats", "share": "% of loss", "alone": "% alone", "how": "leak?"})
    table = table[["column", "nats", "low", "high", "% of loss", "% alone", "leak?"]]
    precise = dict.fromkeys(["nats", "low", "high"], "{:.4f}".format)
    title = f"Information about the label beyond the inputs (held-out loss without it {diagnosis.loss:.4f}):"
    parts = [diagnosis.verdict, f"{title}\n{format_table(table, digits=1, formatters=precise)}"]
    if diagnosis.annotators is not None:
        columns = ["annotator", "labels", "agreement", "confidence", "support", "reliability", "low", "high", "flagged"]
        top = diagnosis.annotators[diagnosis.annotators["labels"] >= FEW_LABELS].head(most)[columns]
        top = top.assign(flagged=np.where(top["flagged"], "yes", ""))
        title = f"Annotators with {FEW_LABELS} labels or more, the least supported first:"
        parts.append(f"{title}\n{format_table(top, digits=2)}")
    if diagnosis.labels is not None:
        top = diagnosis.labels.loc[:, :"wrong"].head(most)  # the content of examples does not fit into a terminal
        parts.append(f"Labels, the most suspicious first:\n{format_table(top, digits=3)}")
    if diagnosis.scores is not None:
        table = diagnosis.scores.assign(what=diagnosis.scores["of"] + ", " + diagnosis.scores["score"])
        wide = table.pivot_table(index="what", columns="estimate", values="value", sort=False, dropna=False)
        parts.append(f"Scored by true labels:\n{format_table(wide.reset_index(), digits=3)}")
    return "\n\n".join([*parts, "\n".join(f"Note: {note}" for note in diagnosis.notes)])


def format_table(table: pd.DataFrame, *, digits: int, **options: Any) -> str:
    """Format a table as indented text with the given number of decimals; missing numbers become dashes."""
    text = table.to_string(index=False, na_rep="–", float_format=f"{{:.{digits}f}}".format, **options)
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())

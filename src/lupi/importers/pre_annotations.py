"""Send predictions and suspicious labels back to a labelling tool, as an export with pre-annotations.

A table with ids of examples, as `lupi predict` and `lupi diagnose` write, says what to add to them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lupi._internal.files import check_not_input, claim_output, explain_os_errors, write_text
from lupi.importers.base import EXAMPLE, LABEL, Importer, PreAnnotation
from lupi.tabular.formats import read_table
from lupi.tabular.formats.base import explain_unreadable
from lupi.tabular.frames import to_pandas

SEVERAL = f"prediction_{LABEL}_"
"""Start of the names of columns that predict one of several labels."""


def send_back(
    importer: Importer,
    export: Path,
    tables: Sequence[Path],
    output: Path,
    *,
    label: str | None = None,
    overwrite: bool = False,
) -> tuple[int, int]:
    """Write an export with what tables say about its examples; return the numbers of examples with it, and of all."""
    if output.suffix.lower() != ".json":
        raise ValueError(f"Expected `output` to be a .json file, which {importer.name} imports, but got {output}.")
    check_not_input(output, export, *tables)
    found: dict[str, PreAnnotation] = {}
    for table in tables:
        for example, more in read_additions(table).items():
            found[example] = found.get(example, PreAnnotation()) | more
    with explain_unreadable(export):
        records, ids = importer.add(export, found, label=label)
    matched = len({*ids} & found.keys())
    if not matched:
        raise ValueError(
            f"Expected `add` to name examples of {export}, such as {ids[0]!r}, but got {next(iter(found))!r}."
            if ids and found
            else f"Expected {export} and `add` to have examples, but one has none."
        )
    with claim_output(output, overwrite=overwrite), explain_os_errors(output):
        write_text(output, json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    return matched, len(ids)


def read_additions(path: Path) -> dict[str, PreAnnotation]:
    """Read what a table says about examples: predictions, the consensus, or how likely labels are wrong."""
    table = to_pandas(read_table(path))
    names = list(table.columns)
    if EXAMPLE not in names:
        raise ValueError(f"Expected `add` to name tables with a column {EXAMPLE!r}, but {path} has none.")
    several = [name for name in names if name.startswith(SEVERAL)]
    value = "prediction" if "prediction" in names else LABEL if "probability" in names else None
    if not (value or several or "wrong" in names):
        raise ValueError(f"Expected `add` to name tables of predictions, consensus or labels, but got {path}.")
    scores = [name for name in names if name == "probability" or name.startswith("probability_")]
    found = {}
    for example, rows in table.groupby(table[EXAMPLE].astype(str), sort=False):
        first = rows.iloc[0]
        chosen: Any = None if value is None or pd.isna(first[value]) else first[value]
        if several:
            chosen = [name.removeprefix(SEVERAL) for name in several if first[name] == 1]
        wrong = rows["wrong"].max() if "wrong" in names else None
        found[str(example)] = PreAnnotation(
            value=chosen.item() if hasattr(chosen, "item") else chosen,
            score=round(float(first[scores].max()), 6) if scores and not several else None,
            wrong=None if wrong is None or pd.isna(wrong) else round(float(wrong), 6),
        )
    return found

"""Import the exports of labelling tools, one file per tool. To add a tool, write a function and add it to `IMPORTERS`.

An export becomes an `ImportedTable` with one row per label and the facts about each label in privileged columns.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from lupi.importers.argilla import read_argilla
from lupi.importers.base import ImportedTable
from lupi.importers.doccano import read_doccano
from lupi.importers.huggingface import read_huggingface
from lupi.importers.label_studio import read_label_studio
from lupi.importers.prodigy import read_prodigy
from lupi.importers.wide import read_wide
from lupi.tabular.formats.base import explain_unreadable

__all__ = ["ImportedTable", "read_export"]

IMPORTERS: dict[str, Callable[..., ImportedTable]] = {
    "label-studio": read_label_studio,
    "argilla": read_argilla,
    "prodigy": read_prodigy,
    "doccano": read_doccano,
    "wide": read_wide,
    "huggingface": read_huggingface,
}
"""Functions that read exports, by the name of the tool."""


def read_export(tool: str, path: str | Path, **options: Any) -> ImportedTable:
    r"""Read the export of a labelling tool as a table with one row per label.

    Parameters
    ----------
    tool : str
        One of `IMPORTERS`: label-studio, argilla, prodigy, doccano, wide or huggingface.
    path : str or Path
        The export.
    **options : Any
        Options of the importer. `label` names the field of labels if an export has several; "wide" takes `example` and
        `annotators`; "huggingface" takes `label`, `example` and `split`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "wide.csv")
    ...     _ = file.write_text("id,ann,bob\np,1,0\nq,-1,1\n")
    ...     table = read_export("wide", file)
    >>> table.frame["label"].tolist(), table.frame["annotator"].tolist(), table.notes
    ([1, 0, 1], ['ann', 'bob', 'bob'], ['1 of 4 cells have no label.'])
    """
    if tool not in IMPORTERS:
        raise ValueError(f"Expected `tool` to be one of {', '.join(IMPORTERS)}, but got {tool!r}.")
    known = [name for name in inspect.signature(IMPORTERS[tool]).parameters if name != "path"]
    for option in options:
        if option not in known:
            takes = ", ".join(f"`{name}`" for name in known)
            raise ValueError(f"Expected {tool!r} to take the options {takes}, but got `{option}`.")
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected an export, but there is no {path}.")
    with explain_unreadable(path):
        try:
            return IMPORTERS[tool](path, **options)
        except Exception as error:  # a file may hold anything
            if isinstance(error, pa.ArrowException | OSError) or str(error).startswith("Expected "):
                raise
            why = f"{type(error).__name__}: {error}"[:200].removesuffix(".")
            raise ValueError(f"Expected {path} to be what {tool} exports, but got: {why}.") from error

"""Import the exports of labelling tools, one file per tool. To add a tool, subclass `Importer`, and add it here.

An export becomes an `ImportedTable` with one row per label and the facts about each label in privileged columns.
"""

import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa

from lupi.importers.argilla import Argilla
from lupi.importers.base import ImportedTable, Importer
from lupi.importers.doccano import Doccano
from lupi.importers.huggingface import HuggingFace
from lupi.importers.judges import Judges
from lupi.importers.label_studio import LabelStudio
from lupi.importers.prodigy import Prodigy
from lupi.importers.wide import Wide
from lupi.tabular.formats.base import explain_unreadable

__all__ = ["ImportedTable", "read_export"]

IMPORTERS: dict[str, Importer] = {
    importer.name: importer
    for importer in (
        LabelStudio(),
        Argilla(),
        Prodigy(),
        Doccano(),
        Wide(),
        HuggingFace(),
        Judges(),
    )
}
"""Importers by the name of the tool."""


def find_importer(tool: str) -> Importer:
    """Return the importer of a tool."""
    if tool not in IMPORTERS:
        raise ValueError(f"Expected `tool` to be one of {', '.join(IMPORTERS)}, but got {tool!r}.")
    return IMPORTERS[tool]


def read_export(tool: str, path: str | Path, **options: Any) -> ImportedTable:
    r"""Read the export of a labelling tool as a table with one row per label.

    Parameters
    ----------
    tool : str
        One of `IMPORTERS`: label-studio, argilla, prodigy, doccano, wide, huggingface or judges.
    path : str or Path
        The export.
    **options : Any
        Options of the importer. `label` names the question or field of labels, by default the first; "wide" also takes
        `example` and `annotators`; "huggingface" takes `label`, `example` and `split`.

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
    importer = find_importer(tool)
    known = [name for name in inspect.signature(importer.read).parameters if name != "path"]
    for option in options:
        if option not in known:
            takes = ", ".join(f"`{name}`" for name in known)
            raise ValueError(f"Expected {tool!r} to take the options {takes}, but got `{option}`.")
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected an export, but there is no {path}.")
    with explain_unreadable(path):
        try:
            return importer.read(path, **options)
        except Exception as error:  # a file may hold anything
            if isinstance(error, pa.ArrowException | OSError) or str(error).startswith("Expected "):
                raise
            why = f"{type(error).__name__}: {error}"[:200].removesuffix(".")
            raise ValueError(f"Expected {path} to be what {tool} exports, but got: {why}.") from error

"""Read the annotations of a table, and show the contents of its examples.

All that diagnoses know of tables and kinds of columns is in this file.
"""

import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from lupi._internal.arrays import Floats
from lupi._internal.checks import check_integer
from lupi.crowd.agreement import describe_agreement
from lupi.crowd.trusted import read_trust
from lupi.tabular import TableSpec
from lupi.tabular.formats import folder_of, read_table
from lupi.tabular.frames import to_pandas
from lupi.tabular.images import UnreadableImageError, draw_thumbnail
from lupi.tabular.kinds.image import resolve_beside_table
from lupi.tabular.schema import InputColumn
from lupi.tabular.table_data import TableData, read_data
from lupi.tabular.targets import check_probabilities

MOST_INPUTS = 3
"""Maximum number of input columns to show beside a label."""
MOST_PICTURES, SIDE = 48, 96
"""Maximum number of labels to show with images, and the height and width of the images in pixels."""
TAKEN = ("row", "example", "annotator", "given", "likely", "wrong", "right")
"""Columns of the table of labels, which inputs beside them must not have as names."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Source:
    """The table that a problem comes from: what is shown of it beside labels, and facts to record."""

    spec: TableSpec
    inputs: Mapping[str, InputColumn]
    rows: NDArray[np.int64]
    has_ids: bool
    notes: Sequence[str]
    facts: Mapping[str, Any]

    @property
    def shown(self) -> dict[str, str]:
        """The input columns to show and the names to show them by: images, then texts, then others.

        Vectors are not shown, nor are numbers if there are too many columns: some of them would tell nothing.
        """
        kinds = {name: column.kind.partition(":")[0] for name, column in self.inputs.items()}
        dull = {"vector", "number"} if len(kinds) > MOST_INPUTS else {"vector"}
        names = [name for name, kind in kinds.items() if kind not in dull]
        names.sort(key=lambda name: {"image": 0, "text": 1}.get(kinds[name], 2))
        return {name: f"input_{name}" if name in TAKEN else name for name in names[:MOST_INPUTS]}

    def read_content(self, rows: NDArray[np.int64]) -> pd.DataFrame:
        """Return the first inputs of some rows of the table, as text."""
        if not self.shown:
            return pd.DataFrame(index=range(len(rows)))
        table = read_table(self.spec.table, list(self.shown), dict.fromkeys(self.shown, pa.string()))
        return to_pandas(table).iloc[rows].reset_index(drop=True).rename(columns=self.shown)

    def draw_pictures(self, content: pd.DataFrame) -> dict[str, list[str | None]]:
        """Return thumbnails of the first images as data URLs, by column; None where there is no image."""
        images = [shown for name, shown in self.shown.items() if self.inputs[name].kind.startswith("image")]
        return {name: [self.draw_picture(str(path)) for path in content[name].head(MOST_PICTURES)] for name in images}

    def draw_picture(self, name: str) -> str | None:
        """Return a thumbnail of an image that the table names as a data URL; None if the file no longer exists."""
        path = resolve_beside_table(folder_of(self.spec.table), name)
        with suppress(UnreadableImageError):
            if path is not None:
                return f"data:image/jpeg;base64,{base64.b64encode(draw_thumbnail(path, SIDE)).decode()}"
        return None


def read_annotations(
    spec: TableSpec, probabilities: Path | None, sample: int | None, seed: int, device: str
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a `Problem` that a table determines, and a line for each choice made and each note."""
    if sample is not None:
        check_integer("sample", sample, 1)
    table = read_data(spec)
    whole = table.load(device)
    read_trust(spec.trust, np.zeros(0) if whole.annotators is None else np.unique(whole.annotators))
    p = None if probabilities is None else read_probabilities(probabilities, spec, whole)
    data = whole.sample(sample or len(whole), seed)
    schema, notes, sampled = data.schema, list(data.notes), len(data) < len(whole)
    classes = schema.task == "classification" and not schema.several
    if classes:
        notes += describe_agreement(data.y, data.group)
    if spec.soft:
        notes.append("The label of a row is its most probable class: how probable it is does not matter here.")
    inputs, privileged = data.inputs, data.privileged
    assert isinstance(inputs, pd.DataFrame)
    assert isinstance(privileged, pd.DataFrame)
    facts = describe_data(spec, data) | {
        "probabilities": None if probabilities is None else str(probabilities),
        "sample": len(data) if sampled else None,
        "reading": notes,
    }
    fields = {
        "X": inputs.reset_index(drop=True),
        "y": np.asarray(data.classes)[data.y] if classes else data.y,
        "privileged": privileged.reset_index(drop=True),
        "kinds": schema.kinds,
        "example": data.group if data.ids is None else data.ids.to_numpy(),
        "annotator": data.annotators,
        "gold": None if data.gold is None else data.columns[data.gold].reset_index(drop=True),
        "trust": data.trusted,
        "probabilities": None if p is None else p[np.searchsorted(whole.rows, data.rows)],
        "weight": None if data.weight is None else data.columns[data.weight].to_numpy(np.float64),
        "real": schema.task == "regression",
        "grades": data.classes if schema.ordinal else None,
        "source": Source(
            spec=spec,
            inputs=table.schema.inputs,
            rows=data.rows,
            has_ids=data.ids is not None,
            notes=data.notes[:1] if sampled else [],
            facts=facts,
        ),
    }
    return fields, [*data.choices, *(f"Note: {note}" for note in notes)]


def describe_data(spec: TableSpec, data: TableData) -> dict[str, Any]:
    """Return facts about the rows of a table."""
    roles = data.schema.roles
    return {
        "table": str(spec.table),
        "rows": len(data),
        "task": "multi-label" if data.schema.several else data.schema.task,
        "roles": asdict(roles) | {"inputs": len(roles.inputs)},
        "annotator": data.schema.annotator,
        "gold": spec.gold,
        "trust": dict(spec.trust),
        "weight": spec.weight,
        "soft": spec.soft,
        "data": data.digest,
    }


def read_probabilities(path: Path, spec: TableSpec, data: TableData) -> Floats:
    """Read class probabilities for the labels of a table, [labels, classes]."""
    if data.schema.task != "classification" or data.schema.several:
        task = "multi-label" if data.schema.several else data.schema.task
        raise ValueError(f"Expected a single target of classes for `probabilities`, but the task is {task}.")
    if spec.soft:
        raise ValueError("Expected a column of labels with `probabilities`, but got `soft` ones.")
    if not path.exists():
        raise FileNotFoundError(f"Expected `probabilities` to be a .npy file, but there is no {path}.")
    try:
        p: Any = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(
            f"Expected `probabilities` to be a .npy file of numbers, but could not read {path}."
        ) from error
    if not isinstance(p, np.ndarray) or p.dtype.kind not in "fiu":
        raise ValueError(f"Expected `probabilities` to be a .npy file of numbers, but got {path}.")
    if p.shape != (len(data.rows), len(data.classes)):
        total = read_table(spec.table, list(data.schema.roles.target[:1])).num_rows
        if p.shape != (total, len(data.classes)):
            got = f"shape {list(p.shape)}"
            raise ValueError(f"Expected `probabilities` to be of shape {[total, len(data.classes)]}, but got {got}.")
        p = p[data.rows]
    return check_probabilities(pd.DataFrame(p), "`probabilities`")

"""The content of examples, to show next to suspicious labels."""

import base64
from collections.abc import Mapping
from contextlib import suppress

import pandas as pd
import pyarrow as pa

from lupi.tabular import TableSpec, read_table
from lupi.tabular.schema import InputColumn
from lupi.tabular.frames import to_pandas
from lupi.tabular.images import UnreadableImageError, draw_thumbnail
from lupi.tabular.kinds.image import folder_of, resolve_beside_table

MOST = 3
"""Maximum number of input columns to show."""
MOST_PICTURES, SIDE = 48, 96
"""Maximum number of labels to show with images, and the height and width of the images in pixels."""
TAKEN = ("row", "example", "annotator", "given", "likely", "wrong", "right")


def choose_content(inputs: Mapping[str, InputColumn]) -> list[str]:
    """Choose the input columns to show for an example: images first, then texts, then others, but no vectors."""
    shown = [name for name, column in inputs.items() if column.kind != "vector"]
    order = {"image": 0, "text": 1}
    return sorted(shown, key=lambda name: order.get(inputs[name].kind, 2))[:MOST]


def add_content(labels: pd.DataFrame, spec: TableSpec, inputs: Mapping[str, InputColumn]) -> pd.DataFrame:
    """Add the content of each label's example to a table of labels, which has the row numbers of the file."""
    names = choose_content(inputs)
    if not names:
        return labels
    table = read_table(spec.table, names, dict.fromkeys(names, pa.string()))
    shown = to_pandas(table).iloc[labels["row"]].reset_index(drop=True)
    return pd.concat([labels, shown.rename(columns=rename_content)], axis="columns")


def rename_content(name: str) -> str:
    """Return the name for an input column in the table of labels, so that it differs from the columns there."""
    return f"input_{name}" if name in TAKEN else name


def draw_pictures(
    labels: pd.DataFrame, spec: TableSpec, inputs: Mapping[str, InputColumn]
) -> dict[str, list[str | None]]:
    """Return thumbnails of the examples of the most suspicious labels as data URLs, by column of `labels`."""
    pictures: dict[str, list[str | None]] = {}
    for name in choose_content(inputs):
        if inputs[name].kind == "image":
            shown = labels[rename_content(name)].head(MOST_PICTURES)
            pictures[rename_content(name)] = [draw_picture(spec, str(path)) for path in shown]
    return pictures


def draw_picture(spec: TableSpec, name: str) -> str | None:
    """Return a thumbnail of an image that the table names as a data URL; None if the file no longer exists."""
    path = resolve_beside_table(folder_of(spec.table), name)
    with suppress(UnreadableImageError):
        if path is not None:
            return f"data:image/jpeg;base64,{base64.b64encode(draw_thumbnail(path, SIDE)).decode()}"
    return None

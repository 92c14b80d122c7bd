"""Recognize the kinds of columns from their types, names and values. Messages count rows from 0."""

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_bool_dtype

from lupi.tabular.columns import InputColumn, stored_as
from lupi.tabular.examples import hash_rows
from lupi.tabular.kinds import KINDS
from lupi.tabular.kinds.image import holds_images
from lupi.tabular.kinds.vector import holds_vectors, stack_vectors
from lupi.tabular.lazy import Frame
from lupi.tabular.notation import check_notation, note_notation
from lupi.tabular.roles import Roles, check_name
from lupi.tabular.values import ID, Column, is_id, is_number

STORED = ("boolean", "number", "string", "date", "duration", "vector")
"""Families of types that inputs and privileged columns may have."""
FIRST = 10_000
"""Rows that are looked at first, since they often suffice."""
MAX_CATEGORIES = 1_000
"""A column with more distinct strings is an identifier, unless the user chooses its kind."""
LISTS = "; write each of its values, such as the numbers of an embedding, to a column of its own"
"""Advice for columns of lists."""
BYTES = "; text must be UTF-8"
"""Advice for columns of bytes, which may be text in another encoding."""
TRUTH = re.compile(r"(?<![a-z])(gold|(ground)?truth|true[ _.-]?labels?)(?![a-z])", re.IGNORECASE)
"""Names of columns of true labels."""
TABLE_ADVICE = {
    "identifier": "name it in `example`, `privileged` or `ignore`",
    "truth": "name it in `gold` or `ignore`",
    "privileged": "move it from `privileged` to `ignore`",
}
"""Advice on columns of a table that cannot be inputs or privileged information."""


def check_types(schema: pa.Schema, names: Sequence[str], role: str, allowed: Sequence[str]) -> None:
    """Raise a `ValueError` for columns of other types, such as lists."""
    for name in names:
        if (stored := stored_as(schema.field(name).type)) not in allowed:
            families = ", ".join(f"{family}s" for family in allowed if family != "null")
            advice = LISTS if re.search("list|struct|map|vector", stored) else BYTES if "binary" in stored else ""
            raise ValueError(f"Expected {role} column {name!r} to be one of {families}, but it is {stored}{advice}.")


def check_kinds(kinds: Mapping[str, str], names: Sequence[str], roles: Roles) -> None:
    """Raise a `ValueError` unless the user chose known kinds for inputs or privileged columns."""
    choosable = [name for name, kind in KINDS.items() if kind.choosable]
    for column, kind in kinds.items():
        if kind not in choosable:
            raise ValueError(f"Expected `kind` of column {column!r} to be one of {choosable}, but got {kind!r}.")
        check_name(column, names, "kind")
        if column not in (*roles.inputs, *roles.privileged):
            raise ValueError(f"Expected `kind` to name an input or privileged column, but got {column!r}.")


def check_reads(name: str, kind: str, stored: str) -> None:
    """Raise a `ValueError` unless a column with the given type can be read as the given kind."""
    if not KINDS[kind].reads(stored):
        raise ValueError(
            f"Expected column {name!r} to be {KINDS[kind].wants} to be read as {kind}, but it is {stored}."
        )


def recognize_inputs(
    frame: Frame, schema: pa.Schema, roles: Roles, kinds: Mapping[str, str]
) -> tuple[dict[str, InputColumn], list[str]]:
    """Recognize the kinds of input columns, and reject identifiers."""
    first = frame.take(np.flatnonzero(~frame[roles.example].duplicated())) if roles.example else frame
    check_types(schema, roles.inputs, "input", STORED)
    inputs, notes = {}, []
    for name in roles.inputs:
        stored = stored_as(schema.field(name).type)
        kind = kinds.get(name) or recognize_input(first[name], stored, TABLE_ADVICE)
        check_reads(name, kind, stored)
        if name not in kinds and stored == "string":
            notes += note_notation(first[name], "Input column")
        width = None
        if kind == "vector":
            row = first[name].head(1)
            width = stack_vectors(row, row.index).shape[1]
        inputs[name] = InputColumn(kind, stored, width)
    # A single category always tells rows apart. With an example id, nearly unique categories have been rejected.
    several = len(inputs) > 1 and not roles.example
    candidates = [
        name
        for name, column in inputs.items()
        if name not in kinds
        and (pa.types.is_integer(schema.field(name).type) or (several and column.kind == "category"))
    ]
    different = {name: first[name].nunique() for name in candidates}
    largest = max(different.values(), default=0)
    examples = len(first) if roles.example or largest <= 20 else count_distinct(first, inputs, largest / 0.9)
    notes += [
        f"Input column {name!r} has a different value in nearly every example; if it is an id, name it in "
        "`example` or `ignore`."
        for name, n in different.items()
        if n > 20 and n > 0.9 * examples
    ]
    return inputs, notes


def count_distinct(frame: Frame, names: Collection[str], enough: float) -> int:
    """Count the distinct rows of some columns by their hashes; only the first rows if they have more than `enough`."""
    if len(frame) > FIRST and (count := count_distinct(frame.take(np.arange(FIRST)), names, enough)) > enough:
        return count
    return len(pd.unique(hash_rows(frame, names)))


def recognize_input(column: Column, stored: str, advice: Mapping[str, str]) -> str:
    """Recognize the kind of an input column from its values; reject true labels, lists and identifiers."""
    name = str(column.name)
    kind = next(kind.name for kind in KINDS.values() if kind.recognizes(column, stored))
    use = f"pass `kind={{{name!r}: {kind!r}}}` to use it as an input"
    if TRUTH.search(name):
        what = f"{name!r} is named like them: {advice['truth']}, or {use}"
        raise ValueError(f"Expected input columns without true labels, but {what}.")
    if stored == "string" and holds_lists(column):
        got = f"lists such as {str(column.dropna().iloc[0])[:30]!r}"
        what = f"pass `kind={{{name!r}: 'vector'}}` if they are vectors of numbers"
        raise ValueError(f"Expected input column {name!r} to have one value per row, but got {got}; {what}.")
    if kind == "number" and stored == "number" and is_id(column):
        why = "holds integers and is named like an id"
    elif kind == "category":
        values, count = column.count(), column.nunique()
        if count <= max(20, 0.9 * values) and count <= MAX_CATEGORIES:
            return kind
        check_notation(column, "input column", f"{advice['identifier']}, or {use}")
        why = f"has {count:,} distinct strings in {values:,} examples"
        use = use.replace("'category'", "'image'") if holds_images(column) else use
    else:
        return kind
    what = f"{name!r} {why}: {advice['identifier']}, or {use}"
    raise ValueError(f"Expected input columns without identifiers, but {what}.")


def holds_lists(column: Column) -> bool:
    """Return whether strings are lists, such as embeddings in a CSV file."""
    some = [str(value).strip() for value in column.dropna().head(100)]
    return bool(some) and all(re.fullmatch(r"\[[^\]]*[,\s][^\]]*\]", value, re.DOTALL) for value in some)


def recognize_privileged(
    frame: Frame, schema: pa.Schema, roles: Roles, kinds: Mapping[str, str], annotator: str | None = None
) -> tuple[dict[str, str], list[str]]:
    """Recognize the kinds of privileged columns, reject identifiers, and return warnings for the user.

    The column of annotators, if it is given, is always a category.
    """
    check_types(schema, roles.privileged, "privileged", (*STORED, "null"))
    recognized, notes = {}, []
    for name in roles.privileged:
        if name in kinds:
            recognized[name] = kinds[name]
            if KINDS[kinds[name]].privileged is None:
                chosen = f"`kind={{{name!r}: {kinds[name]!r}}}`"
                raise ValueError(f"Expected privileged column {name!r} to be of another kind, but got {chosen}.")
            check_reads(name, kinds[name], stored_as(schema.field(name).type))
            continue
        column = frame[name]
        recognized[name] = recognize_privileged_column(column)
        if name != annotator:
            use = f"{TABLE_ADVICE['privileged']}, or pass `kind={{{name!r}: {recognized[name]!r}}}` to use it"
            check_privileged(column, recognized[name], use)
            notes += note_privileged(column, recognized[name])
        if recognized[name] == "category" and is_number(column):
            notes.append(
                f"Privileged column {name!r} holds integers that look like ids, so each value is a category; "
                f"pass `kind={{{name!r}: 'number'}}` to make it a quantity."
            )
    return recognized, notes


def recognize_privileged_column(column: Column) -> str:
    """Recognize the kind of a privileged column from its name and values; dates and durations are quantities.

    Strings are text if most of them differ and they look like sentences, such as comments of annotators.
    """
    if is_number(column):
        return "category" if is_id(column) else "number"
    if column.dtype.kind in "mM":
        return "number"
    if holds_vectors(column):
        return "vector"
    if is_bool_dtype(column.dtype) or ID.search(str(column.name)):
        return "category"
    return (
        "text" if column.nunique() > column.count() / 2 and KINDS["text"].recognizes(column, "string") else "category"
    )


def check_privileged(column: Column, kind: str, advice: str) -> None:
    """Raise a `ValueError` if a privileged column holds identifiers: strings or ids that are nearly all different."""
    if kind != "category":
        return
    values, count = column.count(), column.nunique()
    if count > max(20, 0.9 * values):
        if not is_number(column):
            check_notation(column, "privileged column", advice)
        why = f"has {count:,} distinct values in {values:,} rows"
        raise ValueError(f"Expected privileged columns without identifiers, but {column.name!r} {why}: {advice}.")


def note_privileged(column: Column, kind: str) -> list[str]:
    """Return a note if the strings of a privileged column are numbers or dates in another notation."""
    strings = kind in ("category", "text") and not (is_number(column) or is_bool_dtype(column.dtype))
    return note_notation(column, "Privileged column") if strings else []


def find_annotator(frame: Frame, kinds: Mapping[str, str]) -> str | None:
    """Find the column of annotators: the first category that has a typical name and repeated values."""
    for name in frame.columns:
        named = ID.search(name) and kinds.get(name, recognize_privileged_column(frame[name])) == "category"
        if named and 1 < frame[name].nunique() <= len(frame) / 2:
            return str(name)
    return None

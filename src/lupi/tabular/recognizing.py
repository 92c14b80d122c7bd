"""Recognize the kinds of columns from their types, names and values, in tables of files and of Python.

Strings that look like numbers or dates in another notation, such as "1,234", "12 kg" or "31.12.2026", are noticed, but
not converted: "1,234" may mean 1234 or 1.234, and "1/2/2026" a day in January or in February.
"""

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_bool_dtype

from lupi._internal.checks import check_name
from lupi.tabular.frames import Frame
from lupi.tabular.grouping import hash_rows
from lupi.tabular.kinds import KINDS, find_kind
from lupi.tabular.kinds.image import holds_images
from lupi.tabular.values import ID, Column, holds_vectors, is_id, is_number, stored_as, stored_in

STORED = ("boolean", "number", "string", "date", "duration", "vector")
"""Families of types that inputs and privileged columns may have."""
MAX_CATEGORIES = 1_000
"""A column with more distinct strings is an identifier, unless the user chooses its kind."""
LISTS = "; write each of its values, such as the numbers of an embedding, to a column of its own"
"""Advice for columns of lists."""
BYTES = "; text must be UTF-8"
"""Advice for columns of bytes, which may be text in another encoding."""
TRUTH = re.compile(r"(?<![a-z])(gold|(ground)?truth|true[ _.-]?labels?)(?![a-z])", re.IGNORECASE)
"""Names of columns of true labels."""
MAX_ROWS = 10_000
"""Number of rows in which other notations are looked for."""
SIGNS = r"[,'’%€$£¥\u00a0\u2009\u202f]|\s[^\W\d]+$"
"""Separators of thousands, signs, and a unit after a space."""
DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d")
TABLE_ADVICE = {
    "identifier": "name it in `example`, `privileged` or `ignore`",
    "truth": "name it in `gold` or `ignore`",
    "privileged": "move it from `privileged` to `ignore`",
}
"""Advice on columns of a file that cannot be inputs or privileged information."""
PYTHON_ADVICE = {
    "identifier": "leave it out, or pass it as `example` or `privileged`",
    "truth": "leave it out",
    "privileged": "leave it out",
}
"""The same for arguments of an estimator."""


def check_types(schema: pa.Schema, names: Sequence[str], role: str, allowed: Sequence[str]) -> None:
    """Raise a `ValueError` for columns of other types, such as lists."""
    for name in names:
        if (stored := stored_as(schema.field(name).type)) not in allowed:
            families = ", ".join(f"{family}s" for family in allowed if family != "null")
            advice = LISTS if re.search("list|struct|map|vector", stored) else BYTES if "binary" in stored else ""
            raise ValueError(f"Expected {role} column {name!r} to be one of {families}, but it is {stored}{advice}.")


def check_kinds(kind: Mapping[str, str], names: Sequence[str], of: str) -> None:
    """Raise a `ValueError` unless users chose known kinds for columns of a table."""
    for column, chosen in kind.items():
        if str(chosen).partition(":")[0] not in KINDS:
            raise ValueError(f"Expected `kind` of column {column!r} to be one of {list(KINDS)}, but got {chosen!r}.")
        check_name(column, names, "kind", of)


def check_reads(name: str, chosen: str, stored: str) -> None:
    """Raise a `ValueError` unless a column with the given type can be read as the kind that a user chose."""
    kind = find_kind(chosen)
    if not kind.reads(stored):
        raise ValueError(f"Expected column {name!r} to be {kind.wants} to be read as {chosen}, but it is {stored}.")


# -------------------------------------------------------------------------------- inputs


def recognize_inputs(
    frame: Frame, kind: Mapping[str, str], advice: Mapping[str, str], stored: Mapping[str, str] | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the kinds of input columns, and notes on them; refuse identifiers, true labels and lists.

    `kind` has the user's choices, and `stored` the types of the columns in a file.
    """
    kinds, notes = {}, []
    for name in map(str, frame.columns):
        chosen = kind.get(name)
        column = frame[name]
        family = stored_in(column) if stored is None else stored[name]
        if chosen is None and stored is None and is_categorical(frame, column):
            chosen = "category"
        if chosen is not None:
            check_reads(name, chosen, family)
        kinds[name] = chosen or recognize_input(column, family, advice)
        if chosen is None and family == "string":
            notes += note_notation(column, "Input column")
    return kinds, notes


def is_categorical(frame: Frame, column: Column) -> bool:
    """Return whether a user made a column of a frame a pandas categorical; in `Columns`, all strings are."""
    return isinstance(frame, pd.DataFrame) and isinstance(column.dtype, pd.CategoricalDtype)


def note_identifiers(first: Frame, candidates: Collection[str], names: Collection[str], *, by_id: bool) -> list[str]:
    """Return notes on input columns that have a different value in nearly every example.

    `first` has a row per example if examples are known `by_id`; otherwise rows with equal inputs are an example.
    """
    different = {name: n for name in candidates if (n := first[name].nunique()) > 20}
    examples = len(first) if by_id or not different else len(pd.unique(hash_rows(first, names)))
    return [
        f"Input column {name!r} has a different value in nearly every example; if it is an id, name it in "
        "`example` or `ignore`."
        for name, n in different.items()
        if n > 0.9 * examples
    ]


def recognize_input(column: Column, stored: str, advice: Mapping[str, str]) -> str:
    """Recognize the kind of an input column from its values; reject true labels, lists and identifiers."""
    name = str(column.name)
    if column.dtype == object and stored not in ("vector", "boolean"):
        check_values(column, "input column")
    kind = next(name for name, one in KINDS.items() if one().recognizes(column, stored))
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


def check_values(column: Column, what: str) -> None:
    """Raise a `ValueError` if the values of a column are lists, arrays or dicts."""
    known = column.dropna()
    got = type(known.iloc[0]) if len(known) else str
    if issubclass(got, list | tuple | dict | np.ndarray):
        wrong = "dicts" if issubclass(got, dict) else "lists"
        raise ValueError(f"Expected {what} {column.name!r} to have one value per row, but got {wrong}{LISTS}.")


# -------------------------------------------------------------------------------- privileged information


def recognize_privileged(
    frame: Frame, kind: Mapping[str, str], advice: Mapping[str, str], annotator: str | None = None
) -> tuple[dict[str, str], list[str]]:
    """Return the kinds of privileged columns, and notes on them; refuse identifiers.

    The column of annotators, if it is given, is always a category.
    """
    kinds, notes = {}, []
    for name in map(str, frame.columns):
        column = frame[name]
        if name in kind:
            if not find_kind(kind[name]).may_be_privileged:
                chosen = f"`kind={{{name!r}: {kind[name]!r}}}`"
                raise ValueError(f"Expected privileged column {name!r} to be of another kind, but got {chosen}.")
            check_reads(name, kind[name], stored_in(column))
            kinds[name] = kind[name]
            continue
        kinds[name] = recognize_privileged_column(column)
        if name != annotator and not is_categorical(frame, column):
            if kinds[name] == "category":
                check_privileged(column, f"{advice['privileged']}, or pass `kind={{{name!r}: 'category'}}` to use it")
            if kinds[name] in ("category", "text") and not (is_number(column) or is_bool_dtype(column.dtype)):
                notes += note_notation(column, "Privileged column")
    return kinds, notes


def note_ids(frame: Frame, kinds: Mapping[str, str], chosen: Collection[str]) -> list[str]:
    """Return notes on privileged integers that were read as categories."""
    return [
        f"Privileged column {name!r} holds integers that look like ids, so each value is a category; "
        f"pass `kind={{{name!r}: 'number'}}` to make it a quantity."
        for name, kind in kinds.items()
        if kind == "category" and name not in chosen and is_number(frame[name])
    ]


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
    if is_bool_dtype(column.dtype):
        return "boolean"
    if ID.search(str(column.name)):
        return "category"
    if column.dtype == object:
        check_values(column, "privileged column")
    if KINDS["number"]().recognizes(column, "string"):
        return "number"
    varied = column.nunique() > column.count() / 2
    return "text" if varied and KINDS["text"]().recognizes(column, "string") else "category"


def check_privileged(column: Column, advice: str) -> None:
    """Raise a `ValueError` if privileged categories are identifiers: strings or ids that are nearly all different."""
    values, count = column.count(), column.nunique()
    if count > max(20, 0.9 * values):
        if not is_number(column):
            check_notation(column, "privileged column", advice)
        why = f"has {count:,} distinct values in {values:,} rows"
        raise ValueError(f"Expected privileged columns without identifiers, but {column.name!r} {why}: {advice}.")


def find_annotator(frame: Frame, kinds: Mapping[str, str]) -> str | None:
    """Find the column of annotators: the first category that has a typical name and repeated values."""
    for name in frame.columns:
        if not ID.search(name):
            continue
        kind = kinds.get(name) or recognize_privileged_column(frame[name])
        if kind in ("category", "boolean") and 1 < frame[name].nunique() <= len(frame) / 2:
            return str(name)
    return None


# -------------------------------------------------------------------------------- other notations


def find_notation(column: Column) -> str | None:
    """Return one of the strings of a column that are nearly all numbers or dates in another notation, or None.

    Columns that are named like ids or annotators are not looked at.
    """
    if ID.search(str(column.name)):
        return None
    values = pd.Series([str(value).strip() for value in column.dropna().head(MAX_ROWS).unique()], dtype=object)
    plain = pd.to_numeric(values, errors="coerce").notna()
    if len(values) < 3 or plain.all():
        return None
    several_units = values.str.extract(r"\s([^\W\d]+)$")[0].nunique() > 1  # they are often part of a name
    numbers = pd.to_numeric(values.str.replace(SIGNS, "", regex=True), errors="coerce")
    days = values.str.split(n=1).str[0].str.rstrip(",")
    dates = [pd.to_datetime(days, format=order, errors="coerce") for order in DATES]
    for read in dates if several_units else [numbers, *dates]:
        if read.notna().mean() > 0.9 and (read.notna() & ~plain).any():
            return str(values[read.notna() & ~plain].iloc[0])
    return None


def note_notation(column: Column, role: str) -> list[str]:
    """Return a note if strings look like numbers or dates in another notation."""
    example = find_notation(column)
    if example is None:
        return []
    return [
        f"{role} {str(column.name)!r} looks like numbers or dates, such as {example!r}, but is read as strings; to use "
        "its values as numbers, write them like 1234.5 or 2026-12-31."
    ]


def check_notation(column: Column, role: str, advice: str) -> None:
    """Raise a `ValueError` if strings look like numbers or dates in another notation; `advice` is for identifiers."""
    example = find_notation(column)
    if example is not None:
        raise ValueError(
            f"Expected {role} {str(column.name)!r} to be plain numbers or ISO dates, but got {example!r}: write them "
            f"like 1234.5 or 2026-12-31 or, if the column is an identifier, {advice}."
        )

"""Notice strings that look like numbers or dates in another notation, such as "1,234", "12 kg" or "31.12.2026".

They are not converted: "1,234" may mean 1234 or 1.234, and "1/2/2026" a day in January or in February.
"""

import pandas as pd

from lupi.tabular.values import ID, Column

MAX_ROWS = 10_000
"""Number of rows that are looked at."""
SIGNS = r"[,'’%€$£¥\u00a0\u2009\u202f]|\s[^\W\d]+$"
"""Separators of thousands, signs, and a unit after a space."""
DATES = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y/%m/%d")


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

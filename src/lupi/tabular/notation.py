"""Recognize strings that are numbers or dates in another notation, such as "1,234", "12 kg" or "31.12.2026".

They are not converted: "1,234" may mean 1234 or 1.234, and "1/2/2026" a day in January or in February.
"""

import re
from dataclasses import dataclass

from lupi.tabular.values import ID, Column

ROWS = 10_000
"""Number of rows that are looked at."""
CURRENCY = "[€$£¥₹]|EUR|USD|GBP|CHF|JPY|CNY|INR"
UNIT = rf"""
    {CURRENCY}|[%‰°]|°[CF]|[mck]?m[²³]?|in|ft|mi|km/h|m/s|mph|kn|[mk]?g|t|lbs?|oz|[mc]?l|[mµn]?s|secs?|seconds?|mins?|
    minutes?|h|hrs?|hours?|days?|weeks?|months?|yrs?|years?|[kMG]?Hz|[kM]?Wh?|[kmM]V|mA|k?J|k?cal|[kKMGT]B|px|dB
"""
"""Units that are recognized; others, as in "100B" and "12 Main", are often part of a name."""
NUMBER = re.compile(
    rf"""
    (?:(?:{CURRENCY})\s?)? [+−-]?
    (?:[1-9]\d{{0,2}}(?P<separator>[,.'’\u00a0\u2009\u202f])\d{{3}}(?:(?P=separator)\d{{3}})*|\d+)  # thousands, or not
    (?:[.,]\d+)?
    (?:\s?(?P<unit>{UNIT}))?
    """,
    re.VERBOSE,
)
"""Groups of digits between plain spaces are not recognized, since they are often phone numbers."""
DAY, MONTH, YEAR = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:0?[1-9]|1[0-2])", r"[12]\d{3}"
TIME = r"(?:,?\s\d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp][Mm])?)?"
DATES = [
    re.compile(order + TIME)
    for order in (
        *(rf"{a}(?:([.-]){b}\1{YEAR}|/{b}/(?:{YEAR}|\d{{2}}))" for a, b in ((DAY, MONTH), (MONTH, DAY))),
        rf"{YEAR}([./]){MONTH}\1{DAY}",
    )
]
"""Dates with the day, the month or the year first; 1.2.10 is rather a version, and 1-2-10 a triple."""


@dataclass(frozen=True)
class Notation:
    """A notation of values: what they look like, an example, what is expected instead, and how to write that."""

    found: str
    example: str
    expected: str
    sample: str


def find_notation(column: Column) -> Notation | None:
    """Return the notation of strings that are nearly all numbers or dates but cannot be read as such, or None.

    All dates of a column must have one order of day and month. Numbers with different units are not recognized, because
    they are often codes, such as "12g" and "12h", nor are columns that are named like ids or annotators.

    Examples
    --------
    >>> import pandas as pd
    >>> notation = find_notation(pd.Series(["12 kg", "7.5 kg", None, "80 kg"]))
    >>> notation.found, notation.example
    ('numbers with separators or units', '12 kg')
    >>> find_notation(pd.Series(["12g", "12h", "13"]))
    """
    if ID.search(str(column.name)):
        return None
    values = [str(value).strip() for value in column.dropna().head(ROWS).unique()]
    dates = [(order, "dates in another notation", "ISO dates", "2026-12-31") for order in DATES]
    for pattern, found, expected, sample in (
        *dates,
        (NUMBER, "numbers with separators or units", "plain numbers", "1234.5"),
    ):
        matches = [match for match in map(pattern.fullmatch, values) if match]
        units = {unit for match in matches if (unit := match.groupdict().get("unit"))}
        example = next((match[0] for match in matches if not is_plain(match[0])), None)
        if example is not None and len(values) > 2 and len(matches) > 0.9 * len(values) and len(units) <= 1:
            return Notation(found, example, expected, sample)
    return None


def is_plain(value: str) -> bool:
    """Return whether a string is a number that Python reads."""
    try:
        float(value)
    except ValueError:
        return False
    return True


def note_notation(column: Column, role: str) -> list[str]:
    """Return a note if strings are numbers or dates in another notation.

    Examples
    --------
    >>> import pandas as pd
    >>> note_notation(pd.Series(["31.12.2025", "1.1.2026", "2.1.2026"], name="day"), "Input column")
    ... # doctest: +NORMALIZE_WHITESPACE
    ["Input column 'day' looks like dates in another notation, such as '31.12.2025', but is read as strings; to use its
    values as numbers, write them like 2026-12-31."]
    """
    if (notation := find_notation(column)) is None:
        return []
    return [
        f"{role} {str(column.name)!r} looks like {notation.found}, such as {notation.example!r}, but is read as "
        f"strings; to use its values as numbers, write them like {notation.sample}."
    ]


def check_notation(column: Column, role: str, advice: str) -> None:
    """Raise a `ValueError` if strings are numbers or dates in another notation; `advice` is for identifiers."""
    if (notation := find_notation(column)) is not None:
        raise ValueError(
            f"Expected {role} {str(column.name)!r} to be {notation.expected}, but got {notation.found}, such as "
            f"{notation.example!r}: write them like {notation.sample} or, if the column is an identifier, {advice}."
        )

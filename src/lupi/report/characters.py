"""Names that others chose, made fit to show."""

from __future__ import annotations

import re
from unicodedata import east_asian_width

DIRECTIONS = "\u202a-\u202e\u2066-\u2069"
"""They turn the direction of the text that follows. Without them right-to-left names are still shown as such."""
UNFIT = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff{DIRECTIONS}]+")


def fit(text: str) -> str:
    r"""Drop characters that control: those that HTML or XML forbid, and those that turn the direction of text.

    Examples
    --------
    >>> fit("Ann\x00 and \u202eBob")
    'Ann and Bob'
    """
    return UNFIT.sub("", text)


def short(text: object, width: int) -> str:
    r"""Fit a name into one line, so many letters wide.

    Examples
    --------
    >>> short("Ann\nof the night shift", 12)
    'Ann of the …'
    >>> short("日本語のとても長い名前", 12)  # each as wide as two letters
    '日本語のと…'
    """
    line = " ".join(fit(str(text)).split())
    ends, end = [], 0
    for letter in line:
        end += 2 if east_asian_width(letter) in "WF" else 1
        ends.append(end)
    if end <= width:
        return line
    return line[: sum(end < width for end in ends)] + "…"

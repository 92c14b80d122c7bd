"""Make names that others chose safe to show."""

import re
from unicodedata import east_asian_width

DIRECTIONS = "\u202a-\u202e\u2066-\u2069"
"""Characters that override the direction of the text after them. Right-to-left names do not need them."""
UNSAFE = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff{DIRECTIONS}]+")


def sanitize(text: str) -> str:
    r"""Remove the characters that HTML and XML forbid, and those that override the direction of text."""
    return UNSAFE.sub("", text)


def one_line(text: object) -> str:
    r"""Sanitize a text and join its lines."""
    return " ".join(sanitize(str(text)).split())


def shorten(text: object, width: int) -> str:
    r"""Sanitize a name and shorten it to one line of at most `width` columns."""
    line = one_line(text)
    ends, end = [], 0
    for letter in line:
        end += 2 if east_asian_width(letter) in "WF" else 1
        ends.append(end)
    if end <= width:
        return line
    return line[: sum(end < width for end in ends)] + "…"

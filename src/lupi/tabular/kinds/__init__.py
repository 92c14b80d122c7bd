"""The kinds of columns, each defined by one class in its own file.

To add a kind, subclass `Kind` and add the class to `KINDS`.
"""

from lupi.tabular.kinds.base import ColumnEncoder, Encoding, Kind
from lupi.tabular.kinds.category import Category, OneHot
from lupi.tabular.kinds.embedded import Embedded, Text
from lupi.tabular.kinds.image import ImageFile
from lupi.tabular.kinds.number import Boolean, Number, Quantiles, Standard, Standardized
from lupi.tabular.kinds.vector import Vector, Vectors

__all__ = ["ENCODINGS", "KINDS", "ColumnEncoder", "Encoding", "Kind", "find_kind"]

KINDS: dict[str, type[Kind]] = {
    kind.name: kind for kind in (Boolean, Number, Vector, Text, Category, ImageFile, Standardized)
}
"""All kinds by name, in the order in which they are recognized."""
ENCODINGS: tuple[type[Encoding], ...] = (Standard, Quantiles, OneHot, Vectors, Embedded)
"""All encodings, which a model folder may hold."""


def find_kind(text: str) -> Kind:
    """Return the kind that a user names, such as ``"text"`` or ``"text:MODEL"``."""
    name, _, argument = text.partition(":")
    if name not in KINDS:
        raise ValueError(f"Expected `kind` to be one of {', '.join(KINDS)}, but got {text!r}.")
    return KINDS[name](argument or None)

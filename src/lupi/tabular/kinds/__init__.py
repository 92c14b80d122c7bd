"""The kinds of columns, each defined by one class in its own file.

To add a kind, subclass `Kind` and add an instance to `KINDS`.
"""

from lupi.tabular.kinds.base import ColumnEncoder, Kind, RowNumbers
from lupi.tabular.kinds.boolean import Boolean
from lupi.tabular.kinds.category import Category
from lupi.tabular.kinds.image import ImageFile
from lupi.tabular.kinds.number import Number
from lupi.tabular.kinds.texts import Text
from lupi.tabular.kinds.vector import Vector

__all__ = ["KINDS", "ColumnEncoder", "Kind", "RowNumbers"]

KINDS: dict[str, Kind] = {kind.name: kind for kind in (Boolean(), Vector(), ImageFile(), Text(), Category(), Number())}
"""All kinds by name, in the order in which they are recognized."""

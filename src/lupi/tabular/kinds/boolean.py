"""True or false."""

from lupi.tabular.kinds.base import Kind
from lupi.tabular.values import Column


class Boolean(Kind):
    """True or false."""

    name = "boolean"
    choosable = False
    privileged = "category"
    may_be_missing = True

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "boolean"

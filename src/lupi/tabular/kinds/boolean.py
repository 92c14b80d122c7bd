"""True or false: a number as an input, and a category as privileged information."""

from lupi.tabular.frames import Frame
from lupi.tabular.kinds.base import Encoding
from lupi.tabular.kinds.category import OneHot
from lupi.tabular.kinds.number import Number, Standard
from lupi.tabular.values import Column


class Boolean(Number):
    """True or false."""

    name = "boolean"
    wants = "true or false"

    def recognizes(self, column: Column, stored: str) -> bool:  # noqa: ARG002
        return stored == "boolean"

    def reads(self, stored: str) -> bool:
        return stored == "boolean"

    def encode(self, frame: Frame, columns: list[str], *, privileged: bool, device: str = "cpu") -> Encoding:  # noqa: ARG002
        return OneHot(self, columns).fit(frame) if privileged else Standard(self, columns).fit(frame)

"""Reports: self-contained HTML pages that load no other files and need no network."""

from lupi.report.figures import COLOURS, STYLE
from lupi.report.page import Section, Table

__all__ = ["COLOURS", "STYLE", "Section", "Table"]

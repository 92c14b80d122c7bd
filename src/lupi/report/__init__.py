"""Reports: self-contained HTML pages that load no other files and need no network."""

from lupi.report.page import Section, Table
from lupi.report.svg import COLOURS, STYLE

__all__ = ["COLOURS", "STYLE", "Section", "Table"]

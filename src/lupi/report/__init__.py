"""Reports: self-contained HTML pages that load no other files and need no network."""

from lupi.report.page import Detail, Figure, Page, Section, Table, write_report

__all__ = ["Detail", "Figure", "Page", "Section", "Table", "write_report"]

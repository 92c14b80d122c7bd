"""How a result is shown: one self-contained HTML page that reads no other file and no network."""

from lupi.report.page import Figure, Page, Section, Table, write_report

__all__ = ["Figure", "Page", "Section", "Table", "write_report"]

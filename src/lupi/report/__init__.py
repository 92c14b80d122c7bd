"""How is a result shown? As one self-contained HTML page that loads no other file and needs no network."""

from lupi.report.page import Detail, Figure, Page, Section, Table, write_report

__all__ = ["Detail", "Figure", "Page", "Section", "Table", "write_report"]

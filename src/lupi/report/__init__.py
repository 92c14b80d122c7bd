"""Reports: one self-contained HTML page each, that reads no file and no network."""

from lupi.report.comparison import comparison_page
from lupi.report.diagnosis import diagnosis_page
from lupi.report.page import Figure, Page, Section, Table, write_report

__all__ = ["Figure", "Page", "Section", "Table", "comparison_page", "diagnosis_page", "write_report"]

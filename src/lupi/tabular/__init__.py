"""Turn tables into arrays: read files, assign roles and kinds to columns, and encode values."""

from lupi.tabular.encoding import TableEncoder
from lupi.tabular.images import PixelEncoder, VisionEncoder
from lupi.tabular.kinds import KINDS, Kind
from lupi.tabular.reading import read_table
from lupi.tabular.schema import Schema
from lupi.tabular.spec import TableSpec
from lupi.tabular.table_data import TableData, read_data
from lupi.tabular.text import TfidfEncoder, TransformerEncoder

__all__ = [
    "KINDS",
    "Kind",
    "PixelEncoder",
    "Schema",
    "TableData",
    "TableEncoder",
    "TableSpec",
    "TfidfEncoder",
    "TransformerEncoder",
    "VisionEncoder",
    "read_data",
    "read_table",
]

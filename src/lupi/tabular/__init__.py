"""Turn tables into arrays: read files, assign roles and kinds to columns, and encode values."""

from lupi.tabular.columns import Schema
from lupi.tabular.dataset import TableDataset, read_dataset
from lupi.tabular.encoding import InputEncoder, PrivilegedEncoder
from lupi.tabular.images import PixelEncoder, VisionEncoder
from lupi.tabular.kinds import KINDS, Kind
from lupi.tabular.reading import read_table
from lupi.tabular.spec import TableSpec
from lupi.tabular.text import TfidfEncoder, TransformerEncoder

__all__ = [
    "KINDS",
    "InputEncoder",
    "Kind",
    "PixelEncoder",
    "PrivilegedEncoder",
    "Schema",
    "TableDataset",
    "TableSpec",
    "TfidfEncoder",
    "TransformerEncoder",
    "VisionEncoder",
    "read_dataset",
    "read_table",
]

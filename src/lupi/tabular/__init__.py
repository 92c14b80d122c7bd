"""Turn tables into arrays: read files, assign roles and kinds to columns, and encode values."""

from lupi.tabular.encoding import TableEncoder
from lupi.tabular.kinds import KINDS, Kind
from lupi.tabular.spec import TableSpec
from lupi.tabular.text_encoders import TfidfEncoder, TransformerEncoder

__all__ = [
    "KINDS",
    "Kind",
    "TableEncoder",
    "TableSpec",
    "TfidfEncoder",
    "TransformerEncoder",
]

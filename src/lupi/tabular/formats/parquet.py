"""Parquet files, and folders of them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from lupi.tabular.formats import base
from lupi.tabular.formats.base import TableFile, check_distinct, explain_unreadable
from lupi.tabular.frames import Columns, code_strings, to_column
from lupi.tabular.values import Column

INDEX = re.compile(r"__index_level_\d+__")
"""The names that pandas gives to the levels of an index that have none."""


class ParquetFile(TableFile):
    """A Parquet file, or a folder of them, possibly partitioned by folder names such as ``year=2020``."""

    suffixes = (".parquet", ".pq")

    def __init__(self, path: Path, types: Mapping[str, pa.DataType]) -> None:
        super().__init__(path, types)
        if path.is_dir() and not any(file.suffix.lower() in self.suffixes for file in path.rglob("*")):
            raise ValueError(f"Expected {path} to be a folder of .parquet files, but it has none.")

    @cached_property
    def dataset(self) -> Any:
        """The file or folder as an Arrow dataset."""
        try:
            return pa.dataset.dataset(self.path, format=pa.dataset.ParquetFileFormat(), partitioning="hive")
        except pa.ArrowInvalid:
            for file in [self.path] if self.path.is_file() else self.path.rglob("*.parquet"):
                check_distinct(file, pa.parquet.read_schema(file).names)
            raise

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types of the columns; the index of a DataFrame, which pandas stores without a name, is none."""
        return pa.schema([field for field in self.dataset.schema if not INDEX.fullmatch(field.name)])

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of all rows."""
        return self.dataset.to_table(columns=list(columns))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Read columns in batches."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        for fragment in self.dataset.get_fragments():
            yield from fragment_batches(fragment, schema)

    def count_rows(self) -> int:
        """Count the rows."""
        return int(self.dataset.count_rows())

    def by_column(self, columns: Sequence[str]) -> tuple[Columns, pa.Schema]:
        """Return columns that are read when they are used, since Parquet stores them one by one."""

        def read(name: str) -> Column:
            with explain_unreadable(self.path):
                batches = [code_strings(rows.column(0)) for rows in self.batches([name])]
            column = to_column(name, pa.chunked_array([chunk for batch in batches for chunk in batch.chunks]))
            del batches
            pa.default_memory_pool().release_unused()  # Arrow would keep the memory for the next column
            return column

        return Columns(read, columns, self.count_rows()), self.schema


def fragment_batches(fragment: Any, schema: pa.Schema) -> Iterator[pa.Table]:
    """Read one Parquet file in batches; the scanner of a dataset would read whole row groups of any size."""
    folders = pa.dataset.get_partition_keys(fragment.partition_expression)
    own = [name for name in schema.names if name not in folders]
    known = fragment.metadata  # parsed once for all columns
    with pa.parquet.ParquetFile(fragment.path, metadata=known, buffer_size=2**20, pre_buffer=False) as file:
        for batch in file.iter_batches(base.ROWS_AT_ONCE, columns=own):
            rows = pa.Table.from_batches([batch])
            for name in schema.names:
                if name in folders:
                    rows = rows.append_column(name, pa.repeat(folders[name], batch.num_rows))
            yield rows.select(schema.names).cast(schema)

"""Read tables: CSV, Parquet and folders of Parquet, whole or in batches."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

ROWS_AT_ONCE = 65_536
"""Rows of a batch of a Parquet file."""


def open_table(
    path: str | Path, types: Mapping[str, pa.DataType] | None = None, *, whole: bool = False
) -> pa.dataset.Dataset:
    """Open a CSV file, a Parquet file or a folder of Parquet files, reading only the names and types of its columns.

    Parameters
    ----------
    path : str or Path
        The table.
    types : mapping, optional
        Types of columns of a CSV file. The types of other columns are inferred.
    whole : bool
        Whether to infer types from all rows of the file rather than from its first megabyte.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"Expected a table, but there is no {path}.")
    if path.is_dir():
        if not any(map(is_parquet, path.rglob("*"))):
            raise ValueError(f"Expected {path} to be a folder of .parquet files, but it has none.")
    elif not (is_csv(path) or is_parquet(path)):
        raise ValueError(f"Expected a table to be .csv, .parquet or a folder of .parquet, but got {path}.")
    elif path.stat().st_size == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    file_format: Any = pa.dataset.ParquetFileFormat()
    if is_csv(path):
        size = 2**20 if not whole else min(max(path.stat().st_size * (10 if path.suffix == ".gz" else 1), 2**20), 2**30)
        read, parse, convert = csv_options(types or {}, size)
        file_format = pa.dataset.CsvFileFormat(parse, read_options=read, convert_options=convert)
    with explain_unreadable(path):
        return pa.dataset.dataset(path, format=file_format, partitioning="hive")


def csv_options(types: Mapping[str, pa.DataType], size: int) -> tuple[Any, Any, Any]:
    """Return the options to read, parse and convert CSV in blocks of `size` bytes."""
    return (
        pa.csv.ReadOptions(block_size=size),
        pa.csv.ParseOptions(newlines_in_values=True),
        pa.csv.ConvertOptions(column_types=dict(types), strings_can_be_null=True),
    )


def read_table(path: str | Path, columns: Sequence[str], types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    r"""Read columns of a table into memory.

    Parameters
    ----------
    path : str or Path
        The table.
    columns : sequence of str
        Their names.
    types : mapping, optional
        Types of columns of a CSV file, such as strings for ids, so that 007 does not become 7.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "table.csv")
    ...     _ = file.write_text("id,label\n007,yes\n008,no\n")
    ...     read_table(file, ["id", "label"], {"id": pa.string()}).to_pylist()
    [{'id': '007', 'label': 'yes'}, {'id': '008', 'label': 'no'}]
    """
    table = open_table(path, types, whole=True)
    with explain_unreadable(path):
        rows = table.to_table(columns=list(columns))
    if rows.num_rows == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    return rows


def count_rows(table: pa.dataset.Dataset, path: str | Path) -> int:
    """Count the rows of a table, and refuse an empty one."""
    with explain_unreadable(path):
        rows = int(table.count_rows())
    if rows == 0:
        raise ValueError(f"Expected {path} to have rows, but it is empty.")
    return rows


def read_batches(table: pa.dataset.Dataset, columns: Sequence[str], path: str | Path) -> Iterator[pa.Table]:
    """Read a table of any length in batches, in order, with bounded memory."""
    schema = pa.schema([table.schema.field(name) for name in columns])
    with explain_unreadable(path):
        if isinstance(table.format, pa.dataset.ParquetFileFormat):
            for fragment in table.get_fragments():
                yield from fragment_batches(fragment, schema)
        else:
            read, parse, convert = csv_options({field.name: field.type for field in schema}, 2**22)
            convert.include_columns = list(columns)
            with pa.csv.open_csv(path, read, parse, convert) as reader:
                yield from map(pa.Table.from_batches, ([batch] for batch in reader))


def fragment_batches(fragment: Any, schema: pa.Schema) -> Iterator[pa.Table]:
    """Read one Parquet file in batches; the scanner of a dataset would read whole row groups of any size."""
    folders = pa.dataset.get_partition_keys(fragment.partition_expression)
    own = [name for name in schema.names if name not in folders]
    with pa.parquet.ParquetFile(fragment.path, buffer_size=2**20, pre_buffer=False) as file:
        for batch in file.iter_batches(ROWS_AT_ONCE, columns=own):
            rows = pa.Table.from_batches([batch])
            for name in schema.names:
                if name in folders:
                    rows = rows.append_column(name, pa.repeat(folders[name], batch.num_rows))
            yield rows.select(schema.names).cast(schema)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Convert an Arrow table to pandas; decimals become floats, dictionaries their values.

    Examples
    --------
    >>> to_pandas(pa.table({"age": [20, 40]}))["age"].tolist()
    [20, 40]
    """
    for place, field in enumerate(table.schema):
        plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        plain = pa.float64() if pa.types.is_decimal(plain) else plain
        if plain != field.type:
            table = table.set_column(place, field.name, table.column(place).cast(plain))
    frame: pd.DataFrame = table.to_pandas(date_as_object=False, ignore_metadata=True)
    return frame


def is_csv(path: str | Path) -> bool:
    """Return whether a file name is that of a CSV file."""
    return Path(path).name.lower().endswith((".csv", ".csv.gz"))


def is_parquet(path: Path) -> bool:
    """Return whether a file name is that of a Parquet file."""
    return path.suffix.lower() in (".parquet", ".pq")


@contextmanager
def explain_unreadable(path: str | Path) -> Iterator[None]:
    """Turn an error of Arrow into one sentence that says why a file cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError, KeyError) as error:
        why = " ".join(str(error).split()).rpartition("Invalid: ")[2].removesuffix(".")  # keep only the cause
        raise ValueError(f"Expected {path} to be a readable table, but got: {why[:300]}.") from error

"""Vectors in a ``.npy`` file beside a table: ``kind={"embedding": "vector:embeddings.npy"}``.

If the table has the column, it holds row numbers of the file, counted from 0, so that several labels of an example
share a vector. If not, the file has a row for each row of the table, in its order. Messages count rows from 0.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lupi.tabular.columns import InputColumn
from lupi.tabular.kinds.vector import Vector
from lupi.tabular.relative_paths import folder_of, resolve_beside_table

PREFIX = f"{Vector.name}:"


def split_kinds(kinds: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the kinds of columns, and the files of vectors that some of them name.

    Examples
    --------
    >>> split_kinds({"zip": "category", "embedding": "vector:embeddings.npy"})
    ({'zip': 'category', 'embedding': 'vector'}, {'embedding': 'embeddings.npy'})
    """
    files = {name: kind.removeprefix(PREFIX) for name, kind in kinds.items() if kind.startswith(PREFIX)}
    return {**kinds, **dict.fromkeys(files, Vector.name)}, files


def choose_files(
    inputs: Mapping[str, InputColumn], names: Collection[str], path: str | Path, kinds: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the files of vectors for a table other than the training table.

    A table with row numbers needs the file of training beside it, unless users name another. A table without them needs
    a file of its own: that of training has the rows of another table.

    Parameters
    ----------
    inputs : mapping
        The input columns.
    names : collection of str
        The columns of the table.
    path : str or Path
        The table, for messages.
    kinds : mapping of str to str, optional
        Kinds of columns that name a file, such as ``"vector:new.npy"``.

    Examples
    --------
    >>> inputs = {"embedding": InputColumn("vector", "vector", 8, "embeddings.npy")}
    >>> choose_files(inputs, ["embedding", "age"], "new.csv")
    {'embedding': 'embeddings.npy'}
    >>> choose_files(inputs, ["age"], "new.csv", {"embedding": "vector:new.npy"})
    {'embedding': 'new.npy'}
    """
    own = split_kinds(kinds or {})[1]
    for name, kind in (kinds or {}).items():
        if name not in own or name not in inputs or inputs[name].kind != Vector.name:
            what = "Expected `kind` to name a file of an input column of vectors, such as 'vector:new.npy'"
            raise ValueError(f"{what}, but got {kind!r} of column {name!r}.")
    files = {name: column.file for name, column in inputs.items() if column.file is not None}
    for name, file in files.items():
        if name not in names and name not in own:
            other = "" if kinds is None else f" or `kind={{{name!r}: 'vector:FILE.npy'}}` with its vectors,"
            raise ValueError(
                f"Expected {path} to have a column {name!r} with row numbers of {file},{other} but got none."
            )
    return files | own


def add_vectors(
    table: pa.Table, files: Mapping[str, str], path: str | Path, *, start: int = 0, total: int | None = None
) -> pa.Table:
    """Add the vectors from files to the columns of a table that name them.

    Parameters
    ----------
    table : Table
        Some rows of a table.
    files : mapping of str to str
        The file of each column of vectors.
    path : str or Path
        The whole table, beside which the files are.
    start : int
        Number of the first row in the whole table.
    total : int, optional
        Number of rows of the whole table; by default it is `table`.
    """
    total = table.num_rows if total is None else total
    for name, file in files.items():
        vectors = open_vectors(name, file, path)
        if name in table.column_names:
            numbers = read_numbers(table.column(name), name, len(vectors), file, start)
            table = table.set_column(table.column_names.index(name), name, to_lists(vectors[numbers]))
            continue
        if len(vectors) != total:
            raise ValueError(
                f"Expected {file} to have a row of column {name!r} for each of the {total:,} rows of {path}, "
                f"but it has {len(vectors):,}."
            )
        table = table.append_column(name, to_lists(vectors[start : start + table.num_rows]))
    return table


def open_vectors(name: str, file: str, path: str | Path) -> NDArray[Any]:
    """Open a file of vectors without reading it into memory."""
    found = resolve_beside_table(folder_of(path), file)
    if found is None or not found.is_file():
        why = "it does not exist" if found else "it is not"
        raise ValueError(f"Expected {file!r} of column {name!r} to be a .npy file beside {path}, but {why}.")
    try:
        vectors = np.load(found, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"Expected {file} to be a .npy file of numbers, but got: {error}.") from error
    if not (isinstance(vectors, np.ndarray) and vectors.ndim == 2 and vectors.shape[1] and vectors.dtype.kind in "iuf"):
        got = f"{vectors.dtype} of shape {list(vectors.shape)}" if isinstance(vectors, np.ndarray) else "several arrays"
        raise ValueError(f"Expected {file} to hold numbers, [rows, width], but got {got}.")
    return vectors


def read_numbers(column: Any, name: str, count: int, file: str, start: int) -> NDArray[np.int64]:
    """Return row numbers of a file of `count` vectors, or raise a `ValueError` that names a row of the table."""
    values = column.to_pandas()
    for place, value in enumerate(values):
        try:
            whole = value is not None and float(value).is_integer() and 0 <= float(value) < count
        except (TypeError, ValueError):
            whole = False
        if not whole:
            what = f"Expected column {name!r} to have row numbers of {file} from 0 to {count - 1}"
            raise ValueError(f"{what}, but got {value!r} in row {start + place}.")
    return np.array([int(float(value)) for value in values], dtype=np.int64)


def to_lists(vectors: NDArray[Any]) -> pa.Array:
    """Return vectors as an Arrow column."""
    flat = np.ascontiguousarray(vectors)
    flat = flat.astype(flat.dtype.newbyteorder("="), copy=False)  # Arrow reads this machine's order
    return pa.FixedSizeListArray.from_arrays(pa.array(flat.reshape(-1)), vectors.shape[1])

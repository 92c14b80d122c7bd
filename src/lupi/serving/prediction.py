"""Predict a table of any length."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from lupi._internal.files import claim_output, explain_os_errors, replace_file
from lupi._internal.progress import Steps
from lupi.serving.model import TableModel
from lupi.tabular.columns import check_matches, check_name, split_names
from lupi.tabular.reading import count_rows, open_table, read_batches, read_schema, to_pandas


def predict_table(
    model: TableModel,
    table: str | Path,
    output: str | Path,
    *,
    keep: Sequence[str] = (),
    overwrite: bool = False,
    progress: bool = False,
) -> int:
    """Predict a table in batches, and write the predictions to a Parquet or CSV file.

    Parameters
    ----------
    model : TableModel
        The model.
    table : str or Path
        A CSV, TSV, JSON, JSON Lines, Excel or Parquet file, or a folder of Parquet files. It may be larger than memory,
        unless it is JSON or Excel.
    output : str or Path
        The file to write, .parquet or .csv.
    keep : sequence of str
        Columns to copy. The column of example ids is always copied if the table has it.
    overwrite : bool
        Whether to replace an existing file.
    progress : bool
        Whether to show progress.

    Returns
    -------
    int
        The number of rows.
    """
    output = Path(output)
    make_writer = find_writer(output)
    if not isinstance(model, TableModel):
        raise ValueError(f"Expected `model` to be trained on a table, but got a {type(model).__name__} that was not.")
    schema, inputs, example = read_schema(open_table(table)), model.schema.inputs, model.schema.roles.example
    kept = split_names(keep, schema.names)
    for name in kept:
        check_name(name, schema.names, "keep")
    kept = list(dict.fromkeys([example, *kept] if example and example in schema.names else kept))
    check_matches(schema, inputs, table)
    source = open_table(table, model.schema.csv_types(name for name in kept if name not in inputs))
    total, done, writer = count_rows(source), 0, None
    with (
        claim_output(output, overwrite=overwrite),
        explain_os_errors(output),
        replace_file(output) as partial,
        ExitStack() as stack,
        Steps("predict", total, show=progress) as steps,
    ):
        for batch in read_batches(source, list(dict.fromkeys([*kept, *inputs]))):
            if batch.num_rows == 0:
                continue
            predicted = model.predict(to_pandas(batch), start=done)
            clash = set(kept) & set(predicted)
            if clash:
                raise ValueError(f"Expected `keep` to name no column of the output, but got {clash.pop()!r}.")
            rows = pa.table({name: batch.column(name) for name in kept} | predicted.to_dict("series"))
            try:
                if writer is None:
                    writer = stack.enter_context(make_writer(partial, rows.schema))
                writer.write_table(rows)
            except pa.ArrowException as error:
                why = " ".join(str(error).split()).removesuffix(".")
                raise ValueError(f"Expected columns that a {output.suffix} file can hold, but got: {why}.") from error
            done += batch.num_rows
            steps.advance(batch.num_rows, "rows")
    return done


def find_writer(path: Path) -> Callable[..., Any]:
    """Return the writer for a file by its suffix."""
    writers: dict[str, Callable[..., Any]] = {".parquet": pa.parquet.ParquetWriter, ".csv": pa.csv.CSVWriter}
    if path.suffix.lower() not in writers:
        raise ValueError(f"Expected `output` to be a .parquet or .csv file, but got {path}.")
    return writers[path.suffix.lower()]

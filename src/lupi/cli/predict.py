"""The command `lupi predict`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lupi.cli import options
from lupi.cli.commands import print_message


@options.with_options(loaded=options.model_options)
def run(
    loaded: tuple[Path, Any],
    table: options.Table,
    output: Annotated[Path, typer.Option("-o", "--output", help="File for predictions, .parquet or .csv.")],
    keep: Annotated[list[str] | None, typer.Option(help="Comma-separated columns to copy to the output.")] = None,
    overwrite: options.Overwrite = False,
) -> None:
    """Predict the rows of a table of any length, which needs the model's input columns but no privileged ones."""
    from lupi.serving.prediction import predict_table
    from lupi.tabular.formats import open_file

    note = open_file(table).note
    if note:
        print_message(note)
    rows = predict_table(loaded[1], table, output, keep=keep or [], overwrite=overwrite, progress=True)
    print(f"Predictions: {output}, {rows:,} rows")

"""The command `lupi predict`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi.cli import options
from lupi.cli.commands import print_message


def run(
    model: options.Model,
    table: options.Table,
    output: Annotated[Path, typer.Option("-o", "--output", help="File for predictions, .parquet or .csv.")],
    keep: Annotated[list[str] | None, typer.Option(help="Comma-separated columns to copy to the output.")] = None,
    text_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Text encoder of the model, if it has one.")
    ] = None,
    image_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Image encoder of the model, if it has one.")
    ] = None,
    device: options.Device = "cpu",
    overwrite: options.Overwrite = False,
) -> None:
    """Predict the rows of a table of any length, which needs the model's input columns but no privileged ones."""
    from lupi import load
    from lupi.serving.prediction import predict_table
    from lupi.tabular.formats import open_file
    from lupi.tabular.formats.base import explain_unreadable

    with explain_unreadable(table):
        note = open_file(table).note
    if note:
        print_message(note)
    trained = load(model, text_encoder=text_encoder, image_encoder=image_encoder, device=device)
    rows = predict_table(trained, table, output, keep=keep or [], overwrite=overwrite, progress=True)
    print(f"Predictions: {output}, {rows:,} rows")

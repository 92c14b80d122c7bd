"""The command `lupi predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lupi.cli.options import Device, Model, Overwrite, Table


def run(
    model: Model,
    table: Table,
    output: Annotated[Path, typer.Option("-o", "--output", help="File for predictions, .parquet or .csv.")],
    keep: Annotated[list[str] | None, typer.Option(help="Comma-separated columns to copy.")] = None,
    text_encoder: Annotated[
        str | None, typer.Option(metavar="NAME_OR_FOLDER", help="Where the model's text encoder is, if it has moved.")
    ] = None,
    device: Device = "cpu",
    overwrite: Overwrite = False,
) -> None:
    """Predict a table of any length. It needs the model's input columns and no privileged ones."""
    from lupi import serving

    trained = serving.load(model, text_encoder=text_encoder, device=device)
    rows = serving.predict_table(trained, table, output, keep=keep or [], overwrite=overwrite, progress=True)
    print(f"Predictions: {output}, {rows:,} rows")

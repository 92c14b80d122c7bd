"""The command `lupi export`."""

from pathlib import Path
from typing import Annotated

import typer

from lupi.cli.options import Model, Overwrite


def run(
    model: Model, onnx: Annotated[Path, typer.Option("--onnx", help="The ONNX file.")], overwrite: Overwrite = False
) -> None:
    """Export a model to ONNX, from the columns of a table to labels, without the parts that learned from PI."""
    from lupi.serving.model import export_onnx, load

    for line in export_onnx(load(model), onnx, overwrite=overwrite):
        print(line)
    print(f"ONNX: {onnx}")

"""The command `lupi train`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from lupi.cli import options
from lupi.cli.commands import describe_command, print_error, print_message


@options.with_options(spec=options.table_options, settings=options.training_options)
def run(
    spec: Any,
    settings: dict[str, Any],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the model.")],
    method: Annotated[str, typer.Option(help="Name of a method; `tram` is the paper's.")] = "auto",
    predicts: options.Predicts = "truth",
    seed: options.Seed = 0,
    device: options.Device = "auto",
    no_privileged: Annotated[
        bool,
        typer.Option(
            "--no-privileged",
            help="Save the predictor alone, without annotators' names and values of privileged columns.",
        ),
    ] = False,
    overwrite: options.Overwrite = False,
    checkpoint: Annotated[
        bool, typer.Option(help="Save a training of over a minute every minute, and resume it when it is run again.")
    ] = True,
) -> None:
    """Train a model on a table of annotations. Columns without a role are inputs."""
    from lupi import serving

    try:
        serving.train(
            spec,
            method=method,
            device=device,
            seed=seed,
            settings={**settings, "predicts": predicts},
            output=output,
            overwrite=overwrite,
            save_privileged=not no_privileged,
            checkpoint=checkpoint,
            command=describe_command()["command"],
            notify=print_message,
            progress=True,
        )
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            print_error(str(interrupt))
        raise
    print(f"Model: {output}, described in {output / 'README.md'}")

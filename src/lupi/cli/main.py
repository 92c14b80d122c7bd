"""Collect the commands. Heavy imports wait until a command needs them."""

from typing import Annotated

import typer

from lupi import __version__
from lupi.cli import compare, demo, diagnose, export, import_labels, predict, reproduce, train
from lupi.cli.boundary import CommandLine
from lupi.cli.commands import Command

app = typer.Typer(cls=CommandLine, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
for module in (demo, diagnose, compare, train, predict, export, reproduce):
    app.command(module.__name__.rpartition(".")[2], cls=Command)(module.run)
app.command("import", cls=Command)(import_labels.run)  # no module can have this name


def show_version(asked: bool) -> None:
    """Print the version and exit."""
    if asked:
        print(f"lupi {__version__}")
        raise typer.Exit


@app.callback()
def start(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Learn from what you know about each label, and predict without it."""

"""Collect the commands. A command, and what it needs, is imported when it is called."""

from importlib import import_module
from typing import Annotated, Any

import typer

from lupi import __version__
from lupi.cli.commands import Command, CommandLine

MODULES = {
    "demo": "demo",
    "import": "import_labels",  # no module can have the name of the command
    "diagnose": "diagnose",
    "compare": "compare",
    "train": "train",
    "predict": "predict",
    "evaluate": "evaluate",
    "export": "export",
    "reproduce": "reproduce",
}
"""The modules of the commands, each with a function `run`."""


class Commands(CommandLine):
    """All commands by name."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names of the commands."""
        return list(MODULES)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Import a command."""
        if cmd_name not in MODULES:
            return None
        alone = typer.Typer(add_completion=False)
        alone.command(cmd_name, cls=Command)(import_module(f"lupi.cli.{MODULES[cmd_name]}").run)
        return typer.main.get_command(alone)


app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


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

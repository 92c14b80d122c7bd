"""Collect the commands, each of which is imported when it is called."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from lupi import __version__
from lupi.cli.boundary import CommandLine
from lupi.cli.commands import Command

MODULES = {name: name for name in ("demo", "diagnose", "compare", "train", "predict", "export", "reproduce")}
MODULES["import"] = "import_labels"  # no module can have the name of the command


class Commands(Mapping[str, Any]):
    """The commands by name."""

    def __getitem__(self, name: str) -> Any:
        one = typer.Typer(add_completion=False)
        one.command(name, cls=Command)(import_module(f"lupi.cli.{MODULES[name]}").run)
        return typer.main.get_command(one)

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


class LazyCommandLine(CommandLine):
    """The command line, which imports a command when it is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = Commands()


app = typer.Typer(cls=LazyCommandLine, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


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

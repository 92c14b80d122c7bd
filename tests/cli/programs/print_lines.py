"""A command that prints more than a pipe holds, then writes a file."""

from pathlib import Path

import typer

from lupi.cli.commands import Command, CommandLine

app = typer.Typer(cls=CommandLine)


@app.command(cls=Command)
def work() -> None:
    """Print and write."""
    for number in range(50_000):
        print(f"line {number}")
    Path("done").touch()


@app.callback()
def start() -> None:
    """Make the command a subcommand."""


if __name__ == "__main__":
    app(["work"])

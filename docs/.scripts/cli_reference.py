"""Write docs/cli.md, the reference of the commands, from the commands themselves."""

import inspect
from pathlib import Path
from typing import Any

import typer

from lupi.cli import app

PAGE = Path(__file__).parents[1] / "cli.md"
HEAD = """# Commands

Every command prints this with `--help`. Options that several commands share mean the same everywhere. Commands that
write an output refuse to replace one without `--overwrite`, unless they resume or extend it. Errors are one sentence,
with exit code 2; Ctrl-C exits with 130. `lupi --version` prints the version, and `python -m lupi` is `lupi`.

This page is generated: `python docs/.scripts/cli_reference.py`.
"""


def describe_commands() -> str:
    """Return the page."""
    group: Any = typer.main.get_command(app)
    commands = {name: group.get_command(None, name) for name in group.list_commands(None)}
    return "\n".join([HEAD, *(describe(name, command) for name, command in commands.items())])


def describe(name: str, command: Any) -> str:
    """Return the section of a command: what it does, how it is called, and a table of its parameters."""
    parameters = [parameter for parameter in command.params if parameter.name != "help"]
    needed = [usage(parameter) for parameter in parameters if parameter.required]
    lines = [f"## lupi {name}", inspect.cleandoc(command.help), f"```text\n{' '.join(['lupi', name, *needed])} …\n```"]
    rows = [(spell(parameter), show_default(parameter), parameter.help or "") for parameter in parameters]
    table = ["| argument or option | default | meaning |", "|---|---|---|"]
    table += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n\n".join([*lines, "\n".join(table)]) + "\n"


def usage(parameter: Any) -> str:
    """Return a required parameter as it is typed."""
    value = parameter.metavar or parameter.name.upper()
    return value if parameter.param_type_name == "argument" else f"{parameter.opts[0]} {value}"


def spell(parameter: Any) -> str:
    """Return the name of an argument, or all names of an option."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = sorted(parameter.opts, key=len, reverse=True) + parameter.secondary_opts
    value = f" {parameter.metavar}" if parameter.metavar else ""
    return ", ".join(f"`{name}{value}`" for name in names)


def show_default(parameter: Any) -> str:
    """Return the default of a parameter as it is typed."""
    if parameter.required:
        return "required"
    if parameter.default is None or parameter.default is False or parameter.default == "":
        return ""
    if parameter.default is True:
        return f"`{parameter.opts[0]}`"
    return f"`{parameter.default}`"


if __name__ == "__main__":
    PAGE.write_text(describe_commands(), encoding="utf-8")

"""The common part of all commands: errors are one sentence, and results record how they were made."""

import re
import shlex
import sys
import warnings
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand

from lupi._internal.sanitizing import sanitize
from lupi.cli.boundary import UsageError, explain, print_error

options_in_use: ContextVar[Mapping[str, str]] = ContextVar("options_in_use")
"""The options of the running command, by parameter name."""


class Command(TyperCommand):
    """A command whose errors are one sentence with exit code 2, and whose warnings are one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; an error knows the command, which the parser leaves out for an option without value."""
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        options = {str(one.name): max(one.opts, key=len) for one in self.params if one.param_type_name == "option"}
        token = options_in_use.set(options)
        showwarning = warnings.showwarning
        warnings.showwarning = lambda message, *_: print_error(translate(str(message)))
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            arguments = [str(ctx.params[one.name]) for one in self.params if one.param_type_name == "argument"]
            print_error(translate(explain(error, shlex.join(["lupi", str(self.name), *arguments]))), error)
            raise typer.Exit(2) from None
        finally:
            warnings.showwarning = showwarning
            options_in_use.reset(token)


def print_message(message: str) -> None:
    """Print what the library reports, in terms of the command line."""
    print(sanitize(translate(message)), flush=True)


def translate(message: str) -> str:
    """Replace the names of Python arguments in a message with the options of the running command."""
    options = options_in_use.get({})
    message = re.sub(r"`kind=\{'([^`]*)': '([^'`]+)'\}`", r"`--kind \1=\2`", message)

    def option(match: re.Match[str]) -> str:
        name = match["name"]
        found = options.get(name) or options.get(f"{name}s")  # `method` in messages is one of `--methods`
        return f"`{found}`" if found else match[0]

    return re.sub(r"`(?P<name>[a-z_]+)(=True)?`", option, message)


def write_comparison(comparison: Any, output: Path) -> None:
    """Write the results and the report of a comparison, and print their paths."""
    from lupi._internal.files import explain_os_errors, replace_folder
    from lupi.compare.cache import RESULTS
    from lupi.compare.page import comparison_page
    from lupi.compare.results import write_results
    from lupi.report.page import write_report

    facts, notes = describe_command(), [translate(note) for note in comparison.notes]
    comparison = replace(comparison, verdict=translate(comparison.verdict), notes=notes)
    with explain_os_errors(output), replace_folder(output, drop=RESULTS) as partial:
        files = write_results(comparison, partial, facts)
        files.append(write_report(comparison_page(comparison), partial / "report.html", **facts))
    print(f"\nAll results: {', '.join(str(output / file.name) for file in files)}")


def describe_command() -> dict[str, Any]:
    """Return the command line and the versions that results depend on."""
    from lupi._internal.files import library_versions

    return {"command": shlex.join(["lupi", *sys.argv[1:]]), "versions": library_versions()}

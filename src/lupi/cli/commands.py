"""What all commands have in common: the outer boundary, messages in terms of options, and files of results.

A command always ends with exit code 0 if its work is done, with 2 after a sentence that explains the error, or with 130
after Ctrl-C. Printing never interrupts the work. `LUPI_TRACEBACK=1` in the environment shows the traceback of an error.
"""

import _thread
import errno
import gc
import io
import os
import re
import shlex
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import typer
from typer.core import TyperCommand, TyperGroup

from lupi._internal.sanitizing import one_line, sanitize, shorten

TRACEBACK = "LUPI_TRACEBACK"
MAX_MESSAGE = 1000
"""Maximum length of a message."""
NO_MEMORY = re.compile(r"failed to map segment|allocate memory|out of memory", re.IGNORECASE)
"""What the loader of libraries, torch and the system say if there is too little memory."""
LONG_WORD = re.compile(r"(\S{200})\S{100,}")
"""Words that are longer than a line or two, such as values that were passed as a column name."""
UsageError: Any = typer.BadParameter.__base__
"""The error of a command line that cannot be parsed; typer does not export it."""
options_in_use: ContextVar[Mapping[str, str]] = ContextVar("options_in_use")
"""The options of the running command, by parameter name."""


class CommandLine(TyperGroup):
    """All commands, with the boundary around them."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Parse the arguments, run a command and exit; with `standalone_mode=False`, return after success."""
        usual, sys.unraisablehook = sys.unraisablehook, repeat_interrupt
        streams: Any = (sys.stdout, "standard output"), (sys.stderr, "standard error")
        # Without standard output or standard error, Python has None in its place, which `print` takes.
        output, error = (stream and Output(stream, name) for stream, name in streams)
        try:
            with redirect_stdout(output), redirect_stderr(error):
                code = self._run(*args, **{**options, "standalone_mode": False})
                for each in filter(None, (output, error)):
                    each.flush()
                    if each.error is not None:
                        print_error(f"Expected {each.name} to be writable, but got: {os.strerror(each.error.errno)}.")
                        code = 2
        except KeyboardInterrupt:  # after the command
            code = 130
        finally:
            sys.unraisablehook = usual
        if code or options.get("standalone_mode", True):
            sys.exit(code)
        return code

    def _run(self, *args: Any, **options: Any) -> int:
        """Return the exit code of a command."""
        try:
            code = super().main(*args, **options)  # an integer after `typer.Exit`: commands return nothing
        except SystemExit as done:
            code = done.code
        except (KeyboardInterrupt, typer.Abort):
            return 130
        except UsageError as error:
            return explain_usage(error)
        except Exception as error:
            print_error(explain(error, "lupi"), error)
            return 2
        return code if code in (0, 130) else 2 if isinstance(code, int) else 0


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


class Output:
    """A standard stream that never interrupts the work.

    It replaces characters that its encoding lacks. If the reader has gone, as in ``lupi train … | head -1``, it drops
    the remaining output. It stores any other error.
    """

    def __init__(self, stream: TextIO, name: str = "output") -> None:
        self.stream, self.name = stream, name
        self.error: OSError | None = None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write a text."""
        self._call(self.stream.write, text)
        return len(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._call(self.stream.flush)

    def _call(self, method: Callable[..., Any], *text: str) -> None:
        """Call a method; after an error, drop all further output, including buffered output."""
        try:
            method(*text)
        except OSError as error:
            if error.errno != errno.EPIPE:
                self.error = error
            with suppress(OSError), open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), self.stream.fileno())


def repeat_interrupt(unraisable: Any) -> None:
    """Repeat a Ctrl-C that Python would only print and ignore, such as one in a destructor."""
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        threading.Timer(0.01, _thread.interrupt_main).start()  # not now, when it would be ignored again
    else:
        sys.__unraisablehook__(unraisable)


def explain_usage(error: Any) -> int:
    """Say in one line why the command line cannot be parsed, and return the exit code; without arguments, show help."""
    message = error.format_message()
    if type(error).__name__ == "NoArgsIsHelpError":  # the message is the help, unless rich has printed it already
        print(message, end="\n" if message else "")
        return 0
    message = one_line(message)
    stop = "" if message.endswith((".", "?")) else "."
    print_error(f"{message}{stop} See `{error.ctx.command_path if error.ctx else 'lupi'} --help`.")
    return 2


def explain(error: BaseException, command: str) -> str:
    r"""Return one sentence for an error; the library's own errors already are one."""
    message = one_line(error)
    if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
        return f"Expected {error.filename} to be usable, but got: {os.strerror(error.errno)}."
    if isinstance(error, (ValueError, ImportError, FloatingPointError, OSError)) and message.startswith("Expected "):
        return message
    if isinstance(error, MemoryError) or NO_MEMORY.search(message):
        return f"Expected enough memory for `{command}`, but there is too little; {TRACEBACK}=1 shows where."
    what = f"{type(error).__name__}{': ' if message else ''}{message.rstrip('.')}"
    return f"Expected `{command}` to succeed, but got {what}; {TRACEBACK}=1 shows where."


def print_error(message: str, error: BaseException | None = None) -> None:
    """Print a sentence to standard error, after the traceback if the user asked for it."""
    if error is not None and os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    message = LONG_WORD.sub(r"\1…", message)
    print(f"lupi: {shorten(message, MAX_MESSAGE)}", file=sys.stderr)


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


def save_comparison(comparison: Any, output: Path) -> None:
    """Write the results and the report of a comparison, and print their paths."""
    from lupi.compare.page import write_comparison

    notes = [translate(note) for note in comparison.notes]
    translated = replace(comparison, verdict=translate(comparison.verdict), notes=notes)
    files = write_comparison(translated, output, describe_command())
    print(f"\nAll results: {', '.join(map(str, files))}")


@contextmanager
def fast_imports() -> Iterator[None]:
    """Import without garbage collection, which takes a fifth of the processor time of thousands of modules."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def describe_command() -> dict[str, Any]:
    """Return the command line and the versions that results depend on."""
    from lupi._internal.files import library_versions

    return {"command": shlex.join(["lupi", *sys.argv[1:]]), "versions": library_versions()}

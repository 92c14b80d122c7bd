"""Whatever happens inside, a command ends with exit code 0, 2 or 130 and says in one sentence what went wrong."""

import errno
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from lupi.cli.commands import Command, CommandLine, Output, print_error

PROGRAM = Path(__file__).parent / "programs" / "print_lines.py"


def run(body, *arguments, charset="utf-8", **options):
    """Run a command line with one command, `work`."""
    app = typer.Typer(cls=CommandLine)
    app.command("work", cls=Command)(body)
    app.command("rest")(lambda: None)
    return CliRunner(charset=charset).invoke(app, ["work", *arguments], **options)


def read_error(result):
    """The one sentence of a command that failed."""
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("lupi: ")
    assert "Traceback" not in result.output
    return line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["work"], "lupi: Missing argument"),
        (["work", "t.csv", "--epochz", "3"], "lupi: No such option"),
        (["work", "t.csv", "--epochs", "many"], "lupi: Invalid value for '--epochs'"),
        (["work", "t.csv", "--epochs", "0"], "lupi: Invalid value for '--epochs'"),
        (["work", "t.csv", "other.csv"], "lupi: Got unexpected extra argument"),
        (["work", "t.csv", "--epochs"], "lupi: Option '--epochs' requires an argument. See `lupi work --help`."),
        (["work", "t.csv", "--quick=yes"], "lupi: Option '--quick' does not take a value"),
        (["wrok"], "lupi: No such command 'wrok'."),
    ],
)
def test_a_command_line_that_cannot_be_parsed_is_one_line_with_code_2(arguments, expected):
    def work(
        table: str,  # noqa: ARG001
        epochs: Annotated[int, typer.Option(min=1)] = 1,  # noqa: ARG001
        quick: Annotated[bool, typer.Option("--quick")] = False,  # noqa: ARG001
    ) -> None:
        raise AssertionError("never called")

    app = typer.Typer(cls=CommandLine)
    app.command("work", cls=Command)(work)
    app.command("rest")(lambda: None)
    line = read_error(CliRunner().invoke(app, arguments, prog_name="lupi"))
    assert line.startswith(expected)
    assert line.endswith("--help`.")


@pytest.mark.parametrize(
    "error",
    [
        KeyError("annotator"),
        RuntimeError("CUDA error:\nno kernel image"),
        TypeError("unhashable type: 'list'"),
        RecursionError("maximum recursion depth exceeded"),
        EOFError("No data left in file"),
        ValueError("Overflow when unpacking long long"),
        AssertionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_error_is_one_sentence_with_code_2(error):
    def work(table: str) -> None:  # noqa: ARG001
        raise error

    line = read_error(run(work, "labels.csv"))
    assert type(error).__name__ in line
    assert "`lupi work labels.csv`" in line
    assert "LUPI_TRACEBACK=1" in line


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 7.45 TiB for an array with shape (1000000, 1000000)"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4000000000000 bytes."),
        RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
    ids=lambda error: str(error)[:15],
)
def test_too_little_memory_is_called_so(error):
    def work(table: str) -> None:  # noqa: ARG001
        raise error

    line = read_error(run(work, "labels.csv"))
    assert line.startswith("lupi: Expected enough memory for `lupi work labels.csv`, but there is too little; ")


def test_a_sentence_of_ours_is_left_as_it_is():
    def work() -> None:
        raise ValueError("Expected column 'a' to be numbers, but got 'b' in row 0.")

    assert read_error(run(work)) == "lupi: Expected column 'a' to be numbers, but got 'b' in row 0."


def test_an_error_of_the_system_names_the_file():
    def work() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run/results.csv")

    assert read_error(run(work)) == "lupi: Expected run/results.csv to be usable, but got: No space left on device."


def test_the_traceback_is_shown_if_asked():
    def work() -> None:
        raise KeyError("annotator")

    result = run(work, env={"LUPI_TRACEBACK": "1"})
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert 'raise KeyError("annotator")' in result.stderr


def test_an_interrupt_has_code_130():
    def work() -> None:
        raise KeyboardInterrupt

    result = run(work)
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_an_interrupt_after_the_work_has_code_130(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Output, "flush", interrupt)
    result = run(lambda: None)
    assert result.exit_code == 130
    assert "Traceback" not in result.output


class Interrupted:
    """An object in whose end Ctrl-C arrives, where Python would only print it and go on."""

    def __del__(self):
        raise KeyboardInterrupt


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_python_would_ignore_has_code_130():
    def work() -> None:
        Interrupted()
        for _ in range(1000):
            time.sleep(0.001)
        raise ValueError("Expected Ctrl-C to end the work, but it went on.")

    result = run(work)
    assert result.exit_code == 130
    assert "Traceback" not in result.output


def test_characters_that_the_terminal_lacks_are_replaced():
    def work() -> None:
        print("accuracy 0.91 ± 0.02, \udcff")

    result = run(work, charset="ascii")
    assert (result.exit_code, result.stdout) == (0, "accuracy 0.91 ? 0.02, ?\n")


class Broken(io.StringIO):
    """A stream that cannot be written."""

    def __init__(self, code):
        super().__init__()
        self.code = code

    def write(self, text):  # noqa: ARG002
        raise OSError(self.code, os.strerror(self.code))


def test_output_that_nobody_reads_is_dropped():
    output = Output(Broken(errno.EPIPE))
    assert output.write("text") == 4
    assert output.error is None


def test_output_that_cannot_be_written_is_remembered():
    output = Output(Broken(errno.ENOSPC))
    output.write("text")
    output.flush()
    assert output.error.errno == errno.ENOSPC


def start(output, **options):
    return subprocess.Popen([sys.executable, PROGRAM], stdout=output, stderr=subprocess.PIPE, text=True, **options)


def test_a_reader_that_stops_reading_does_not_stop_the_work(tmp_path):
    """As in `lupi train … | head -1`."""
    with start(subprocess.PIPE, cwd=tmp_path) as process:
        assert process.stdout.readline() == "line 0\n"
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 0
    assert (tmp_path / "done").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_behind_the_output_is_said_after_the_work(tmp_path):
    with open("/dev/full", "w") as full, start(full, cwd=tmp_path) as process:
        error = process.stderr.read()
        assert process.wait() == 2
    assert error == "lupi: Expected standard output to be writable, but got: No space left on device.\n"
    assert (tmp_path / "done").exists()


def test_long_words_are_cut_and_the_end_of_the_sentence_stays(capsys):
    print_error(f"Expected `keep` to name a column, but got {'x' * 5000!r}: did you mean 'x'?")
    line = capsys.readouterr().err
    assert 200 < len(line) < 300
    assert line.endswith("… did you mean 'x'?\n")
    print_error("word " * 5000)
    assert len(capsys.readouterr().err) < 2010


@pytest.mark.parametrize("rich", ["1", "0"])
def test_without_arguments_the_help_is_shown(rich):
    command = [sys.executable, "-m", "lupi"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TYPER_USE_RICH": rich})
    assert done.returncode == 0
    assert "Usage: lupi [OPTIONS] COMMAND" in done.stdout
    assert len(done.stdout.splitlines()) > 10
    assert done.stderr == ""

"""What all commands have in common."""

import gc
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import lupi
from lupi.cli import app
from lupi.cli.commands import Command, fast_imports, options_in_use, translate

COMMANDS = ["demo", "diagnose", "compare", "train", "predict", "export", "reproduce"]


def test_the_version_is_shown():
    assert CliRunner().invoke(app, ["--version"]).output == f"lupi {lupi.__version__}\n"


def test_python_m_lupi_is_the_command_line():
    result = subprocess.run([sys.executable, "-m", "lupi", "--version"], capture_output=True, text=True, check=True)
    assert result.stdout == f"lupi {lupi.__version__}\n"


def test_help_lists_the_commands_and_imports_nothing_heavy():
    program = Path(__file__).parent / "programs" / "show_help.py"
    result = subprocess.run([sys.executable, program, "", *COMMANDS], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    shown = CliRunner().invoke(app, ["--help"]).output
    assert all(command in shown for command in COMMANDS)


def test_garbage_is_collected_again_after_an_import():
    with fast_imports():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ImportError), fast_imports():
        raise ImportError
    assert gc.isenabled()


@pytest.mark.parametrize("command", ["diagnose", "compare", "train"])
@pytest.mark.parametrize(
    "option", ["--privileged", "--kind", "--batch-size", "--learning-rate", "--device", "--example"]
)
def test_commands_that_read_a_table_share_options(command, option):
    environment = {"COLUMNS": "200", "NO_COLOR": "1"}
    assert option in CliRunner().invoke(app, [command, "--help"], env=environment).output


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Expected `batch_size` to be 1.", "Expected `--batch-size` to be 1."),
        ("pass `overwrite=True` to replace it.", "pass `--overwrite` to replace it."),
        ("pass `kind={'my zip': 'category'}`.", "pass `--kind my zip=category`."),
        ("Expected `method` to be one of tram.", "Expected `--methods` to be one of tram."),
        ("the extra `text` and `lupi train`", "the extra `text` and `lupi train`"),
    ],
)
def test_messages_name_options(message, expected):
    token = options_in_use.set({"batch_size": "--batch-size", "overwrite": "--overwrite", "methods": "--methods"})
    try:
        assert translate(message) == expected
    finally:
        options_in_use.reset(token)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("error", [ValueError, ImportError, FloatingPointError, OSError])
def test_errors_that_users_can_fix_are_one_sentence_with_code_2(error):
    own = typer.Typer()

    @own.command(cls=Command)
    def fail(size: int = 1) -> None:
        warnings.warn("`size` is small.", stacklevel=1)
        raise error(f"Expected `size` to be\nlarge, but got {size}.")

    result = CliRunner().invoke(own, [])
    assert result.exit_code == 2
    assert result.stderr == "lupi: `--size` is small.\nlupi: Expected `--size` to be large, but got 1.\n"

"""Run commands, and check that they refuse what they cannot do."""

import re

from typer.testing import CliRunner

from lupi.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(result, *parts):
    """Check for exit code 2 and one sentence on standard error after the progress, without a traceback."""
    assert result.exit_code == 2, result.output
    progress = re.compile(r"train |predict rows |information |[\d,]+ trainings of ")
    lines = [line for line in result.stderr.splitlines() if not progress.match(line)]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("lupi: Expected ")
    assert "Traceback" not in result.output
    for part in parts:
        assert part in lines[0], lines[0]

"""Run the command line: `python -m lupi`."""

from lupi.cli import app

app(prog_name="lupi")

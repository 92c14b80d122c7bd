import re
import shlex
from pathlib import Path

import pytest
import typer

from lupi.cli import app

PAGE = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE, re.S)
COMMANDS = [line for block in BLOCKS for line in block.replace("\\\n", " ").splitlines()]
SCRIPTS = dict(re.findall(r'```python title="(.*?)"\n(.*?)```', PAGE, re.S))


def test_the_page_shows_every_step():
    assert [shlex.split(line)[1] for line in COMMANDS] == ["diagnose", "compare", "train", "predict", "export"]
    assert list(SCRIPTS) == ["make_table.py", "check_diagnosis.py", "serve.py"]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_parse(line):
    program, name, *arguments = shlex.split(line)
    assert program == "lupi"
    command = typer.main.get_command(app).commands[name]
    command.make_context(name, arguments)  # raises where an option is unknown, missing or malformed


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_compile(name):
    compile(SCRIPTS[name], name, "exec")

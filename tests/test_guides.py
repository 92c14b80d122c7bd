"""The code of the guides runs, and their commands parse."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from lupi.cli import app

DOCS = Path(__file__).parents[1] / "docs"
GUIDES = [
    "trusting-annotators.md",
    "coming-from.md",
    "writing-a-method.md",
    "llm-judges.md",
    "preferences.md",
    "fine-tuning.md",
    "images-and-vectors.md",
]


def read_blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.S)


@pytest.mark.parametrize("page", GUIDES)
def test_the_code_of_a_guide_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks, names = read_blocks(page, "python"), {}
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    assert not capsys.readouterr().err


COMMANDS = [
    (page.name, line)
    for page in sorted(DOCS.glob("*.md"))
    for block in read_blocks(page.name, "sh")
    for line in block.replace("\\\n", " ").splitlines()
    if line.startswith("lupi ") and "…" not in line
]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_a_command_parses(page, line):  # noqa: ARG001 - the page is in the name of the test
    _, name, *arguments = shlex.split(line, comments=True)
    if name == "--version":
        return
    command = vars(typer.main.get_command(app))["commands"][name]
    command.make_context(name, arguments)  # raises where an option is unknown, missing or malformed

import runpy
from importlib.metadata import version
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / ".scripts" / "cli_reference.py"

PINNED = (Path(__file__).parents[2] / "constraints.txt").read_text().splitlines()


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.mark.skipif(f"typer=={version('typer')}" not in PINNED, reason="other versions print options differently")
def test_the_page_is_up_to_date(script):
    assert script["PAGE"].read_text(encoding="utf-8") == script["describe_commands"](), (
        "Run `python docs/.scripts/cli_reference.py` after a change of commands or options."
    )


def test_the_page_has_every_command(script):
    page = script["describe_commands"]()
    commands = ["demo", "diagnose", "compare", "train", "predict", "evaluate", "export", "reproduce", "import"]
    assert [name for name in commands if f"\n## lupi {name}\n" not in page] == []
    assert "| `--target` | required | Column of labels" in page
    assert "| `--method` | `auto` | Name of a method" in page

"""Data flows one way: every module imports only from modules before it."""

import ast
import subprocess
import sys
from pathlib import Path

import lupi

ORDER = [
    "options",
    "files",
    "progress",
    "datasets",
    "encoding",
    "tables",
    "text",
    "data",
    "likelihoods",
    "inference",
    "nn",
    "methods",
    "recording",
    "replicas",
    "settings",
    "checkpoint",
    "training",
    "testing",
    "persistence",
    "deployment",
    "validation",
    "estimators",
    "annotators",
    "suspicion",
    "card",
    "serving",
    "theory",
    "metrics",
    "paired",
    "compare",
    "report",
    "verdict",
    "kept",
    "cases",
    "controls",
    "comparison",
    "leaks",
    "scores",
    "diagnose",
    "examination",
    "demo",
    "paper",
    "cli",
]
SOURCE = Path(lupi.__file__).parent


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield node.module
            if node.module == "lupi":
                yield from (f"lupi.{alias.name}" for alias in node.names if alias.name != "__version__")


def part_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def test_every_module_has_its_place():
    assert {part_of(path) for path in SOURCE.rglob("*.py")} - {"__init__"} == set(ORDER)


def test_modules_import_only_from_the_left():
    wrong, seen = [], 0
    for path in SOURCE.rglob("*.py"):
        if path == SOURCE / "__init__.py":
            continue  # it lists what users import
        for name in imported(path):
            if name.startswith("lupi."):
                seen += 1
                part = name.split(".")[1]
                if ORDER.index(part) > ORDER.index(part_of(path)):
                    wrong.append(f"{part_of(path)} imports {name}")
    assert not wrong
    assert seen > 50


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from typer.testing import CliRunner; from lupi.cli import app;"
        "result = CliRunner().invoke(app, ['--help']); assert result.exit_code == 0, result.output;"
        "print([name for name in ('torch', 'sklearn', 'pandas', 'numpy') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "[]"


def test_lightning_waits_until_it_is_asked_for():
    code = (
        "import sys; import lupi; lupi.PrivilegedClassifier; print('lightning' in sys.modules, 'onnx' in sys.modules)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == "False False"


def test_modules_are_there_when_they_are_asked_for():
    code = (
        "import lupi; print(lupi.methods.names()[0], lupi.training.fit.__name__, 'nn' in dir(lupi), lupi.__version__)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert output.stdout.strip() == f"no-pi fit True {lupi.__version__}"

"""What the library imports is declared, and the built wheel needs nothing else."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pandas as pd
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.importers.exports import EXPORTS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BY_IMPORT = {"sklearn": "scikit-learn", "PIL": "pillow"}
"""Distributions whose import has another name."""
WITH_TORCH = "triton"
"""What torch's CUDA builds bring along; kernels are optional."""
ON_DEMAND = ("kernels.py",)
"""Modules that are imported only if what they need is installed."""


def names(requirements):
    return {canonicalize_name(Requirement(text).name) for text in requirements}


def imported(tree):
    """Return the names of other distributions' packages that some code imports, strings given to `import_extra` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_extra":
            yield ast.literal_eval(node.args[0])


def distributions(nodes):
    found = {module.split(".")[0] for node in nodes for module in imported(node)}
    return {
        canonicalize_name(BY_IMPORT.get(name, name))
        for name in found - sys.stdlib_module_names - {"lupi", "lupi_paper"}
    }


def test_imports_are_declared():
    core = names(PROJECT["dependencies"])
    extras = set().union(*map(names, PROJECT["optional-dependencies"].values()))
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        at_once = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        if path.name not in ON_DEMAND:
            assert distributions(at_once) <= core, path
        assert distributions([tree]) - {WITH_TORCH} <= core | extras, path


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Install the built wheel into an empty environment, and link what it declares, with two extras, into it.

    Returns the folder of its programs.
    """
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = folder.glob("lupi-*.whl")
    venv.create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    subprocess.run([*pip, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (installed,) = metadata.distributions(name="lupi", path=[str(site)])
    for distribution in closure(installed, ("excel", "export")):
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            link = site / top
            if not link.exists():
                link.symlink_to(distribution.locate_file(top))
    return python.parent


def closure(distribution, extras):
    """Return the distributions that a distribution needs, and those that these need."""
    found, queue = {}, [(distribution, extras)]
    while queue:
        one, wanted = queue.pop()
        for need in map(Requirement, one.requires or ()):
            if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                key = canonicalize_name(need.name), frozenset(need.extras)
                if key not in found:
                    found[key] = metadata.distribution(need.name)
                    queue.append((found[key], need.extras))
    return found.values()


VARIABLES = {key: value for key, value in os.environ.items() if not re.match("PYTHON|COVERAGE|PYTEST", key)}
"""Environment variables that have nothing to do with this environment."""


def execute(*command, folder):
    done = subprocess.run(command, cwd=folder, env=VARIABLES, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def program(environment, tmp_path_factory):
    """A process of the environment that runs commands, so that it imports the library once."""
    started = subprocess.Popen(
        [environment / "python", Path(__file__).parent / "programs" / "run_commands.py"],
        cwd=tmp_path_factory.mktemp("program"),
        env=VARIABLES,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    yield started
    started.communicate()


def test_the_environment_holds_the_wheel_and_what_it_declares(environment, tmp_path):
    code = (
        "import importlib.util as u, lupi; "
        "print(lupi.__file__, [n for n in ('pytest', 'polars', 'transformers') if u.find_spec(n)])"
    )
    where, others = execute(environment / "python", "-c", code, folder=tmp_path).split(maxsplit=1)
    assert Path(where).is_relative_to(environment.parent)
    assert others.strip() == "[]"
    assert execute(environment / "lupi", "--version", folder=tmp_path).strip() == f"lupi {metadata.version('lupi')}"


@pytest.mark.parametrize("tool", EXPORTS)
def test_commands_from_an_export_to_a_report_a_model_and_predictions(tool, program, tmp_path):
    table = "labels.parquet"
    privileged = {
        "label-studio": "annotator,seconds,timestamp,prediction,prediction_score,prediction_version",
        "argilla": "annotator,prediction,prediction_score,prediction_version",
        "prodigy": "annotator,timestamp,prediction_score",
        "huggingface": "annotator,seconds",
        "judges": "annotator,seconds",
    }.get(tool, "annotator")
    roles = ["--target", "label", "--privileged", privileged, "--example", "example", "--epochs", "1"]
    commands = [
        ["import", tool, str(EXPORTS[tool](tmp_path)), "-o", table],
        ["diagnose", table, *roles, "--jobs", "1", "--folds", "2", "-o", "run"],
        ["train", table, *roles, "--method", "tram", "-o", "model"],
        ["predict", "model", table, "-o", "predictions.csv"],
    ]
    program.stdin.write(json.dumps([str(tmp_path), commands]) + "\n")
    program.stdin.flush()
    done = json.loads(program.stdout.readline())
    assert done["code"] == 0, done["output"]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    predictions = pd.read_csv(tmp_path / "predictions.csv")
    assert len(predictions) in (71, 72)
    assert predictions.filter(like="probability").sum(axis=1).round(5).eq(1).all()

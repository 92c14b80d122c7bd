"""What is published is consistent: one address, one version, links to files that exist, workflows that can run."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import lupi

ROOT = Path(__file__).parents[1]
FOLDERS = (".", ".github", "benchmarks", "docs", "examples", "src", "tests")
TEXTS = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).glob("*" if folder == "." else "**/*"))
    if path.suffix in (".cff", ".md", ".py", ".rst", ".toml", ".yml") and path.is_file()
]
ADDRESS = "https://github.com/lupi-learn/lupi"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read_steps(workflow):
    """Return the commands of a workflow."""
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    return [step["run"] for job in jobs for step in job["steps"] if "run" in step]


def test_every_address_is_the_one_of_pyproject():
    assert PROJECT["project"]["urls"]["Source"] == ADDRESS
    for path in TEXTS:
        for found in re.findall(r"https://github\.com/[\w-]+/lupi\b", path.read_text(encoding="utf-8")):
            assert found == ADDRESS, path


def test_addresses_of_files_are_files():
    for path in TEXTS:
        for name in re.findall(rf"{ADDRESS}/(?:blob|tree)/main/([\w./-]+)", path.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{path}: {name}"


def test_the_version_to_cite_is_that_of_the_library():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == lupi.__version__
    assert citation["repository-code"] == ADDRESS
    assert f"## {lupi.__version__}\n" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_extras_and_tests_that_exist(workflow):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    extras = PROJECT["project"]["optional-dependencies"]
    for command in read_steps(workflow):
        for line in re.findall(r"\bmake ([a-z ]+)", command):
            assert set(line.split()) <= targets, command
        for names in re.findall(r"\.\[([\w,]+)\]", command):
            assert set(names.split(",")) <= set(extras), command
        for name in re.findall(r"(?<!\S)(?:tests|src|\.ci)/[\w./]*", command):
            assert (ROOT / name).exists(), command


@pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has no workflows")
def test_the_matrix_has_every_python_that_is_promised():
    promised = {line.split(" :: ")[-1] for line in PROJECT["project"]["classifiers"] if " :: 3." in line}
    matrix = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]["newest"]
    assert set(matrix["strategy"]["matrix"]["python"]) == promised
    assert len(matrix["strategy"]["matrix"]["os"]) == 3

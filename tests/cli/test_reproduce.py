import errno
import importlib
import json
import os
import sys

import pytest
from typer.testing import CliRunner

from lupi._internal import files
from lupi._internal.files import lock_output
from lupi.cli import app
from lupi_paper import EXPERIMENTS
from tests.cli.helpers import refused, run

SMALL = ["noise=1.0,", "sample=10000", "bins=20", "annotations=100", "folds=2"]
SMALL = ["--seeds", 2, *(part for change in SMALL for part in ("--set", change))]


def test_experiments_are_listed():
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == list(EXPERIMENTS)
    for name in names:
        module = importlib.import_module(f"lupi_paper.experiments.{name.replace('-', '_')}")
        assert callable(module.run)
        assert module.Settings().seed == 0


def test_an_experiment_writes_its_results_and_repeats(tmp_path):
    small = ["--seeds", "2", "--set", "n=64", "--set", "epochs=1", "--set", "noise=0.1,"]
    outputs = []
    for output in (tmp_path / "one", tmp_path / "two"):
        result = CliRunner().invoke(app, ["reproduce", "noise-sweep", *small, "-o", str(output)])
        assert result.exit_code == 0, result.output
        assert "# Noise sweep" in result.stdout
        assert "train ε = 0.1, zeros (6/6)" in result.stderr
        outputs.append({path.name: path.read_text() for path in output.iterdir()})
    assert set(outputs[0]) == {"results.json", "results.csv", "report.md", "fits.svg", "error.svg"}
    assert json.loads(outputs[0]["results.json"])["settings"]["seeds"] == 2
    for name in ("results.csv", "fits.svg", "error.svg"):
        assert outputs[0][name] == outputs[1][name]

    (tmp_path / "one" / "own.svg").write_text("mine")
    refused(run("reproduce", "noise-sweep", *small, "-o", tmp_path / "one"), "pass `--overwrite` to replace it.")
    result = run("reproduce", "information", *SMALL, "-o", tmp_path / "one", "--overwrite")
    assert result.exit_code == 0, result.output
    left = {path.name for path in (tmp_path / "one").iterdir()}
    assert {"own.svg", "results.json"} <= left
    assert not {"fits.svg", "error.svg"} & left


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
@pytest.mark.parametrize("name", ["results.csv", "comparison.json"])
def test_files_of_others_stay(name, more, tmp_path):
    (tmp_path / name).write_text("mine")
    (tmp_path / "results.json").write_text('{"settings": {}, "results": []}' if name == "comparison.json" else "mine")
    refused(
        run("reproduce", "noise-sweep", "-o", tmp_path, *more), "new or a result of an experiment", "something else"
    )
    assert (tmp_path / name).read_text() == "mine"


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch):
    def no_space(*_):
        raise OSError(errno.ENOSPC, "no")

    monkeypatch.setattr(files, "flush", no_space)
    refused(run("reproduce", "information", *SMALL, "-o", tmp_path / "run"), "`--output`", "No space left on device.")
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="paths are bytes on Linux alone")
def test_a_folder_whose_name_is_not_utf8(tmp_path, monkeypatch):
    folder = tmp_path / "caf\udce9"
    arguments = [
        "reproduce",
        "noise-sweep",
        "--seeds",
        "2",
        "--set",
        "n=32",
        "--set",
        "epochs=1",
        "--set",
        "noise=0.1,",
    ]
    monkeypatch.setattr(sys, "argv", ["lupi", *arguments, "-o", str(folder)])
    assert CliRunner().invoke(app, sys.argv[1:]).exit_code == 0
    assert "caf?'` (lupi " in (folder / "report.md").read_text()


@pytest.mark.parametrize("rank", ["RANK", "LOCAL_RANK", "NODE_RANK"])
def test_the_other_processes_of_a_training_do_not_claim_the_folder(rank, tmp_path, monkeypatch):
    monkeypatch.setattr("lupi_paper.experiments.information.run", lambda *_, **__: sys.exit(0))
    with lock_output(tmp_path / "run"):
        monkeypatch.setenv(rank, "1")
        assert run("reproduce", "information", "-o", tmp_path / "run").exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["nose-sweep"], "Expected an experiment among linear-risk, "),
        ([], "Expected an experiment among linear-risk, "),
        (["noise-sweep", "--set", "nois=1"], "Expected a setting among seed, seeds, n, epochs, noise, but got 'nois'."),
        (["linear-risk", "--seeds", "3"], "Expected a setting among seed, n, d, "),
    ],
)
def test_what_cannot_be_reproduced_is_one_sentence(tmp_path, options, message):
    result = CliRunner().invoke(app, ["reproduce", *options, "-o", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert result.output.startswith(f"lupi: {message}")
    assert result.output.count("\n") == 1
    assert not (tmp_path / "run").exists()

import importlib
import json

import pytest
from typer.testing import CliRunner

from lupi.cli import app
from lupi.reproduce import EXPERIMENTS


def test_experiments_are_listed():
    result = CliRunner().invoke(app, ["reproduce", "--list"])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.stdout.splitlines()]
    assert names == list(EXPERIMENTS)
    for name in names:
        module = importlib.import_module(f"lupi.reproduce.{name.replace('-', '_')}")
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

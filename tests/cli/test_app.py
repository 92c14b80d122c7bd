import importlib
import json

import pandas as pd
import pytest
from typer.testing import CliRunner

from lupi.cli import app
from lupi.reproduce import EXPERIMENTS


def test_demo_prints_a_table_and_keeps_every_run(tmp_path):
    output = tmp_path / "run"
    options = ["--seeds", "2", "--methods", "tram", "--jobs", "1", "--epochs", "2", "--annotations", "2"]
    result = CliRunner().invoke(app, ["demo", *options, "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert "each labelled 2 times by one of 16 models" in result.stdout
    table = [line.split()[0] for line in result.stdout.splitlines() if "±" in line]
    assert table[-2:] == ["no-pi", "tram"]
    runs = pd.read_csv(output / "results.csv")
    assert sorted(zip(runs["method"], runs["seed"], strict=True)) == [
        ("no-pi", 0),
        ("no-pi", 1),
        ("tram", 0),
        ("tram", 1),
    ]
    facts = json.loads((output / "results.json").read_text())
    pd.testing.assert_frame_equal(pd.DataFrame(facts["runs"]), runs, rtol=1e-14)
    assert set(facts["versions"]) >= {"torch", "lupi"}
    assert "tram" in (output / "report.html").read_text()


def test_an_unknown_method_is_one_sentence_and_code_2():
    result = CliRunner().invoke(app, ["demo", "--methods", "trma"])
    assert result.exit_code == 2
    assert result.output.startswith("lupi: Expected `method` to be one of no-pi, ")
    assert result.output.strip().endswith("but got 'trma'.")


def test_bad_options_are_found_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert result.output.startswith("lupi: Expected `--output` to be writable, but got ")
    result = CliRunner().invoke(app, ["demo", "--jobs", "0", "-o", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert result.output == "lupi: Expected `--jobs` to be a number of processes or -1, but got 0.\n"
    assert not (tmp_path / "run").exists()


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

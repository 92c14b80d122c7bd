import json

import pandas as pd
from typer.testing import CliRunner

from lupi.cli import app


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
    assert facts["runs"] == runs.to_dict("records")
    assert set(facts["versions"]) >= {"torch", "lupi"}


def test_an_unknown_method_is_one_sentence_and_code_2():
    result = CliRunner().invoke(app, ["demo", "--methods", "trma"])
    assert result.exit_code == 2
    assert result.output.startswith("lupi: Expected `method` to be one of no-pi, ")
    assert result.output.strip().endswith("but got 'trma'.")


def test_bad_options_are_found_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert result.output.startswith("lupi: Expected `--output` to be a folder to write to, but got ")
    result = CliRunner().invoke(app, ["demo", "--jobs", "0", "-o", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert result.output == "lupi: Expected `--jobs` to be a number of runs, or -1, but got 0.\n"
    assert not (tmp_path / "run").exists()

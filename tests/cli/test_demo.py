import json

import pandas as pd
from typer.testing import CliRunner

from lupi.cli import app
from lupi.methods import names


def test_demo_prints_a_table_and_keeps_every_run(tmp_path):
    output = tmp_path / "run"
    options = ["--seeds", "2", "--methods", "tram", "--jobs", "1", "--epochs", "2", "--annotations", "2"]
    result = CliRunner().invoke(app, ["demo", *options, "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert "2 labels per digit, by 16 models" in result.stdout
    table = [line.split()[0] for line in result.stdout.splitlines() if " % " in line and "NLL" not in line]
    assert table[-3:] == ["no-pi", "no-pi", "tram"]
    runs = pd.read_csv(output / "results.csv")
    assert sorted(zip(runs["method"], runs["seed"], strict=True)) == [
        ("no-pi", 0),
        ("no-pi", 1),
        ("no-pi [early stopping]", 0),
        ("no-pi [early stopping]", 1),
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
    assert "`--methods`" in result.output
    assert "'trma'" in result.output


def test_bad_options_are_found_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert result.output.startswith("lupi: Expected `--output` to be writable, but got ")
    result = CliRunner().invoke(app, ["demo", "--jobs", "0", "-o", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert "`--jobs`" in result.output
    assert not (tmp_path / "run").exists()


def test_the_default_is_short_and_all_is_all(tmp_path, monkeypatch):
    shown = []

    def compare_digits(chosen, *_, **__):
        shown.append(chosen)
        raise ValueError("enough")

    monkeypatch.setattr("lupi.reproduce.demo.compare_digits", compare_digits)
    for options in ([], ["--all"], ["--methods", "pi-dual"]):
        CliRunner().invoke(app, ["demo", *options, "-o", str(tmp_path / "run")])
    assert shown[0] in (["tram"], ["tram", "auto"])
    assert shown[1:] == [names(), ["pi-dual"]]

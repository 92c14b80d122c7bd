import errno
import json
import os
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

from lupi._internal import files
from lupi.cli import app
from lupi.methods import names
from tests.cli.helpers import refused, run


def test_demo_prints_a_table_and_keeps_every_run(tmp_path):
    output = tmp_path / "run"
    options = ["--seeds", "2", "--methods", "tram", "--jobs", "1", "--epochs", "2", "--annotations", "2"]
    result = CliRunner().invoke(app, ["demo", *options, "-o", str(output)])
    assert result.exit_code == 0, result.output
    assert "2 labels per digit, by 16 models" in result.stdout
    table = [line.split()[0] for line in result.stdout.splitlines() if " % " in line and "NLL" not in line]
    assert table[-4:] == ["no-pi", "no-pi", "no-pi", "tram"]
    runs = pd.read_csv(output / "results.csv")
    assert sorted(zip(runs["method"], runs["seed"], strict=True)) == [
        ("no-pi", 0),
        ("no-pi", 1),
        ("no-pi [5 averaged]", 0),
        ("no-pi [5 averaged]", 1),
        ("no-pi [early stopping]", 0),
        ("no-pi [early stopping]", 1),
        ("tram", 0),
        ("tram", 1),
    ]
    facts = json.loads((output / "results.json").read_text())
    pd.testing.assert_frame_equal(pd.DataFrame(facts["runs"]), runs, rtol=1e-14)
    assert set(facts["versions"]) >= {"torch", "lupi"}
    assert "tram" in (output / "report.html").read_text()

    (output / "own.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in output.iterdir()}
    refused(run("demo", *options, "-o", output), "exists; pass `--overwrite` to replace it.")
    assert {path.name: path.read_bytes() for path in output.iterdir()} == before
    again = run("demo", *options, "-o", output, "--overwrite")
    assert again.exit_code == 0, again.output
    assert again.stdout == result.stdout
    assert {path.name for path in output.iterdir()} == before.keys()
    assert (output / "own.txt").read_text() == "mine"


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_files_of_others_stay(more, tmp_path):
    (tmp_path / "results.csv").write_text("mine")
    (tmp_path / "results.json").write_text('{"about": 1}')
    refused(run("demo", "-o", tmp_path, *more), "`--output` to be new or a demo, but ", "is something else.")
    assert (tmp_path / "results.csv").read_text() == "mine"


def test_a_full_disk_is_one_sentence(tmp_path, monkeypatch, make):
    def no_space(*_):
        raise OSError(errno.ENOSPC, "no")

    found = make.compared(["no-pi", "tram"])
    monkeypatch.setattr("lupi.cli.digits.compare_digits", lambda *_, **__: replace(found, notes=[""]))
    monkeypatch.setattr(files, "flush", no_space)
    refused(run("demo", "-o", tmp_path / "run"), "`--output` to be writable, but got ", "run: No space left on device.")
    assert not os.listdir(tmp_path)


def test_an_unknown_method_is_one_sentence_and_code_2():
    result = CliRunner().invoke(app, ["demo", "--methods", "trma"])
    assert result.exit_code == 2
    assert "`--methods`" in result.output
    assert "'trma'" in result.output


def test_bad_options_are_found_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert result.output.startswith("lupi: Expected `--output` to be a folder, but ")
    result = CliRunner().invoke(app, ["demo", "--jobs", "0", "-o", str(tmp_path / "run")])
    assert result.exit_code == 2
    assert "`--jobs`" in result.output
    assert not (tmp_path / "run").exists()


def test_the_default_is_short_and_all_is_all(tmp_path, monkeypatch):
    shown = []

    def compare_digits(chosen, *_, **__):
        shown.append(chosen)
        raise ValueError("enough")

    monkeypatch.setattr("lupi.cli.digits.compare_digits", compare_digits)
    for options in ([], ["--all"], ["--methods", "pi-dual"]):
        CliRunner().invoke(app, ["demo", *options, "-o", str(tmp_path / "run")])
    assert shown[0] in (["tram"], ["tram", "auto"])
    assert shown[1:] == [names(), ["pi-dual"]]

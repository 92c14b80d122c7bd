"""Import the export of a labelling tool; `tests/test_dependencies.py` goes on to a report, a model and predictions."""

import json

import pandas as pd
import pytest

from tests.cli.helpers import refused, run
from tests.importers.exports import EXPORTS, SEVERAL_QUESTIONS, write_json

QUICK = ["--epochs", 1, "--jobs", 1, "--folds", 2]


def succeed(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def test_import_writes_a_table_and_says_how_to_go_on(tmp_path):
    export = EXPORTS["label-studio"](tmp_path)
    result = succeed("import", "label-studio", export, "-o", tmp_path / "labels.parquet")
    table, after = result.stdout.splitlines()
    assert table == f"Table: {tmp_path / 'labels.parquet'}, 72 labels of 24 examples by 3 annotators"
    assert after == (
        f"Next: lupi diagnose {tmp_path / 'labels.parquet'} --target label --privileged annotator,seconds,timestamp,"
        "prediction,prediction_score,prediction_version --example example -o run/"
    )
    arguments = after.removeprefix("Next: lupi ").removesuffix(" -o run/").split()
    succeed(*arguments, *QUICK, "-o", tmp_path / "run")


def test_notes_and_options_of_an_import(tmp_path):
    export = EXPORTS["wide"](tmp_path)
    result = succeed("import", "wide", export, "--annotators", "ann,bob", "--example", "id", "-o", tmp_path / "t.csv")
    assert result.stdout.startswith("Note: Annotators: ann, bob; inputs: eve, x.")
    assert len(pd.read_csv(tmp_path / "t.csv")) == 48


def test_imports_that_are_refused(tmp_path):
    export, output = EXPORTS["prodigy"](tmp_path), tmp_path / "t.parquet"
    refused(run("import", "labelbox", export, "-o", output), "'labelbox'")
    refused(run("import", "prodigy", tmp_path / "none.jsonl", "-o", output), "there is no")
    refused(run("import", "prodigy", export, "--split", "train", "-o", output), "`--label`, but got `--split`")
    refused(run("import", "prodigy", export, "-o", tmp_path / "t.xlsx"), "`--output` to be a .parquet or .csv file")


def test_a_table_is_not_replaced_by_its_import(tmp_path):
    export = EXPORTS["wide"](tmp_path)
    before = export.read_bytes()
    (tmp_path / "link.csv").symlink_to(export)
    for name in ("wide.csv", "link.csv"):
        refused(run("import", "wide", export, "-o", tmp_path / name, "--overwrite"), "`--output` to be another file")
    assert export.read_bytes() == before


def test_an_export_with_ground_truth_says_how_to_go_on(tmp_path):
    tasks = json.loads(EXPORTS["label-studio"](tmp_path).read_text())
    for task in tasks[::2]:
        task["annotations"][0]["ground_truth"] = True
    write_json(tmp_path / "export.json", tasks)
    result = succeed("import", "label-studio", tmp_path / "export.json", "-o", tmp_path / "labels.csv")
    after = result.stdout.splitlines()[-1]
    assert "--gold gold" in after
    arguments = after.removeprefix("Next: lupi ").removesuffix(" -o run/").split()
    succeed(*arguments, *QUICK, "-o", tmp_path / "run")


@pytest.mark.parametrize("tool", SEVERAL_QUESTIONS)
def test_three_commands_to_a_report_on_the_other_answers(tool, tmp_path):
    export = SEVERAL_QUESTIONS[tool](tmp_path)
    result = succeed("import", tool, export, "-o", tmp_path / "labels.csv")
    command, *arguments = result.stdout.splitlines()[-1].removeprefix("Next: lupi ").removesuffix(" -o run/").split()
    privileged = arguments[arguments.index("--privileged") + 1].split(",")
    assert (command, "confidence" in privileged) == ("diagnose", True)
    succeed(command, *arguments, *QUICK, "-o", tmp_path / "run")
    columns = pd.read_csv(tmp_path / "run" / "information.csv")["column"].tolist()
    assert "confidence" in columns
    assert ">confidence<" in (tmp_path / "run" / "report.html").read_text()
    succeed("train", *arguments, "--method", "tram", "--epochs", 1, "-o", tmp_path / "model")
    assert "`confidence`" in (tmp_path / "model" / "README.md").read_text()

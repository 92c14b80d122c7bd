"""`lupi evaluate`, as users meet it."""

import json

import numpy as np
import pandas as pd
import pytest

import lupi
from tests.cli.helpers import refused, run

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"id": range(80), "size": RNG.normal(size=80), "who": RNG.choice(list("abc"), size=80)})
TABLE["label"] = np.where(TABLE["size"] + RNG.normal(size=80) > 0, "yes", "no")
TABLE["gold"] = np.where(TABLE["size"] > 0, "yes", "no")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    TABLE.to_csv(folder / "t.csv", index=False)
    roles = ("--target", "label", "--privileged", "who", "--example", "id", "--ignore", "gold")
    result = run("train", folder / "t.csv", *roles, "--method", "tram", "--epochs", 5, "-o", folder / "model")
    assert result.exit_code == 0, result.output
    return folder


def test_results_a_report_and_a_model_card(folder):
    model, output = folder / "model", folder / "run"
    command = ("evaluate", model, folder / "t.csv", "--target", "gold", "-o", output)
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert sorted(file.name for file in output.iterdir()) == [
        "classes.csv",
        "report.html",
        "results.csv",
        "results.json",
    ]
    scores = pd.read_csv(output / "results.csv").set_index("metric")
    predicted = lupi.load(model).predict(TABLE)["prediction"]
    assert scores["value"]["accuracy"] == pytest.approx((predicted == TABLE["gold"]).mean())
    assert f"Accuracy {100 * scores['value']['accuracy']:.1f} % (95 % interval " in result.stdout
    saved = json.loads((output / "results.json").read_text())
    assert (saved["about"]["rows"], saved["about"]["target"]) == (80, ["gold"])
    page = (output / "report.html").read_text()
    assert all(f">{heading}</h2>" in page for heading in ("Scores", "Calibration", "Classes"))
    assert "## Scores" not in (model / "README.md").read_text()
    refused(run(*command), "`--output` to be new", "pass `--overwrite`")
    for _ in range(2):
        assert run(*command, "--overwrite", "--card").exit_code == 0
    card = (model / "README.md").read_text()
    assert card.count("## Scores") == 1
    assert f"| accuracy, % | {100 * scores['value']['accuracy']:.1f} | " in card
    lupi.load(model)


def test_what_is_refused(folder):
    model, table = folder / "model", folder / "t.csv"
    refused(run("evaluate", model, table, "--target", "truth", "-o", folder / "x"), "'truth'")
    refused(run("evaluate", model, table, "--target", "gold,label", "-o", folder / "x"), "`--target` to name 1 column")
    refused(run("evaluate", model, table, "--target", "size", "-o", folder / "x"), "'size'", "a string as in training")
    refused(run("evaluate", model, table, "--target", "gold", "-o", model / "x"), "`--output` to be another file")
    refused(run("evaluate", model, table, "--target", "gold", "-o", table), "`--output`")
    TABLE.assign(gold="perhaps").to_csv(folder / "other.csv", index=False)
    refused(run("evaluate", model, folder / "other.csv", "--target", "gold", "-o", folder / "x"), "'perhaps'")
    TABLE[:1].to_csv(folder / "one.csv", index=False)
    refused(run("evaluate", model, folder / "one.csv", "--target", "gold", "-o", folder / "x"), "two test examples")
    assert not (folder / "x").exists()
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    result = run("evaluate", model, table, "--target", "gold", "-o", folder / "mine", "--overwrite")
    refused(result, "`--output` to be new or a result of an evaluation, but ", "is something else.")

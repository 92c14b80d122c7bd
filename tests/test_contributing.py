"""The worked examples of CONTRIBUTING.md, applied to a copy of the library: each changes at most three source files."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lupi

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = dict(re.findall(r"^### Example: an? (.*?)\n.*?^```diff\n(.*?)^```", PAGE, re.M | re.S))


def apply(diff, folder):
    """Apply a diff, whose hunks need no line numbers, and return the names of the files that it changes."""
    files = re.split(r"^--- (.*)\n", diff, flags=re.M)[1:]
    for name, hunks in zip(files[::2], files[1::2], strict=True):
        text = (folder / name).read_text() if (folder / name).exists() else ""
        for hunk in re.split(r"^@@\n", hunks, flags=re.M)[1:]:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            assert text.count(old) == 1, f"{name} does not have once:\n{old}"
            text = text.replace(old, "".join(line[1:] or "\n" for line in lines if line[0] in " +"))
        (folder / name).write_text(text)
    return files[::2]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"price": np.exp(rng.normal(size=60)), "annotator": rng.choice(["Ann", "Bob"], 60)})
    frame["y"] = np.log(frame["price"]) + rng.normal(0, 0.1, 60)
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


@pytest.fixture
def run(tmp_path):
    """Apply an example to a copy of the library and return a function that runs a command there."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src"), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}

    applied = []

    def run(example, *arguments):
        if example not in applied:
            assert len(apply(EXAMPLES[example], tmp_path)) <= (3 if example == "`TableSpec` field" else 2)
            applied.append(example)
        done = subprocess.run(
            [sys.executable, *(() if arguments[0] == "-c" else ("-m", "lupi")), *map(str, arguments)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_page_has_an_example_of_each():
    assert set(EXAMPLES) == {
        "metric",
        "kind of column",
        "`TableSpec` field",
        "importer",
        "shared command-line option",
        "diagnose check",
    }


def test_a_new_metric_is_in_results_and_report(run, table, tmp_path):
    options = ["--methods", "tram", "--seeds", 2, "--epochs", 1, "--jobs", 1, "-o", tmp_path / "run"]
    run("metric", "compare", table, "--target", "y", "--privileged", "annotator", *options)
    results = pd.read_csv(tmp_path / "run" / "results.csv")
    assert (results["largest"] > results["rmse"]).all()
    assert "largest error difference" in (tmp_path / "run" / "report.html").read_text()


def test_a_new_kind_of_column_can_be_chosen(run, table, tmp_path):
    options = ["--kind", "price=amount", "--epochs", 1, "-o", tmp_path / "model"]
    shown = run("kind of column", "train", table, "--target", "y", "--privileged", "annotator", *options)
    assert "1 amount" in shown
    predictions = tmp_path / "predictions.csv"
    run("kind of column", "predict", tmp_path / "model", table, "-o", predictions)
    assert len(pd.read_csv(predictions)) == 60


USE_KIND = """
import numpy as np, pandas as pd, lupi
X = pd.read_csv("table.csv")
y = np.where(X.pop("y") > 0, "dear", "cheap")
model = lupi.PrivilegedClassifier("tram", kind={"price": "amount", "paid": "amount"}, epochs=1, random_state=0)
model.fit(X[["price"]], y, privileged=X.rename(columns={"price": "paid"}))
model.save("classifier")
again = lupi.load("classifier")
np.testing.assert_array_equal(again.predict_proba(X[["price"]]), model.predict_proba(X[["price"]]))
scale = np.log1p(X["price"])
expected = (scale - scale.mean()) / scale.std(ddof=0)
np.testing.assert_allclose(model.input_encoder_.transform(X[["price"]])[:, 0], expected, rtol=1e-5, atol=1e-5)
features = model.privileged_encoder_.transform(X.rename(columns={"price": "paid"})).toarray()
np.testing.assert_allclose(features[:, 0], expected, rtol=1e-5, atol=1e-5)
"""


@pytest.mark.usefixtures("table")
def test_a_new_kind_of_column_works_in_an_estimator(run):
    run("kind of column", "-c", USE_KIND)


def test_a_new_field_of_a_table_reaches_every_command(run, table, tmp_path):
    frame = pd.read_csv(table).assign(weight=[0.1, 1.0, 2.0] * 20)
    frame.to_csv(table, index=False)
    frame[frame["weight"] > 0.1].to_csv(tmp_path / "heavy.csv", index=False)
    options = ["--target", "y", "--privileged", "annotator", "--weight", "weight", "--epochs", 1]
    few = ["--minimum-weight", 0.5]
    shown = run("`TableSpec` field", "train", table, *options, *few, "-o", tmp_path / "some")
    assert "20 labels have a weight below 0.5 and are left out." in shown
    run("`TableSpec` field", "train", tmp_path / "heavy.csv", *options, "-o", tmp_path / "heavy")
    X = frame[["price"]]
    np.testing.assert_array_equal(*(lupi.load(tmp_path / name).estimator.predict(X) for name in ("some", "heavy")))
    for command in ("compare", "diagnose"):
        assert "--minimum-weight" in run("`TableSpec` field", command, "--help")


def test_a_new_check_is_on_the_page_in_a_file_and_in_the_summary(run, table, tmp_path):
    frame = pd.read_csv(table)
    frame.assign(y=np.where(frame["y"] > 0, "dear", "cheap")).to_csv(table, index=False)
    options = ["--folds", 2, "--epochs", 1, "--jobs", 1, "-o", tmp_path / "run"]
    shown = run("diagnose check", "diagnose", table, "--target", "y", "--privileged", "annotator", *options)
    count = len(pd.read_csv(tmp_path / "run" / "ties.csv"))
    assert f"{count} of 60 examples need another label." in shown
    assert json.loads((tmp_path / "run" / "results.json").read_text())["findings"]["ties"] == {"count": count}
    assert "Examples with no label that is probably true." in (tmp_path / "run" / "report.html").read_text()


def test_a_new_importer_reads_an_export(run, tmp_path):
    (tmp_path / "votes.txt").write_text("Ann: film 7 is good\nBob: film 7 is bad\nAnn: film 8 is bad\nBob: film 8\n")
    shown = run("importer", "import", "notebook", "votes.txt", "-o", "labels.csv")
    assert shown.startswith("Note: 1 empty labels are left out.\nTable: labels.csv, 3 labels of 2 examples by 2 ")
    labels = pd.read_csv(tmp_path / "labels.csv")
    assert labels["label"].tolist() == ["good", "bad", "bad"]
    assert labels["annotator"].tolist() == ["Ann", "Bob", "Ann"]


@pytest.mark.parametrize("command", ["train", "compare", "diagnose"])
def test_a_new_shared_option_is_in_the_help_of_every_command(run, command):
    assert "--l2" in run("shared command-line option", command, "--help")


def test_a_new_shared_option_reaches_the_training(run, table, tmp_path):
    options = ["--l2", "0.001", "--epochs", 1, "-o", tmp_path / "model"]
    run("shared command-line option", "train", table, "--target", "y", "--privileged", "annotator", *options)
    assert lupi.load(tmp_path / "model").estimator.l2 == 0.001

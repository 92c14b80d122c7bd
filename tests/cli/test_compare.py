"""`lupi compare`, as users meet it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lupi import methods
from lupi.compare.cache import RunFolder
from tests.cli.helpers import refused, run

RNG = np.random.default_rng(0)
N = 80
TABLE = pd.DataFrame({"id": np.repeat([f"i{i}" for i in range(N)], 2), "size": np.repeat(RNG.normal(size=N), 2)})
TABLE["annotator"] = RNG.integers(5, size=2 * N)
TABLE["seconds"] = RNG.exponential(size=2 * N)
TABLE["label"] = np.where((TABLE["size"] > 0) ^ (RNG.random(2 * N) < 0.2), "yes", "no")
TABLE["gold"] = np.where(TABLE["size"] > 0, "yes", "no")
TEST = pd.DataFrame({"size": RNG.normal(size=30)})
TEST["label"] = np.where(TEST["size"] > 0, "yes", "no")
ROLES = ["--target", "label", "--privileged", "annotator,seconds", "--example", "id", "--ignore", "gold"]


@pytest.fixture
def table(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")
    TEST.to_parquet(tmp_path / "test.parquet")
    return tmp_path / "table.parquet"


def options(table, *more, roles=ROLES, epochs=1):
    few = ["--epochs", epochs, "--jobs", 1] + ([] if "--methods" in more else ["--methods", "tram"])
    few += [] if "--seeds" in more or "--folds" in more else ["--seeds", 2]
    return ["compare", table, *roles, *few, "-o", table.parent / "run", *more]


def compare(table, *more, **own):
    return run(*options(table, *more, **own))


def test_from_a_table_to_a_verdict(table):
    result = compare(table, "--test", table.parent / "test.parquet", "--controls")
    assert result.exit_code == 0, result.output
    for part in (
        "Task: classification (the target holds names).",
        "Privileged: annotator (category), seconds (number).",
        "Annotators: annotator, by its name; `--annotator` names another column.",
        "difference [95 % interval]",
        "tram [PI shuffled]",
        "tram",
        "no-pi [early stopping]",
        "majority-vote",
        "\nNLL: tram ",
        "\nAccuracy: tram ",
        "Note: Scored on 30 labels of ",
        "2 seeds, which redraw initial weights",
        "results.csv",
    ):
        assert part in result.stdout
    assert result.stderr.splitlines()[-1].endswith("(18/18)")
    folder = table.parent / "run"
    written = ["comparison.json", "report.html", "results.csv", "results.json", "runs", "summary.csv"]
    assert sorted(os.listdir(folder)) == written
    facts = json.loads((folder / "results.json").read_text())
    assert facts["command"].startswith("lupi")
    assert set(facts["versions"]) >= {"lupi", "torch", "python"}
    assert facts["seeds"] == [0, 1]
    assert len(pd.read_csv(folder / "results.csv")) == 18


def test_other_forms_of_tables_and_folds(table):
    TABLE.to_csv(table.parent / "t.csv", index=False)
    (table.parent / "t").mkdir()
    TABLE[:80].to_parquet(table.parent / "t" / "0.parquet")
    TABLE[80:].to_parquet(table.parent / "t" / "1.parquet")
    found = []
    for path in (table, table.parent / "t.csv", table.parent / "t"):
        output = table.parent / f"run {len(found)}"
        result = run(*options(path, "--folds", 2), "-o", output)
        assert result.exit_code == 0, result.output
        assert "Note: Scored on held-out labels, not on true ones" in result.stdout
        assert "2 folds of 80 examples." in result.stdout
        found.append(pd.read_csv(output / "results.csv").drop(columns="seconds"))
    pd.testing.assert_frame_equal(found[1], found[0])
    pd.testing.assert_frame_equal(found[2], found[0])


def test_a_csv_test_table_is_read_with_the_types_of_training(tmp_path):
    """Labels 1 and x are strings; in the test table, where there is no x, 1 is a string too."""
    TABLE.assign(label=np.where(TABLE["label"] == "yes", "1", "x")).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "test.csv").write_text("size,label\n" + "".join(f"{i},1\n" for i in range(5)))
    result = compare(tmp_path / "t.csv", "--test", tmp_path / "test.csv")
    assert result.exit_code == 0, result.output


def test_a_few_methods_are_the_default(table):
    assert compare(table, "--methods", "").exit_code == 0
    few = pd.read_csv(table.parent / "run" / "summary.csv")["method"].tolist()
    ways = ["no-pi [early stopping]", "no-pi [5 averaged]"]
    assert few[:5] == ["no-pi", *ways, "majority-vote", "dawid-skene"]
    assert {"tram", "auto"} < set(few) < {*methods.names(), *ways}


# -------------------------------------------------------------------------------- interruptions


def list_children(number):
    """Return the numbers of the processes that a process has started, and those of theirs."""
    try:
        own = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    except OSError:
        return []
    return [one for child in map(int, own) for one in (child, *list_children(child))]


def is_alive(number):
    try:
        return "State:\tZ" not in Path(f"/proc/{number}/status").read_text()
    except OSError:
        return False


def test_a_killed_comparison_goes_on_to_the_same_results(table):
    """Killed after its first runs, with the processes that it started, and finished by another one with other jobs."""
    many = ("--seeds", 7, "--test", table.parent / "test.parquet", "--jobs", 2)
    arguments = [str(argument) for argument in options(table, *many, epochs=8)]
    process = subprocess.Popen([sys.executable, "-m", "lupi", *arguments], stdout=-1, stderr=-1)
    runs = table.parent / "run" / "runs"
    until = time.monotonic() + 60
    while not (runs.is_dir() and list(runs.glob("[!.]*.npz"))) and time.monotonic() < until:
        time.sleep(0.005)
    workers = list_children(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    if sys.platform == "linux":
        assert len(workers) >= 2
        while any(map(is_alive, workers)) and time.monotonic() < until:
            time.sleep(0.02)
        assert not any(map(is_alive, workers)), "they could write into a later run's folder"
    finished = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in runs.glob("[!.]*.npz")}
    assert 1 <= len(finished) < 42
    groups = {path.name.rsplit("-", 1)[0]: [] for path in finished}
    for path in finished:
        groups[path.name.rsplit("-", 1)[0]].append(int(path.stem.rsplit("-", 1)[1]))
    whole = sum(len(part) for own in groups.values() for part in ([0, 1, 2, 3, 4], [5, 6]) if set(part) <= set(own))
    assert not (table.parent / "run" / "results.json").exists()
    result = run(*arguments, "--jobs", 1)
    assert result.exit_code == 0, result.output
    if whole:
        assert f"Resuming: {whole} of 42 runs are already finished." in result.stdout
    kept = [path for path, state in finished.items() if (path.stat().st_mtime_ns, path.read_bytes()) == state]
    assert len(kept) == whole
    whole = run(*arguments, "--jobs", 1, "-o", table.parent / "whole")
    assert whole.exit_code == 0, whole.output
    for name in ("results.csv", "summary.csv"):
        one, other = (pd.read_csv(table.parent / folder / name).drop(columns="seconds") for folder in ("run", "whole"))
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_a_sample(table):
    result = compare(table, "--sample", 100)
    assert result.exit_code == 0, result.output
    note = "A random sample of 100 of 160 annotations was used, all those of 50 examples."
    assert f"Note: {note}" in result.stdout
    assert result.stderr.splitlines()[0] == "14 trainings of 100 annotations"
    folder = table.parent / "run"
    facts = json.loads((folder / "results.json").read_text())
    assert facts["about"]["sample"] == 100
    assert note in facts["notes"]
    assert note in (folder / "report.html").read_text()
    refused(compare(table), "sample 100, not none")
    assert "trainings of" not in compare(table, "--sample", 100).stderr, "all are finished"


def test_methods_and_seeds_are_added_in_the_same_folder(table):
    assert compare(table, "--seeds", 5).exit_code == 0
    result = compare(table, "--seeds", 6, "--methods", "tram,pi-dual")
    assert result.exit_code == 0, result.output
    runs = pd.read_csv(table.parent / "run" / "results.csv")
    assert runs.groupby("method")["seed"].nunique().to_dict().items() >= {"no-pi": 6, "tram": 6, "pi-dual": 6}.items()
    assert f"Resuming: {5 * (runs['method'].nunique() - 1)} of {len(runs)} runs are already finished." in result.stdout


def test_another_comparison_in_the_same_folder(table):
    assert compare(table).exit_code == 0
    before = (table.parent / "run" / "results.csv").read_text()
    refused(compare(table, "--seeds", 3, epochs=2), "`--output` to be new or of the same", "has epochs 1, not 2; pass")
    refused(compare(table, epochs=2), "epochs 1, not 2; pass `--overwrite` to start again.")
    TABLE.assign(label=TABLE["gold"]).to_parquet(table)
    refused(compare(table), "has data ")
    assert (table.parent / "run" / "results.csv").read_text() == before
    result = compare(table, "--overwrite")
    assert result.exit_code == 0, result.output
    assert "Resuming" not in result.stdout
    assert (table.parent / "run" / "results.csv").read_text() != before


def test_finished_work_is_only_shown_again(table):
    first, again = compare(table), compare(table)
    assert "Resuming: 12 of 12 runs are already finished." in again.stdout
    assert again.stdout.replace("Resuming: 12 of 12 runs are already finished.\n", "") == first.stdout


# -------------------------------------------------------------------------------- errors


def test_options_that_make_no_sense(table):
    refused(compare(table, "--methods", "trem"), "'trem'", "no-pi, ")
    refused(compare(table, "--jobs", 0), "`--jobs`")
    refused(compare(table, "--seeds", 2, "--folds", 2), "`--seeds` or `--folds`, but got both")
    refused(compare(table, "--folds", 2, "--test", table.parent / "test.parquet"), "`--folds` or `--test`")
    refused(compare(table, "--device", "abacus"), "`--device`", "'abacus'")
    refused(compare(table.parent / "none.csv"), "there is no ")
    refused(compare(table, "--test", table.parent / "none.csv"), "there is no ")
    refused(compare(table, roles=["--target", "lable", *ROLES[2:]]), "'lable'", "did you mean 'label'?")
    refused(compare(table, roles=[*ROLES[:2], "--privileged", "who", *ROLES[4:]]), "'who'")
    refused(compare(table, roles=[*ROLES[:2], "--privileged", "", *ROLES[4:]]), "`--privileged` to name columns")
    refused(compare(table, "--kind", "gold=text"), "`--kind`", "'gold'")
    assert not (table.parent / "run").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"label": "yes"}, "'label' to have at least two values, but all are 'yes'"),
        ({"label": None}, "'label' to be one of booleans, numbers, strings, but it is null"),
        ({"size": [np.inf, *TABLE["size"][1:]]}, "'size' to be finite numbers, but got 'inf' in row 0"),
        ({"id": [None, *TABLE["id"][1:]]}, "`--example` to have an id in every row, but row 0 has none"),
        ({"id": [f"i{i % 9}" for i in range(2 * N)], "size": 1.0}, "at least 10 examples to hold some out, but got 9"),
        (
            {"size": TABLE.index * 1.0},
            "differ in 'size'; a column that describes the label is `--privileged`",
        ),
    ],
)
def test_tables_that_cannot_be_compared_on(change, said, table):
    TABLE.assign(**change).to_parquet(table)
    refused(compare(table), said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda test: test.drop(columns="size"), "to have the model's input columns, but it has no 'size'"),
        (lambda test: test.drop(columns="label"), "to have the target 'label', but it has no such column"),
        (lambda test: test.assign(size="big"), "to be a number as in training, but it is a string"),
        (lambda test: test.assign(label=1), "to be a string as in training, but it is a number"),
        (lambda test: test.assign(label="maybe"), "labels of the training table, but row 0 has 'maybe'"),
        (lambda test: test.assign(label=None).astype({"label": "string"}), "to have values, but all are missing"),
        (lambda test: test[:1], "at least two examples, but got 1"),
        (lambda test: test[:0], "to have rows, but it is empty"),
    ],
    ids=range(8),
)
def test_test_tables_that_do_not_fit(change, said, table):
    change(TEST).to_parquet(table.parent / "test.parquet")
    refused(compare(table, "--test", table.parent / "test.parquet"), said)


def test_a_folder_of_something_else(table):
    (table.parent / "run").mkdir()
    (table.parent / "run" / "thesis.tex").write_text("years of work")
    refused(compare(table), "is something else")
    refused(compare(table, "--overwrite"), "is something else")
    refused(run(*options(table), "-o", table / "run"), "`--output`")


def test_missing_values_of_a_test_table_are_told_and_those_of_a_split_are_not(table):
    TEST.assign(size=TEST["size"].where(TEST.index > 0)).to_parquet(table.parent / "test.parquet")
    result = compare(table, "--test", table.parent / "test.parquet")
    assert "Note: tram: Input column 'size'" in result.stdout
    TABLE.assign(size=TABLE["size"].where(TABLE["id"] != "i0")).to_parquet(table)
    result = compare(table, "--folds", 2, "--overwrite")
    assert result.exit_code == 0, result.output
    assert "Input column 'size'" not in result.output


@pytest.mark.parametrize("last", [False, True])
def test_an_output_that_is_removed_meanwhile_is_an_error(table, monkeypatch, last):
    """Otherwise the folder would have results that no later comparison accepts."""
    output = table.parent / "run"
    save = RunFolder.save

    def save_and_remove(self, *arguments):
        if last:
            save(self, *arguments)
        shutil.rmtree(output, ignore_errors=True)
        if not last:
            save(self, *arguments)

    monkeypatch.setattr(RunFolder, "save", save_and_remove)
    refused(compare(table, "--methods", "tram"), "`--output`", "run")
    monkeypatch.undo()
    assert compare(table, "--methods", "tram").exit_code == 0

"""`lupi diagnose`, as users meet it."""

import json

import numpy as np
import pandas as pd
import pytest

from lupi.crowd.agreement import krippendorff_alpha
from tests.cli.helpers import refused
from tests.cli.helpers import run as run_command

N = 240
RNG = np.random.default_rng(0)
SIZE = RNG.normal(size=N // 3)
TABLE = pd.DataFrame(
    {
        "id": np.repeat([f"{i:03}" for i in range(N // 3)], 3),
        "size": np.repeat(SIZE, 3),
        "worker": RNG.integers(6, size=N),
        "seconds": RNG.exponential(size=N),
        "gold": np.repeat(np.where(SIZE > 0, "yes", "no"), 3),
    }
)
CARELESS = (TABLE["worker"] == 4) & (RNG.random(N) < 0.8)
TABLE["label"] = np.where(CARELESS, np.where(TABLE["gold"] == "yes", "no", "yes"), TABLE["gold"])
ROLES = ["--target", "label", "--privileged", "worker,seconds", "--example", "id"]
FAST = ["--folds", 2, "--epochs", 3, "--jobs", 1]


def run(*arguments):
    return run_command("diagnose", *arguments)


@pytest.fixture
def table(tmp_path):
    TABLE.to_parquet(tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("diagnosed")
    TABLE.to_csv(folder / "table.csv", index=False)
    result = run(folder / "table.csv", *ROLES, "--gold", "gold", "--ignore", "gold", *FAST, "-o", folder / "run")
    assert result.exit_code == 0, result.output
    return result, folder / "run"


def test_it_says_what_it_chose_and_then_the_verdict(good):
    text = good[0].stdout
    assert "Privileged: worker (category), seconds (number)." in text
    assert "Annotators: worker, by its name" in text
    first = text.split("\n\n")[1]
    assert "are probably wrong. First check rows " in first
    assert "worth having" in text
    assert "labels (" in text
    assert "are probably wrong." in text
    assert "True labels: gold, known in" in text
    assert "anchor what is said about annotators and labels. No network is trained on them" in text
    assert "information in" in good[0].stderr
    assert "out of fold" in good[0].stderr


def test_all_files_are_there_and_agree(good):
    folder = good[1]
    assert sorted(path.name for path in folder.iterdir()) == [
        "agreement.csv",
        "annotators.csv",
        "balance.csv",
        "confusion.csv",
        "consensus.csv",
        "information.csv",
        "judges.csv",
        "labels.csv",
        "next.csv",
        "report.html",
        "results.csv",
        "results.json",
        "scores.csv",
    ]
    facts = json.loads((folder / "results.json").read_text())
    assert facts["command"].startswith("lupi")
    assert {"lupi", "torch"} <= set(facts["versions"])
    assert facts["seed"] == 0
    assert facts["annotator"] == "worker"
    assert facts["roles"]["ignored"] == ["gold"]
    information = pd.read_csv(folder / "information.csv")
    assert information["column"].tolist() == ["worker", "seconds", "(all together)", "(shuffled)"]
    np.testing.assert_allclose(
        information["estimate"], [facts["findings"]["information"][name]["estimate"] for name in information["column"]]
    )
    labels = pd.read_csv(folder / "labels.csv", dtype={"example": str})
    assert len(labels) == N == facts["findings"]["labels"]["count"]
    np.testing.assert_array_equal(labels["example"], TABLE["id"].to_numpy()[labels["row"]])
    np.testing.assert_array_equal(labels["annotator"], TABLE["worker"].to_numpy()[labels["row"]])
    np.testing.assert_allclose(labels["size"], TABLE["size"].to_numpy()[labels["row"]])  # the content
    consensus = pd.read_csv(folder / "consensus.csv", dtype={"example": str})
    assert consensus["example"].tolist() == TABLE["id"].unique().tolist()
    assert pd.read_csv(folder / "confusion.csv")["count"].sum() == pytest.approx(N, abs=0.5)
    assert pd.read_csv(folder / "balance.csv")["labels"].sum() == N
    assert facts["findings"]["agreement"]["alpha"] == pytest.approx(krippendorff_alpha(TABLE["label"], TABLE["id"]))
    annotators = pd.read_csv(folder / "annotators.csv")
    assert annotators["annotator"].iloc[0] == 4
    scores = pd.read_csv(folder / "results.csv").query("part == 'scores' and quantity == 'Spearman'")
    assert {"support", "reliability", "majority vote", "model alone"} == set(scores["name"])
    report = (folder / "report.html").read_text()
    assert facts["verdict"][0].split(":")[0] in report
    assert "seconds" in report


def test_probabilities_of_another_model(table):
    p = np.where(TABLE[["gold"]].to_numpy() == np.array([["no", "yes"]]), 0.9, 0.1)
    file, folder = table.parent / "p.npy", table.parent / "run"
    np.save(file, p)
    result = run(table, *ROLES, "--ignore", "gold", "--probabilities", file, *FAST, "-o", folder)
    assert result.exit_code == 0, result.output
    labels = pd.read_csv(folder / "labels.csv")
    wrong = (TABLE["label"] != TABLE["gold"]).to_numpy()[labels["row"]]
    assert labels.loc[wrong, "right"].max() < labels.loc[~wrong, "right"].min()
    again = (table, *ROLES, "--ignore", "gold", "--probabilities", file, *FAST, "-o", folder, "--overwrite")
    for bad, word in ((p[1:], "shape [240, 2]"), (2 * p, "row 0 sums to 2")):
        np.save(file, bad)
        refused(run(*again), word, "--probabilities")
    file.write_text("no array")
    refused(run(*again), ".npy")


def test_labels_with_times_have_periods(tmp_path):
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N), "h")
    TABLE.assign(when=when).drop(columns=["gold", "seconds"]).to_csv(tmp_path / "table.csv", index=False)
    roles = ["--target", "label", "--privileged", "worker,when", "--example", "id"]
    result = run(tmp_path / "table.csv", *roles, *FAST, "-o", tmp_path / "run")
    assert result.exit_code == 0, result.output
    periods = pd.read_csv(tmp_path / "run" / "periods.csv")
    assert periods["labels"].sum() == N
    assert "Over time" in (tmp_path / "run" / "report.html").read_text()


def test_an_older_diagnosis_is_replaced_when_asked(table):
    folder = table.parent / "run"
    folder.mkdir()
    for name in ("information.csv", "annotators.csv"):
        (folder / name).write_text("old")
    roles = ["--target", "label", "--privileged", "seconds", "--ignore", "gold,worker,id"]
    refused(run(table, *roles, *FAST, "-o", folder), "output", "overwrite")
    assert (folder / "information.csv").read_text() == "old"
    result = run(table, *roles, *FAST, "-o", folder, "--overwrite")
    assert result.exit_code == 0, result.output
    assert "no privileged column with several annotators has a name such as 'annotator'" in result.stdout
    assert not (folder / "annotators.csv").exists()
    assert list(pd.read_csv(folder / "labels.csv")) == ["row", "given", "likely", "wrong", "right", "size"]
    assert list(pd.read_csv(folder / "consensus.csv")) == [
        "row",
        "label",
        "probability",
        "labels",
        "agreement",
        "given",
    ]
    assert not (folder / "confusion.csv").exists()
    # Without ids, rows with equal inputs are one example.
    assert json.loads((folder / "results.json").read_text())["examples"] == N // 3


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--target", "labl", "--privileged", "worker"], ["target", "did you mean 'label'"]),
        ([*ROLES, "--gold", "glod"], ["gold", "did you mean 'gold'"]),
        ([*ROLES, "--gold", "seconds"], ["'seconds'", "gold", "privileged"]),
        ([*ROLES, "--gold", "label"], ["gold", "target"]),
        (["--target", "label", "--privileged", "worker", "--gold", "size", "--ignore", "gold,id"], ["gold", "'no'"]),
        ([*ROLES, "--annotator", "label"], ["annotator", "target"]),
        ([*ROLES, "--annotator", "who"], ["annotator"]),
        ([*ROLES, "--ignore", "gold", "--method", "trams"], ["trams"]),
        ([*ROLES, "--ignore", "gold", "--jobs", "0"], ["jobs"]),
        ([*ROLES, "--ignore", "gold", "--folds", "50"], ["folds", "40"]),
        (["--target", "label", "--ignore", "gold,worker,id,seconds"], ["privileged"]),
        (["--target", "seconds", "--privileged", "worker", "--ignore", "id,label", "--gold", "gold"], ["gold"]),
    ],
)
def test_errors_are_one_sentence(options, parts, table):
    refused(run(table, *options, "-o", table.parent / "run"), *parts)


def test_a_folder_of_something_else_is_left_alone(table):
    (table.parent / "notes").mkdir()
    (table.parent / "notes" / "mine.txt").write_text("mine")
    for more in ([], ["--overwrite"]):
        refused(run(table, *ROLES, "-o", table.parent / "notes", *more), "output", "something else")
    refused(run(table, *ROLES, "-o", table), "is a file")
    refused(run(table, *ROLES, "-o", table / "run"), "output")
    assert (table.parent / "notes" / "mine.txt").read_text() == "mine"


def test_lists_of_names_are_no_privileged_column(tmp_path):
    TABLE.assign(pair=[["a", "b"]] * N).to_parquet(tmp_path / "t.parquet")
    roles = ["--target", "label", "--privileged", "pair", "--ignore", "gold,id,worker"]
    refused(run(tmp_path / "t.parquet", *roles, "-o", tmp_path / "run"), "'pair'", "list")

"""`--gold` and `--trust`, in every command that reads a table of labels."""

import json

import numpy as np
import pandas as pd
import pytest

from tests.cli.helpers import refused, run

N = 160
RNG = np.random.default_rng(0)
SIZE = RNG.normal(size=N)
TRUTH = np.where(SIZE > 0, "yes", "no")
LIES = np.where(SIZE > 0, "no", "yes")
ROWS = np.arange(4 * N) // 4
JUDGE = np.tile(["expert", "x", "y", "z"], N)
LIED = (JUDGE != "expert") & (RNG.random(4 * N) < 0.8)
TABLE = pd.DataFrame({"id": ROWS, "size": SIZE[ROWS], "judge": JUDGE, "label": np.where(LIED, LIES[ROWS], TRUTH[ROWS])})
TABLE["known"] = np.where(ROWS < 40, TRUTH[ROWS], None)
ROLES = ["--target", "label", "--privileged", "judge", "--example", "id", "--annotator", "judge"]
TRAIN = ["--method", "dawid-skene", "--epochs", 20, "--learning-rate", 0.02]


@pytest.fixture
def table(tmp_path):
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


@pytest.mark.parametrize(
    ("how", "low", "high"),
    [
        (["--ignore", "known"], 0, 0.3),
        (["--gold", "known"], 0.9, 1),
        (["--ignore", "known", "--trust", "expert=0.98"], 0.9, 1),
    ],
)
def test_a_model_of_liars_learns_the_truth_by_true_labels_or_trust(table, how, low, high):
    result = run("train", table, *ROLES, *TRAIN, *how, "-o", table.parent / "model")
    assert result.exit_code == 0, result.output
    assert ("True labels: known, known in 160 of 640 rows." in result.output) == ("--gold" in how)
    assert run("predict", table.parent / "model", table, "-o", table.parent / "p.csv").exit_code == 0
    predicted = pd.read_csv(table.parent / "p.csv")["prediction"]
    assert low <= (predicted == TRUTH[ROWS]).mean() <= high


def test_diagnose_and_compare_take_both(table):
    how = [*ROLES, "--gold", "known", "--trust", "expert=0.98", "--epochs", 2, "--jobs", 1]
    found = run("diagnose", table, *how, "--folds", 2, "-o", table.parent / "found")
    assert found.exit_code == 0, found.output
    facts = json.loads((table.parent / "found" / "results.json").read_text())
    assert (facts["gold"], facts["trust"]) == ("known", {"expert": 0.98})
    consensus = pd.read_csv(table.parent / "found" / "consensus.csv")
    assert (consensus["label"] == TRUTH).mean() > 0.9
    how += ["--methods", "dawid-skene", "--seeds", 2]
    found = run("compare", table, *how, "-o", table.parent / "run")
    assert found.exit_code == 0, found.output
    assert "and are scored on those of held-out examples" in found.output


@pytest.mark.parametrize(
    ("command", "how", "words"),
    [
        ("train", ["--trust", "expret=0.9"], ["`--trust`", "'expret'", "did you mean 'expert'?"]),
        ("compare", ["--trust", "expret=0.9"], ["`--trust`", "'expret'", "did you mean 'expert'?"]),
        ("diagnose", ["--trust", "expert=1.5"], ["`--trust`", "between 0 and 1", "1.5"]),
        ("train", ["--trust", "expert"], ["`--trust`", "ANNOTATOR=SHARE", "'expert'"]),
        ("train", ["--gold", "knwon"], ["`--gold`", "'known'"]),
    ],
)
def test_what_is_wrong_is_refused(table, command, how, words):
    ignored = [] if "--gold" in how else ["--ignore", "known"]
    options = TRAIN if command == "train" else []
    refused(run(command, table, *ROLES, *options, *how, *ignored, "-o", table.parent / "out"), *words)


def test_a_column_of_true_labels_without_a_role_is_refused(table):
    TABLE.rename(columns={"known": "gold"}).to_csv(table, index=False)
    refused(run("train", table, *ROLES, *TRAIN, "-o", table.parent / "out"), "'gold'", "`--gold`", "`--ignore`")

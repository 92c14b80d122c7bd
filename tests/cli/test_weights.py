"""`--weight` and `--soft`, in every command that reads a table of labels."""

import json

import numpy as np
import pandas as pd
import pytest

import lupi
from lupi import PrivilegedClassifier
from tests.cli.helpers import refused, run

N = 120
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"size": RNG.normal(size=N), "judge": RNG.choice(["a", "b", "c"], N)})
RIGHT = TABLE["judge"] != "c"
TABLE["label"] = np.where((TABLE["size"] > 0) == RIGHT, "yes", "no")  # judge c is always wrong
TABLE["trust"] = RIGHT.astype(float)
TABLE["yes"] = np.where(TABLE["size"] > 0, 0.9, 0.2)
TABLE["no"] = 1 - TABLE["yes"]
TEST = pd.DataFrame({"size": RNG.normal(size=30)})
TEST["yes"] = (TEST["size"] > 0).astype(float)
TEST["no"] = 1 - TEST["yes"]
HARD = ["--target", "label", "--privileged", "judge", "--ignore", "yes,no"]
SOFT = ["--target", "yes,no", "--soft", "--privileged", "judge", "--ignore", "label,trust"]


@pytest.fixture
def table(tmp_path):
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    TEST.to_csv(tmp_path / "test.csv", index=False)
    return tmp_path / "table.csv"


def good(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def test_a_model_learns_from_weighted_labels(table):
    how = ["--method", "no-pi", "--epochs", 30, "--learning-rate", 0.01]
    model = table.parent / "model"
    result = good("train", table, *HARD, "--weight", "trust", *how, "-o", model)
    assert "Weights: trust." in result.output
    good("predict", model, table, "-o", table.parent / "p.csv")
    predicted = pd.read_csv(table.parent / "p.csv")["prediction"]
    assert np.mean((predicted == "yes") == (TABLE["size"] > 0)) > 0.95
    same = PrivilegedClassifier("no-pi", epochs=30, learning_rate=0.01, random_state=0)
    same.fit(TABLE[["size"]], TABLE["label"], sample_weight=TABLE["trust"])
    np.testing.assert_allclose(
        lupi.load(model).estimator.predict_proba(TABLE[["size"]]), same.predict_proba(TABLE[["size"]])
    )


def test_a_model_learns_from_soft_labels(table):
    model = table.parent / "model"
    result = good("train", table, *SOFT, "--method", "tram", "--epochs", 30, "--learning-rate", 0.01, "-o", model)
    assert "the targets are probabilities of 2 classes" in result.output
    good("predict", model, table.parent / "test.csv", "-o", table.parent / "p.csv")
    predicted = pd.read_csv(table.parent / "p.csv")
    assert list(predicted) == ["prediction", "probability_yes", "probability_no"]
    assert predicted["probability_yes"].between(0.05, 0.95).all()  # as uncertain as the labels
    assert np.mean(predicted["prediction"] == np.where(TEST["yes"] == 1, "yes", "no")) > 0.9


@pytest.mark.parametrize(
    ("roles", "scored", "said"),
    [
        ([*HARD, "--weight", "trust"], "held out", '"weight": "trust"'),
        (SOFT, "held out", "scored on the most probable class"),
        (SOFT, "test table", '"soft": true'),
    ],
)
def test_methods_are_compared(table, roles, scored, said):
    test = ["--test", table.parent / "test.csv"] if scored == "test table" else []
    few = ["--methods", "tram", "--seeds", 2, "--epochs", 15, "--learning-rate", 0.01, "--jobs", 1]
    good("compare", table, *roles, *test, *few, "-o", table.parent / "run")
    assert said in (table.parent / "run" / "results.json").read_text()
    scores = pd.read_csv(table.parent / "run" / "results.csv")
    assert scores["nll"].between(0, 3).all()
    assert not test or (scores["accuracy"] > 0.8).all()


@pytest.mark.parametrize("roles", [[*HARD, "--weight", "trust"], SOFT], ids=["weights", "soft"])
def test_tables_are_diagnosed(table, roles):
    good("diagnose", table, *roles, "--folds", 2, "--epochs", 10, "--jobs", 1, "-o", table.parent / "run")
    labels = pd.read_csv(table.parent / "run" / "labels.csv")
    assert set(labels["given"]) == {"yes", "no"}
    results = json.loads((table.parent / "run" / "results.json").read_text())
    assert results["weight"] == (None if roles is SOFT else "trust")
    assert results["soft"] == (roles is SOFT)


@pytest.mark.parametrize(
    ("change", "roles", "message"),
    [
        ({"trust": "much"}, [*HARD, "--weight", "trust"], "Expected weight column 'trust' to be one of"),
        ({"trust": -1.0}, [*HARD, "--weight", "trust"], "Expected weight column 'trust' to be finite and not negative"),
        ({"trust": None}, [*HARD, "--weight", "trust"], "weight column 'trust' to be"),
        ({"trust": 0.0}, [*HARD, "--weight", "trust"], "greater than zero in some row, but all are zero"),
        ({}, [*HARD, "--weight", "trust", "--example", "trust"], "Expected column 'trust' to have one role"),
        ({}, [*HARD, "--weight", "thrust"], "Expected `--weight` to name a column of the table, but got 'thrust'"),
        (
            {"yes": 0.9, "no": 0.9},
            SOFT,
            "which are `--soft`, to be probabilities that sum to one, but row 0 sums to 1.8",
        ),
        ({"yes": -0.5, "no": 1.5}, SOFT, "but got -0.5 in row 0, column 'yes'"),
        ({}, [*SOFT[2:], "--target", "yes"], "targets, which are `--soft`, to have a column for each class"),
        ({}, [*SOFT, "--task", "regression"], "Expected `--soft` targets for classification"),
    ],
)
def test_errors_name_the_column(table, change, roles, message):
    TABLE.assign(**change).to_csv(table, index=False)
    refused(run("train", table, *roles, "-o", table.parent / "model"), message)

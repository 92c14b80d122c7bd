"""Scores of a model on true labels: the numbers are scikit-learn's, and the intervals cover."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, log_loss, precision_score, recall_score, root_mean_squared_error

from lupi.metrics import METRICS
from lupi.serving import train
from lupi.serving.evaluation import evaluate_table, find_interval
from lupi.tabular import TableSpec

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
TABLE = pd.DataFrame(
    {
        "id": np.arange(120),
        "x": X[:, 0],
        "z": X[:, 1],
        "label": np.array(["ape", "bee", "cat"])[np.digitize(X[:, 0] + RNG.normal(size=120), [-0.5, 0.5])],
        "a": (X[:, 0] > 0).astype(int),
        "b": (X[:, 1] + RNG.normal(size=120) > 0).astype(int),
        "price": 3 * X[:, 0] + RNG.normal(size=120),
    }
)


def fit(tmp_path, *target, **options):
    table = TABLE[["id", "x", "z", *target]]
    if options.get("soft"):
        table = table.drop(columns="label").join(pd.get_dummies(table["label"]).astype(float))
        target = ("ape", "bee", "cat")
    table.to_csv(tmp_path / "train.csv", index=False)
    spec = TableSpec(table=tmp_path / "train.csv", target=target, example="id", **options)
    return train(spec, method="no-pi", settings={"epochs": 3})


def evaluate(model, tmp_path, table, *target):
    table.to_csv(tmp_path / "gold.csv", index=False)
    found = evaluate_table(model, tmp_path / "gold.csv", target)
    return found, found.scores.set_index("metric")


def test_scores_of_classes_are_those_of_scikit_learn(tmp_path):
    model = fit(tmp_path, "label")
    gold = TABLE.assign(gold=TABLE["label"].where(TABLE["id"] % 5 > 0)).drop(columns="label")
    found, scores = evaluate(model, tmp_path, gold, "gold")
    known = gold.dropna()
    p, predicted = model.predict_proba(known), model.predict(known)["prediction"]
    assert scores["value"]["accuracy"] == pytest.approx(accuracy_score(known["gold"], predicted))
    assert scores["value"]["nll"] == pytest.approx(log_loss(known["gold"], p))
    assert ((scores["low"] < scores["value"]) & (scores["value"] < scores["high"])).drop("ece").all()
    assert scores.loc["ece", ["low", "high"]].isna().all()
    by_class = found.classes.set_index("class")
    for measure, function in (("recall", recall_score), ("precision", precision_score)):
        expected = function(known["gold"], predicted, labels=by_class.index, average=None, zero_division=np.nan)
        np.testing.assert_allclose(by_class[measure], expected)
    assert by_class["labels"].to_dict() == known["gold"].value_counts().to_dict()
    wrong = predicted[(known["gold"] == "ape") & (predicted != "ape")]
    assert by_class["most often mistaken for"]["ape"] in wrong.mode().tolist()
    assert "24 of 120 rows" in found.notes[0]
    assert found.about["examples"] == 96


def test_several_targets_are_matched_by_name_or_else_by_order(tmp_path):
    model = fit(tmp_path, "a", "b")
    found, scores = evaluate(model, tmp_path, TABLE, "b", "a")
    predicted = model.predict(TABLE)
    right = [predicted[f"prediction_{name}"] == TABLE[name] for name in "ab"]
    assert scores["value"]["accuracy"] == pytest.approx(np.mean(right))
    assert found.classes["recall"].tolist() == [
        pytest.approx(recall_score(TABLE[name], predicted[f"prediction_{name}"])) for name in "ab"
    ]
    renamed, same = evaluate(model, tmp_path, TABLE.rename(columns={"a": "one", "b": "two"}), "one,two")
    assert same["value"].tolist() == scores["value"].tolist()
    assert renamed.notes[0] == "True labels are matched by their order: one for a, two for b."


def test_scores_of_numbers(tmp_path):
    model = fit(tmp_path, "price")
    found, scores = evaluate(model, tmp_path, TABLE, "price")
    assert list(scores.index) == ["rmse", "mae"]
    assert scores["value"]["rmse"] == pytest.approx(
        root_mean_squared_error(TABLE["price"], model.predict(TABLE)["prediction"])
    )
    assert found.classes.empty
    assert found.bins["count"].tolist() == [12] * 10
    assert np.average(found.bins["truth"], weights=found.bins["count"]) == pytest.approx(TABLE["price"].mean())


def test_soft_labels_or_one_column_of_classes(tmp_path):
    model = fit(tmp_path, "label", soft=True)
    soft = TABLE.join(pd.get_dummies(TABLE["label"]).astype(float))
    _, of_probabilities = evaluate(model, tmp_path, soft, "ape", "bee", "cat")
    _, of_classes = evaluate(model, tmp_path, TABLE, "label")
    np.testing.assert_allclose(of_probabilities.to_numpy(), of_classes.to_numpy())


def test_rows_of_one_example_are_not_several_examples(tmp_path):
    model = fit(tmp_path, "label")
    _, once = evaluate(model, tmp_path, TABLE, "label")
    found, thrice = evaluate(model, tmp_path, pd.concat([TABLE] * 3), "label")
    np.testing.assert_allclose(thrice["value"], once["value"])
    np.testing.assert_allclose(thrice[["low", "high"]], once[["low", "high"]], rtol=1e-6)
    assert (found.about["rows"], found.about["examples"]) == (360, 120)


@pytest.mark.parametrize(("right", "of"), [(57, 60), (60, 60), (0, 3), (1, 1)])
def test_the_interval_of_a_share_is_wilsons(right, of):
    rows = (np.arange(of) < right).astype(float)
    expected = stats.binomtest(right, of).proportion_ci(method="wilson")
    found = find_interval(rows.mean(), rows, np.arange(of), share=True)
    assert found == pytest.approx(tuple(expected))


def simulate(metric, rng):
    """Return the truth, and the values of rows of 80 examples that share part of their errors."""
    cluster = np.repeat(np.arange(80), rng.integers(1, 4, size=80))
    if metric == "accuracy of several labels":
        return 0.95, (rng.random((80, 5)) < 0.95).mean(1)[cluster], cluster
    if metric == "accuracy":
        return 0.95, (rng.random(80) < 0.95).astype(float)[cluster], cluster
    if metric == "nll":
        return 1.0, rng.exponential(size=80)[cluster] * 0.5 + rng.exponential(size=len(cluster)) * 0.5, cluster
    shared = np.sqrt(0.5) * (rng.normal(size=80)[cluster] + rng.normal(size=len(cluster)))
    rows = METRICS["rmse"].of_numbers(shared, type("P", (), {"mean": np.zeros(len(cluster))}))
    return 1.0, rows, cluster


@pytest.mark.parametrize("metric", ["accuracy", "accuracy of several labels", "nll", "rmse"])
def test_intervals_cover(metric):
    """At a nominal 95 %, with several rows per example."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        truth, rows, cluster = simulate(metric, rng)
        value, rows = (rows.value, rows.rows) if metric == "rmse" else (rows.mean(), rows)
        low, high = find_interval(value, rows, cluster, share="accuracy" in metric)
        covered += low <= truth <= high
    assert covered >= 0.92 * 400, covered

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lupi.crowd.reliability import infer
from lupi.datasets import load_digits_annotated
from lupi.diagnose.suspicion import out_of_fold, suspicious_labels


@pytest.fixture(scope="module")
def digits():
    return load_digits_annotated()


@pytest.fixture(scope="module")
def predicted(digits):
    return out_of_fold(
        digits.X_train, digits.y_train, privileged=digits.privileged[["annotator"]], parameters={"epochs": 12}
    )


def blobs(seed=0, examples=60, per_example=2):
    rng = np.random.default_rng(seed)
    example = np.arange(examples).repeat(per_example)
    truth = rng.integers(0, 2, examples)
    X = (rng.normal(size=(examples, 2)) + 4 * truth[:, None])[example]
    label = np.where(rng.random(len(example)) < 0.2, 1 - truth[example], truth[example])
    annotator = pd.DataFrame({"annotator": rng.choice(["ann", "bob"], len(example))})
    return X, np.array(["no", "yes"])[label], annotator, example


def test_no_example_is_on_both_sides(monkeypatch):
    X, y, A, example = blobs()
    seen = []

    class Spy:
        classes_ = np.array([0, 1])

        def __init__(self, method, random_state):
            assert method == "tram"
            self.seed = random_state

        def fit(self, X, y, *, privileged, example):
            assert len(X) == len(y) == len(privileged) == len(example)
            self.train = X
            return self

        def predict_proba(self, X):
            assert not set(map(tuple, X)) & set(map(tuple, self.train))
            seen.append((self.seed, len(X)))
            return np.full((len(X), 2), 0.5)

    monkeypatch.setattr("lupi.diagnose.suspicion.PrivilegedClassifier", Spy)
    out_of_fold(X, y, privileged=A, example=example, method="tram", folds=4, random_state=2)
    assert sum(size for _, size in seen) == len(y)
    assert len({seed for seed, _ in seen}) == 4


def test_predictions_repeat_with_the_seed_and_are_equal_within_an_example():
    X, y, A, example = blobs()
    given = {"privileged": A, "example": example, "folds": 3, "parameters": {"epochs": 3}}
    p, classes = out_of_fold(X, y, **given)
    again, _ = out_of_fold(pd.DataFrame(X, columns=["u", "v"]), y, **given)
    other, _ = out_of_fold(X, y, **given, random_state=1)
    assert classes.tolist() == ["no", "yes"]
    np.testing.assert_allclose(p, again, atol=1e-6)
    np.testing.assert_allclose(p[::2], p[1::2], atol=1e-6)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    assert np.abs(p - other).max() > 1e-3


def test_a_class_that_a_fold_has_alone_gets_no_probability_there():
    X, y, A, _ = blobs(per_example=1)
    y = y.astype(object)
    y[7] = "maybe"
    p, classes = out_of_fold(X, y, privileged=A, folds=3, parameters={"epochs": 1})
    assert classes.tolist() == ["maybe", "no", "yes"]
    assert p[7, 0] == 0
    assert (p[:, 0] > 0).any()
    assert np.isfinite(suspicious_labels(infer(p, np.searchsorted(classes, y)))["wrong"]).all()


def test_progress_counts_folds(capsys):
    X, y, A, example = blobs()
    out_of_fold(X, y, privileged=A, example=example, folds=2, parameters={"epochs": 1}, progress=True)
    assert "out of fold, pi-transition, folds (2/2)" in capsys.readouterr().err


@pytest.mark.parametrize("folds", [1, 61])
def test_folds_must_fit_the_examples(folds):
    X, y, A, example = blobs()
    with pytest.raises(
        ValueError, match=f"Expected `folds` to be from 2 to the number of examples, 60, but got {folds}"
    ):
        out_of_fold(X, y, privileged=A, example=example, folds=folds)


def test_wrong_labels_of_digits_are_found_with_one_label_each(digits, predicted):
    p, classes = predicted
    wrong = digits.y_train != digits.gold_train
    found = infer(p, digits.y_train, annotator=digits.privileged["annotator"].astype(str))
    table = suspicious_labels(found, classes).sort_values("row")
    by_model = roc_auc_score(wrong, 1 - p[range(1000), digits.y_train])
    assert roc_auc_score(wrong, table["wrong"]) > max(0.95, by_model - 0.01)
    assert abs(table["wrong"].mean() - wrong.mean()) < 0.12
    most = table.nlargest(100, "wrong")
    assert wrong[most["row"]].mean() > 0.95
    assert (most["probable"].to_numpy() == digits.gold_train[most["row"]]).mean() > 0.7


def test_without_annotators_the_model_ranks(digits, predicted):
    p, _ = predicted
    table = suspicious_labels(infer(p, digits.y_train)).sort_values("row")
    wrong = digits.y_train != digits.gold_train
    assert roc_auc_score(wrong, table["wrong"]) > 0.95
    order = np.corrcoef(table["wrong"].rank(), pd.Series(p[range(1000), digits.y_train]).rank())[0, 1]
    assert order < -0.95


def test_the_table_is_sorted_and_names_labels():
    p = np.array([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4]])
    table = suspicious_labels(infer(p, [1, 1, 0]), ["cat", "dog"])
    assert list(table) == ["row", "label", "probable", "wrong"]
    assert table["row"].iloc[0] == 0
    assert table["wrong"].is_monotonic_decreasing
    assert table.set_index("row")["label"].loc[[0, 1, 2]].tolist() == ["dog", "dog", "cat"]
    with pytest.raises(ValueError, match="Expected `classes` to be 2 names"):
        suspicious_labels(infer(p, [1, 1, 0]), ["cat"])

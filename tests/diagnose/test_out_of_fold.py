import warnings

import numpy as np
import pandas as pd
import pytest

from lupi.crowd import infer
from lupi.diagnose import predict_out_of_fold


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

        def fit(self, X, y, *, privileged, example, sample_weight):
            assert len(X) == len(y) == len(privileged) == len(example)
            assert sample_weight.tolist() == X[:, 0].tolist()
            self.train = X
            return self

        def predict_proba(self, X):
            assert not set(map(tuple, X)) & set(map(tuple, self.train))
            seen.append((self.seed, len(X)))
            return np.full((len(X), 2), 0.5)

    monkeypatch.setattr("lupi.diagnose.out_of_fold.PrivilegedClassifier", Spy)
    given = {"privileged": A, "example": example, "sample_weight": X[:, 0]}
    predict_out_of_fold(X, y, **given, method="tram", folds=4, random_state=2)
    assert sum(size for _, size in seen) == len(y)
    assert len({seed for seed, _ in seen}) == 4


def test_predictions_repeat_with_the_seed_and_are_equal_within_an_example():
    X, y, A, example = blobs()
    given = {"privileged": A, "example": example, "folds": 3, "parameters": {"epochs": 3}}
    p, classes = predict_out_of_fold(X, y, **given)
    again, _ = predict_out_of_fold(pd.DataFrame(X, columns=["u", "v"]), y, **given)
    other, _ = predict_out_of_fold(X, y, **given, random_state=1)
    assert classes.tolist() == ["no", "yes"]
    np.testing.assert_allclose(p, again, atol=1e-6)
    np.testing.assert_allclose(p[::2], p[1::2], atol=1e-6)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    assert np.abs(p - other).max() > 1e-3


def test_a_class_that_a_fold_has_alone_gets_no_probability_there():
    X, y, A, _ = blobs(per_example=1)
    y = y.astype(object)
    y[7] = "maybe"
    p, classes = predict_out_of_fold(X, y, privileged=A, folds=3, parameters={"epochs": 1})
    assert classes.tolist() == ["maybe", "no", "yes"]
    assert p[7, 0] == 0
    assert (p[:, 0] > 0).any()
    assert np.isfinite(infer(p, np.searchsorted(classes, y)).wrong).all()


def test_progress_counts_folds(capsys):
    X, y, A, example = blobs()
    predict_out_of_fold(X, y, privileged=A, example=example, folds=2, parameters={"epochs": 1}, progress=True)
    assert "out of fold, pi-transition, folds (2/2)" in capsys.readouterr().err


@pytest.mark.parametrize("folds", [1, 61])
def test_folds_must_fit_the_examples(folds):
    X, y, A, example = blobs()
    with pytest.raises(ValueError, match=f"folds.*60.*{folds}"):
        predict_out_of_fold(X, y, privileged=A, example=example, folds=folds)


def test_one_missing_value_causes_no_warning():
    X, y, A, example = blobs()
    X[:2, 0] = np.nan
    with warnings.catch_warnings(action="error"):
        p, _ = predict_out_of_fold(X, y, privileged=A, example=example, folds=2, parameters={"epochs": 1})
    assert np.isfinite(p).all()

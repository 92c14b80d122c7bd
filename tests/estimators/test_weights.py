"""Weights of rows and classes, and soft labels, as users of the estimators pass them."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.class_weight import compute_sample_weight

from lupi import load
from lupi.estimators import fit_together
from tests.estimators.helpers import LABELS, MULTI, QUICK, REAL, X_NEW, A, X, Y, classifier, regressor

W = np.random.default_rng(1).uniform(0.1, 3, 60)
SOFT = np.random.default_rng(2).dirichlet([1, 1, 1], 60)
HOT = np.eye(3)[Y]


def outputs(model):
    return model._outputs(X_NEW)


@pytest.mark.parametrize("kind", LABELS)
def test_equal_weights_change_nothing(kind):
    make, y, _ = LABELS[kind]
    plain = make("tram", **QUICK).fit(X, y, privileged=A)
    for weight in (
        np.full(60, 0.3),
        np.ones(60, dtype=int).tolist(),
        pd.Series(7.0, index=range(60)),
        pl.Series([2] * 60),
    ):
        model = make("tram", **QUICK).fit(X, y, privileged=A, sample_weight=weight)
        np.testing.assert_array_equal(outputs(model), outputs(plain))


@pytest.mark.parametrize("method", ["no-pi", "mean-imputation", "dawid-skene", "auto"])
def test_rows_of_weight_zero_are_absent(method):
    kept, ids = W > 1, np.arange(60) // 2
    ids = ids if method == "dawid-skene" else np.arange(60)
    inputs = X[ids]
    weighted = classifier(method).fit(inputs, Y, privileged=A, example=ids, sample_weight=np.where(kept, W, 0))
    absent = classifier(method).fit(inputs[kept], Y[kept], privileged=A[kept], example=ids[kept], sample_weight=W[kept])
    np.testing.assert_array_equal(outputs(weighted), outputs(absent))


@pytest.mark.parametrize("method", ["no-pi", "two-step-tram", "full-marginalization", "auto"])
def test_methods_take_weights_and_soft_labels(method):
    plain = classifier(method).fit(X, Y, privileged=A)
    weighted = classifier(method).fit(X, Y, privileged=A, sample_weight=W)
    soft = classifier(method, soft=True).fit(X, SOFT, privileged=A)
    hot = classifier(method, soft=True).fit(X, HOT, privileged=A)
    assert not np.allclose(outputs(weighted), outputs(plain))
    assert not np.allclose(outputs(soft), outputs(plain))
    np.testing.assert_allclose(hot.predict_proba(X_NEW), plain.predict_proba(X_NEW), atol=1e-4)


def test_weights_pull_predictions():
    """Labels contradict each other, and the heavier ones win."""
    x, y = np.zeros((40, 1)), np.arange(40) % 2
    how = {"epochs": 300, "learning_rate": 0.03, "batch_size": 40}
    model = classifier("no-pi", **how)
    for weight in (0.25, 3.0):
        p = model.fit(x, y, sample_weight=np.where(y, weight, 1)).predict_proba(x[:1])[0, 1]
        assert p == pytest.approx(weight / (1 + weight), abs=0.02)
    p = model.set_params(class_weight={1: 3.0}).fit(x, y).predict_proba(x[:1])[0, 1]
    assert p == pytest.approx(0.75, abs=0.02)
    mean = regressor("no-pi", **how).fit(x, 4.0 * y, sample_weight=np.where(y, 3, 1))
    assert mean.predict(x[:1])[0] == pytest.approx(3, abs=0.1)


def test_soft_labels_are_what_is_predicted():
    x = np.zeros((40, 1))
    model = classifier("no-pi", soft=True, epochs=300, learning_rate=0.03, batch_size=40)
    model.fit(x, np.tile([0.2, 0.5, 0.3], (40, 1)))
    np.testing.assert_allclose(model.predict_proba(x[:1])[0], [0.2, 0.5, 0.3], atol=0.02)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=10, max_size=30).filter(lambda y: len(set(y)) > 1))
def test_balanced_weights_are_those_of_scikit_learn(y):
    names = np.array(["no", "perhaps", "yes"])[y]
    data, *_ = classifier("no-pi", class_weight="balanced")._prepare(np.zeros((len(y), 1)), names)
    expected = compute_sample_weight("balanced", names)
    np.testing.assert_allclose(data.weight, expected / expected.mean(), rtol=1e-5)


def test_class_weights_multiply_weights():
    given = {0: 2.0, 2: 0.5}
    data, *_ = classifier("no-pi", class_weight=given)._prepare(X, Y, sample_weight=W)
    expected = compute_sample_weight(given, Y) * W
    np.testing.assert_allclose(data.weight, expected / expected.mean(), rtol=1e-5)
    data, *_ = classifier("no-pi", class_weight="balanced")._prepare(X, MULTI)
    expected = compute_sample_weight("balanced", MULTI)
    np.testing.assert_allclose(data.weight, expected / expected.mean(), rtol=1e-5)
    soft, *_ = classifier("no-pi", class_weight=given, soft=True)._prepare(X, SOFT)
    expected = SOFT @ [2.0, 1.0, 0.5]
    np.testing.assert_allclose(soft.weight, expected / expected.mean(), rtol=1e-5)


def test_names_of_soft_classes(tmp_path):
    table = pd.DataFrame(SOFT, columns=["no", "perhaps", "yes"])
    model = classifier("no-pi", soft=True).fit(X, table)
    assert model.classes_.tolist() == ["no", "perhaps", "yes"]
    assert set(model.predict(X_NEW)) <= set(model.classes_)
    assert model.score(X, table) == np.mean(model.predict(X) == model.classes_[SOFT.argmax(1)])
    numbered = pd.DataFrame(SOFT, columns=[3, 5, 7])
    named = classifier("no-pi", soft=True, class_weight={3: 2.0}).fit(X, numbered)
    assert named.classes_.tolist() == [3, 5, 7]
    named.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X_NEW), named.predict(X_NEW))


def test_soft_rows_without_a_label_are_dropped():
    y = SOFT.copy()
    y[3] = np.nan
    with pytest.warns(UserWarning, match="1 of 60 rows have no label"):
        model = classifier("no-pi", soft=True).fit(X, y)
    rest = np.arange(60) != 3
    np.testing.assert_array_equal(outputs(model), outputs(classifier("no-pi", soft=True).fit(X[rest], SOFT[rest])))


@pytest.mark.parametrize(
    ("parameters", "arguments", "message"),
    [
        ({}, {"sample_weight": W[:5]}, "Expected `sample_weight` to have 60 rows"),
        ({}, {"sample_weight": -W}, "not negative, but row 0 has -"),
        ({}, {"sample_weight": np.where(np.arange(60) == 4, np.nan, W)}, "finite and not negative, but row 4 has nan"),
        ({}, {"sample_weight": 0 * W}, "all are zero"),
        ({}, {"sample_weight": ["heavy"] * 60}, "`sample_weight` to be numbers"),
        ({}, {"sample_weight": np.ones((60, 2))}, r"one number per row, but got shape \[60, 2\]"),
        ({"class_weight": "equal"}, {}, "Expected `class_weight` to be a dict or 'balanced', but got 'equal'"),
        ({"class_weight": {9: 1.0}}, {}, "Expected `class_weight` to have classes of y, but got 9"),
        ({"soft": True}, {}, r"a column for each class with `soft`, but got shape \[60\]"),
        ({"soft": True}, {"y": 2 * SOFT}, "row 0 sums to 2"),
        ({"soft": True}, {"y": SOFT - 1}, "y, which is `soft`, to be probabilities, but got -"),
        (
            {"soft": True},
            {"y": pd.DataFrame(SOFT, columns=["a", "a", "b"])},
            "columns of y to have different names, but got 'a' twice",
        ),
        ({}, {"y": SOFT}, "Expected a y with several columns to be 0 or 1"),
    ],
)
def test_errors_name_the_argument(parameters, arguments, message):
    with pytest.raises(ValueError, match=message):
        classifier("no-pi", **parameters).fit(**{"X": X, "y": Y, **arguments})


def test_weights_are_routed():
    """Every other row is a wrong label of weight zero; the weights of each fold reach its fit."""
    y, weight = np.where(np.arange(60) % 2, 2 - Y, Y), 1 - np.arange(60) % 2
    model = Pipeline([("scale", MinMaxScaler()), ("model", classifier("no-pi"))])
    how = {"cv": 3, "return_estimator": True, "error_score": "raise"}
    expected = cross_validate(model, X, y, params={"model__sample_weight": weight}, **how)
    with config_context(enable_metadata_routing=True):
        scoring = get_scorer("accuracy").set_score_request(sample_weight=True)
        found = cross_validate(model, X, y, params={"sample_weight": weight}, scoring=scoring, **how)
    unweighted = cross_validate(model, X, y, **how)
    for one, other, plain in zip(*(runs["estimator"] for runs in (found, expected, unweighted)), strict=True):
        np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
        assert not np.allclose(one.predict_proba(X), plain.predict_proba(X))


def test_models_that_train_together_have_weights_of_their_own():
    sets = [{"X": X, "y": REAL, "sample_weight": weight} for weight in (W, W[::-1], None, W)]
    together = [regressor("no-pi", random_state=seed) for seed in range(4)]
    fit_together(together, sets)
    for seed, (model, one) in enumerate(zip(together, sets, strict=True)):
        alone = regressor("no-pi", random_state=seed).fit(**one)
        np.testing.assert_allclose(model.predict(X_NEW), alone.predict(X_NEW), rtol=1e-4, atol=1e-4)


def test_logarithms_of_probabilities():
    for make, y, _ in list(LABELS.values())[:2]:
        model = make("no-pi", **QUICK).fit(X, y)
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X_NEW)), model.predict_proba(X_NEW), atol=1e-9)
        far = 1e4 * X_NEW
        assert np.isfinite(model.predict_log_proba(far)).all()
        assert (model.predict_proba(far) == 0).any()


def test_number_of_epochs():
    assert classifier("no-pi", epochs=3).fit(X, Y).n_iter_ == 3
    assert classifier("two-step-tram", epochs=2).fit(X, Y, privileged=A).n_iter_ == 4
    early = classifier("no-pi", epochs=200, patience=1, learning_rate=0.1).fit(X, Y)
    assert early.n_iter_ == early.history_[-1]["epoch"] < 200
    assert not hasattr(classifier(), "n_iter_")

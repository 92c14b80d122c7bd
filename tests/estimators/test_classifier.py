import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from lupi import PrivilegedClassifier
from tests.estimators.helpers import MULTI, X_NEW, A, X, Y, classifier


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "so", "yes"]),
        np.array(["no", "so", "yes"], dtype=object),
        np.array([-5, 2, 70]),
        np.array([0.0, 1.0, 3.0]),
        np.array([1, 2, 200], dtype=np.uint8),
    ],
    ids=["str", "object", "int", "float", "uint8"],
)
def test_classes_are_the_labels_in_order(labels):
    model = classifier().fit(X, labels[Y], privileged=A)
    np.testing.assert_array_equal(model.classes_, labels)
    assert model.classes_.dtype == labels.dtype
    assert model.predict(X).dtype == labels.dtype
    coded = classifier().fit(X, Y, privileged=A)
    np.testing.assert_array_equal(model.predict_proba(X), coded.predict_proba(X))
    np.testing.assert_array_equal(model.predict(X), labels[coded.predict(X)])


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [([-5, 2, 70], object), ([-5, 2, 70], "Int64"), ([False, True, True], object), ([False, True, True], "boolean")],
)
def test_numbers_in_columns_of_pandas_are_numbers(labels, dtype):
    y = np.array(labels)[Y]
    model = classifier().fit(X, pd.Series(y.tolist(), dtype=dtype), privileged=A)
    assert model.predict(X).dtype == y.dtype
    assert model.classes_.tolist() == sorted(set(labels))


def test_labels_may_be_booleans():
    model = classifier().fit(X, Y > 0, privileged=A)
    assert model.predict(X).dtype == bool
    assert model.predict_proba(X).shape == (60, 2)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["no", "so", "yes"]),
        pd.Series(["no", "so", "yes"], dtype="category"),
        pd.Series(["no", "so", "yes"], dtype="string"),
        pl.Series(["no", "so", "yes"]),
        ["no", "so", "yes"],
    ],
    ids=["pandas", "pandas category", "pandas string", "polars", "list"],
)
def test_labels_may_be_in_any_container(labels):
    y = [labels[i] for i in Y] if isinstance(labels, list) else labels[Y]
    model = classifier().fit(X, y, privileged=A)
    assert model.classes_.tolist() == ["no", "so", "yes"]
    np.testing.assert_array_equal(model.predict_proba(X), classifier().fit(X, Y, privileged=A).predict_proba(X))


@pytest.mark.parametrize("dtype", [int, bool, float, np.float32])
def test_a_table_of_0_and_1_is_multi_label(dtype):
    y = MULTI.astype(dtype)
    y.setflags(write=False)
    model = classifier(epochs=40, learning_rate=0.02).fit(X, y, privileged=A)
    p = model.predict_proba(X)
    assert p.shape == (60, 2)
    np.testing.assert_array_equal(model.predict(X), p > 0.5)
    assert model.score(X, MULTI) > 0.8
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("method", ["no-pi", "tram", "two-step-tram", "full-marginalization", "auto"])
def test_probabilities_sum_to_one(method):
    p = classifier(method).fit(X, Y, privileged=A).predict_proba(X_NEW)
    np.testing.assert_allclose(p.sum(1), 1, rtol=0, atol=1e-12)
    assert (p > 0).all()


def test_the_conditional_head_learns_the_honest_answer():
    """The conditional head knows what an honest annotator would say, though four in ten are not honest."""
    rng = np.random.default_rng(0)
    X, X_new = rng.normal(size=(600, 2)), rng.normal(size=(600, 2))
    liar = rng.random(600) < 0.4
    truth, truth_new = X[:, 0] + X[:, 1] > 0, X_new[:, 0] + X_new[:, 1] > 0
    y = np.where(liar, X[:, 0] > 0, truth)
    model = PrivilegedClassifier("tram", epochs=20, random_state=0).fit(X, y, privileged=liar)
    assert model.score(X_new, truth_new) > 0.8
    honest = model.classes_[model.predict_proba_given(X_new, np.zeros(600, bool)).argmax(1)]
    assert (honest == truth_new).mean() > 0.95


def test_predictions_that_are_not_finite_are_an_error():
    X, y = np.eye(3), ["a", "b", "c"]
    model = PrivilegedClassifier("no-pi", epochs=1, random_state=0).fit(X, y)
    model.predictor_.register_forward_hook(lambda *_: torch.tensor([[0.0, 0, 0], [0, torch.nan, 0]]))
    for predict in (model.predict, model.predict_proba):
        with pytest.raises(FloatingPointError, match=r"the probability of 'a' is nan in row 1\."):
            predict(X[:2])


def test_a_network_that_predicts_nan_is_no_model():
    class Overflow(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * (1.0 if self.training else torch.inf)

    model = PrivilegedClassifier("no-pi", trunk=lambda: Overflow(3, 4), epochs=1, random_state=0)
    with pytest.raises(FloatingPointError, match="predicts NaN or infinity"):
        model.fit(np.eye(3, dtype=np.float32), ["a", "b", "c"])
    assert not hasattr(model, "predictor_")

import dataclasses
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from lupi.datasets import load_digits_annotated
from lupi.datasets.relabelling import MALICIOUS

module = sys.modules["lupi.datasets.digits"]


@pytest.fixture(scope="module")
def digits():
    return load_digits_annotated()


@pytest.fixture(scope="module")
def many():
    return load_digits_annotated(annotations=20)


def rows(X):
    """Pictures as a set: no two of scikit-learn's digits are equal, so a picture is its own id."""
    return {picture.tobytes() for picture in np.ascontiguousarray(X)}


def test_shapes(digits):
    assert digits.X_train.shape == (1000, 64)
    assert digits.X_test.shape == (500, 64)
    assert digits.privileged.shape == (1000, 2)
    for field in (digits.y_train, digits.gold_train, digits.example):
        assert field.shape == (1000,)
    assert digits.y_test.shape == (500,)


@pytest.mark.parametrize("seed", [0, 1])
def test_pool_train_and_test_are_disjoint(monkeypatch, seed):
    seen = []
    fit_annotators = module._fit_annotators

    def watched(X, y, random_state):
        seen.append((X, y))
        return fit_annotators(X, y, random_state)

    monkeypatch.setattr(module, "_fit_annotators", watched)
    digits = load_digits_annotated(random_state=seed)
    X, y = load_digits(return_X_y=True)
    assert len(rows(X)) == len(X)
    [(X_pool, y_pool)] = seen
    pool, train, test = rows(X_pool), rows(digits.X_train), rows(digits.X_test)
    assert [len(part) for part in (pool, train, test)] == [297, 1000, 500]
    assert pool | train | test == rows(X)  # 297 + 1000 + 500 are all 1797 digits: so no two parts share one
    truth = dict(zip([picture.tobytes() for picture in X], y, strict=True))
    assert [truth[picture.tobytes()] for picture in X_pool] == list(y_pool)
    assert [truth[picture.tobytes()] for picture in digits.X_test] == list(digits.y_test)


def test_every_part_has_every_digit_in_proportion(digits):
    share = np.bincount(load_digits().target) / 1797
    for labels in (digits.gold_train, digits.y_test):
        np.testing.assert_allclose(np.bincount(labels) / len(labels), share, atol=0.002)


def test_example_ids_belong_to_the_rows(many):
    X, y = load_digits(return_X_y=True)
    np.testing.assert_array_equal(many.X_train, X[many.example])
    np.testing.assert_array_equal(many.gold_train, y[many.example])
    ids, counts = np.unique(many.example, return_counts=True)
    assert len(ids) == 1000
    assert set(counts) == {20}


def test_annotations_add_labels_to_the_same_digits(digits, many):
    np.testing.assert_array_equal(many.example[::20], digits.example)
    np.testing.assert_array_equal(many.X_test, digits.X_test)


def test_seed(digits):
    again, other = load_digits_annotated(), load_digits_annotated(random_state=1)
    for field in dataclasses.fields(digits):
        first = np.asarray(getattr(digits, field.name))
        np.testing.assert_array_equal(first, np.asarray(getattr(again, field.name)))
        assert not np.array_equal(first, np.asarray(getattr(other, field.name)))


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_annotators_differ_clearly_in_quality(seed):
    digits = load_digits_annotated(annotations=20, random_state=seed)
    right = pd.Series(digits.y_train == digits.gold_train)
    accuracy = right.groupby(digits.privileged["annotator"], observed=False).mean()
    assert len(accuracy) == 17
    assert accuracy.idxmin() == MALICIOUS
    assert accuracy[MALICIOUS] == pytest.approx(0.1, abs=0.03)
    models = accuracy.drop(MALICIOUS).sort_values()
    assert 0.25 < models.iloc[0] < 0.4
    assert 0.93 < models.iloc[-1] < 1
    assert models.diff().max() < 0.25  # a spread, not two camps
    assert 0.25 < 1 - right.mean() < 0.4


def test_probability_tells_right_labels_from_wrong_ones(digits):
    right = digits.y_train == digits.gold_train
    probability = digits.privileged["probability"]
    assert probability[right].mean() > probability[~right].mean() + 0.2


def test_annotator_is_informative(many):
    """I(y; a | x) > 0.

    Annotators are drawn independently of x, so I(y; a | x) = I(y, x; a), which is at least I(right; a):
    whether a label is right is a function of x and y. That one is estimated here by counting,
    beside labels whose annotators are shuffled.
    """

    def information(right, annotator):
        joint = pd.crosstab(right, annotator).to_numpy() / len(right)
        independent = joint.sum(1, keepdims=True) @ joint.sum(0, keepdims=True)
        return float((joint * np.log(joint / independent)).sum())

    right = many.y_train == many.gold_train
    annotator = many.privileged["annotator"].cat.codes.to_numpy()
    rng = np.random.default_rng(0)
    by_chance = max(information(right, rng.permutation(annotator)) for _ in range(20))
    assert information(right, annotator) > 0.1
    assert by_chance < 0.005


def test_is_frozen(digits):
    with pytest.raises(dataclasses.FrozenInstanceError):
        digits.y_train = digits.gold_train


def test_bad_annotations():
    with pytest.raises(ValueError, match=r"annotations.*0"):
        load_digits_annotated(annotations=0)


@pytest.mark.parametrize("annotations", [0, 1001, 10**20])
def test_an_impossible_number_of_annotations_is_named(annotations):
    with pytest.raises(ValueError, match=f"^Expected `annotations` to be an integer .* but got {annotations}"):
        load_digits_annotated(annotations)

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mutual_info_score

from lupi.diagnose import leaks
from lupi.diagnose.leaks import classify_leak, code_values
from lupi.tabular.grouping import grouped_folds

N = 1200


def labels(classes=4, seed=0):
    """Three labels for each of 400 examples, a quarter of them wrong; truth, label and example."""
    rng = np.random.default_rng(seed)
    example = np.repeat(np.arange(N // 3), 3)
    truth = rng.integers(classes, size=N // 3)[example]
    wrong = rng.random(N) < 0.25
    return truth, np.where(wrong, (truth + rng.integers(1, classes, N)) % classes, truth), example, wrong, rng


def predict_alone(column, kind, y, example):
    return leaks.predict_alone(code_values(pd.Series(column), kind), y, grouped_folds(example, 5))


def share(column, kind, y, example):
    return predict_alone(column, kind, y, example).share


@pytest.mark.parametrize("classes", [2, 4, 10])
def test_copies_and_recodings_of_the_label_are_found(classes):
    _, y, example, _, rng = labels(classes)
    noisy = np.where(rng.random(N) < 0.01, rng.integers(classes, size=N), y)
    names = np.array([f"name {i}" for i in rng.permutation(classes)])
    missing = pd.Series(np.where(y == 0, None, "reason"), dtype=object)
    for column, kind in (
        (y, "category"),
        (names[y], "category"),
        (rng.permutation(classes)[y] * 10.0, "number"),
        (y + 0.4 * rng.random(N), "number"),  # every value is another
        (noisy, "category"),
        (pd.Timestamp("2020-01-01") + pd.to_timedelta(y + 0.4 * rng.random(N), unit="D"), "number"),
    ):
        assert classify_leak(share(column, kind, y, example), 0.0, False) == "copy", (kind, column[:5])
    if classes == 2:
        assert classify_leak(share(missing, "category", y, example), 0.0, False) == "copy"


def test_true_labels_know_the_answer():
    truth, y, example, _, _ = labels()
    own = share(truth, "category", y, example)
    assert 0.3 < own < 0.7
    assert classify_leak(own, 0.3, beats_inputs=True) == "answer"
    assert classify_leak(own, 0.3, beats_inputs=False) == ""


def test_honest_columns_and_ids_tell_nothing_predict_alone():
    _, y, example, wrong, rng = labels()
    ids = np.array([f"id {i}" for i in rng.permutation(N)])
    for column, kind in (
        (rng.integers(30, size=N), "category"),
        (np.where(wrong, 2, 1) * rng.exponential(size=N), "number"),
        (np.where(wrong, 1, 4) + rng.integers(2, size=N), "category"),
        (ids, "category"),
        (ids[example], "category"),
        (rng.permutation(N), "number"),
    ):
        assert share(column, kind, y, example) < 0.02, (kind, column[:5])
    assert predict_alone(ids, "category", y, example).known == 0
    assert predict_alone(ids[example], "category", y, example).known == 0  # not by labels of the same example
    assert predict_alone(wrong, "category", y, example).known == 1


def test_an_annotator_of_one_class_tells_what_their_choice_tells():
    """Alone is an estimate of I(y; a) / H(y): here by scikit-learn on the same data."""
    _, y, example, _, rng = labels(2)
    who = np.where(rng.random(N) < 0.8, y, 1 - y)
    expected = mutual_info_score(who, y) / mutual_info_score(y, y)
    assert share(who, "category", y, example) == pytest.approx(expected, abs=0.01)


def test_targets_are_summed():
    _, y, example, _, rng = labels(2)
    both = np.stack([y, rng.integers(2, size=N)], 1)
    found = predict_alone(y, "category", both, example)
    assert found.share == pytest.approx(0.5, abs=0.03)
    np.testing.assert_allclose(
        found.losses,
        sum(predict_alone(y, "category", both[:, i], example).losses for i in range(2)),
    )


def test_missing_values_are_a_value():
    assert code_values(pd.Series([1.5, np.nan, 1.5]), "number").tolist() == [0, 1, 0]
    codes = code_values(pd.Series([*np.arange(1000.0), np.nan]), "number")
    assert len(np.unique(codes)) == 51  # twenty rows in a bin
    assert (codes == codes[-1]).sum() == 1

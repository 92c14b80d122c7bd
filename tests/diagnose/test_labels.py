import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from lupi.crowd import infer
from lupi.datasets import load_digits_annotated
from lupi.diagnose import predict_out_of_fold
from lupi.diagnose.checks.labels import rank_labels


def rank(found, classes):
    return rank_labels(found, classes, found.truth.argmax(1), np.eye(len(classes), dtype=bool))


@pytest.fixture(scope="module")
def digits():
    return load_digits_annotated()


@pytest.fixture(scope="module")
def predicted(digits):
    return predict_out_of_fold(
        digits.X_train, digits.y_train, privileged=digits.privileged[["annotator"]], parameters={"epochs": 12}
    )


def test_wrong_labels_of_digits_are_found_with_one_label_each(digits, predicted):
    p, classes = predicted
    wrong = digits.y_train != digits.gold_train
    found = infer(p, digits.y_train, annotator=digits.privileged["annotator"].astype(str))
    table = rank(found, classes).sort_values("row")
    by_model = roc_auc_score(wrong, 1 - p[range(1000), digits.y_train])
    assert roc_auc_score(wrong, table["wrong"]) > max(0.95, by_model - 0.03)
    # With one label each, errors that the model has learnt cannot be told from the truth: too few seem wrong.
    assert wrong.mean() - 0.25 < table["wrong"].mean() < wrong.mean()
    most = table.nlargest(100, "wrong")
    assert wrong[most["row"]].mean() > 0.95
    assert (most["likely"].to_numpy() == digits.gold_train[most["row"]]).mean() > 0.7


def test_without_annotators_the_model_ranks(digits, predicted):
    p, classes = predicted
    table = rank(infer(p, digits.y_train), classes).sort_values("row")
    wrong = digits.y_train != digits.gold_train
    assert roc_auc_score(wrong, table["wrong"]) > 0.95
    order = np.corrcoef(table["wrong"].rank(), pd.Series(p[range(1000), digits.y_train]).rank())[0, 1]
    assert order < -0.95


def test_the_table_is_sorted_and_names_labels():
    p = np.array([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4]])
    table = rank(infer(p, [1, 1, 0]), np.array(["cat", "dog"]))
    assert list(table) == ["row", "given", "likely", "wrong", "right"]
    assert table["row"].iloc[0] == 0
    assert table["wrong"].is_monotonic_decreasing
    assert table.set_index("row")["given"].loc[[0, 1, 2]].tolist() == ["dog", "dog", "cat"]

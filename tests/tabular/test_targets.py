import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.tabular.targets import (
    FEW_ROWS,
    check_probabilities,
    check_weights,
    choose_task,
    find_unlabelled,
    note_quantity,
)


@pytest.mark.parametrize(
    ("labels", "classes", "unlabelled"),
    [
        ([0, 1, -1, 2], True, [2]),
        ([0, 1, -1, 2], False, []),  # real numbers
        ([0.0, 1.0, -1.0, np.nan], True, [2, 3]),
        ([-1, 1, 1, -1], True, []),
        ([-1, 0, 0, -1], True, []),  # nothing would be left to tell apart
        ([-2, -1, 0, 1], True, []),  # a scale
        ([-1, 0.5, 1, 2], True, []),
        (["-1", "a", "b", None], True, [3]),
        ([True, False, None, True], True, [2]),
        (pd.array([0, 1, -1, None], "Int64"), True, [2, 3]),
    ],
)
def test_rows_without_a_label(labels, classes, unlabelled):
    found = find_unlabelled(pd.DataFrame({"y": labels}), classes=classes)
    assert np.flatnonzero(found).tolist() == unlabelled


def test_several_targets_are_missing_together():
    labels = pd.DataFrame({"a": [0, 1, None, None], "b": [-1, 1, None, 0]})
    assert find_unlabelled(labels, classes=True).tolist() == [False, False, True, False]


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b"], "classification"),
        ([True, False], "classification"),
        ([0, 1], "classification"),
        ([1.0, 3.0], "classification"),
        ([0.5, 1.0], "regression"),
        (range(101), "regression"),
        (range(100), "classification"),
    ],
    ids=str,
)
def test_the_task_follows_the_target(values, task):
    frame = pd.DataFrame({"y": values})
    assert choose_task(frame, ["y"], None)[0] == task
    if values[0] != 0.5:
        assert choose_task(frame, ["y"], "classification") == ("classification", "as `task` says")
    if not isinstance(values[0], str):
        assert choose_task(frame, ["y"], "regression")[0] == "regression"


@pytest.mark.parametrize(
    ("columns", "task", "message"),
    [
        ({"y": [0.5, np.inf]}, None, "'y' to be finite, but row 1 is infinite"),
        ({"y": ["a", None]}, None, "^Expected target 'y' to have a value in every row, but row 1 has none.$"),
        ({"y": [3.0, 3.0]}, None, "^Expected target 'y' to have at least two values, but all are '3'.$"),
        ({"y": [0, 1], "z": [0, 2]}, None, "^Expected several targets to be 0 or 1, but 'z' has '2' in row 1.$"),
        ({"y": [0, 1], "z": [1, 0]}, "regression", "^Expected one target for regression, but got 2.$"),
        ({"y": ["a", "b"]}, "regression", "^Expected target 'y' to be numbers for regression, but got 'a'.$"),
        ({"y": [1.0, 1.5]}, "classification", "'y' to be names or integers for classification, but got '1.5'"),
        ({"y": [0, 1]}, "ranking", "`task`.*'ranking'"),
    ],
)
def test_targets_that_make_no_sense(columns, task, message):
    with pytest.raises(ValueError, match=message):
        choose_task(pd.DataFrame(columns), list(columns), task)


def test_several_targets():
    frame = pd.DataFrame({"y": [0, 1], "z": [True, False]})
    assert choose_task(frame, ["y", "z"], None) == ("classification", "2 targets of 0 and 1")


@pytest.mark.parametrize(
    ("values", "noted"),
    [
        (list(range(18, 39)), True),
        ([float(age) for age in range(18, 39)], True),
        (list(range(18, 38)), False),  # few distinct integers
        (list(range(21)) * (FEW_ROWS - 1), True),
        (list(range(21)) * FEW_ROWS, False),  # many rows for each
        ([f"n{i}" for i in range(30)], False),
    ],
    ids=["ages", "floats", "20", "few rows", "many rows", "names"],
)
def test_many_integers_with_few_rows_each_are_noted(values, noted):
    notes = note_quantity(pd.Series(values, name="age"))
    assert ["target 'age'" in note and "`task`" in note for note in notes] == [True] * noted


@given(st.integers(2, 6), st.integers(0, 1000), st.sampled_from([np.float16, np.float32, np.float64]))
def test_probabilities_that_were_rounded_sum_to_one(classes, seed, kind):
    p = np.random.default_rng(seed).dirichlet(np.ones(classes), 20)
    found = check_probabilities(pd.DataFrame(p.round(3).astype(kind)), "y")
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-12)
    np.testing.assert_allclose(found, p, atol=0.01)


def test_rows_are_those_of_the_table():
    labels = pd.DataFrame({"yes": [0.5, 0.7], "no": [0.5, 0.7]}, index=[3, 8])
    with pytest.raises(ValueError, match=r"row 8 sums to 1\.4"):
        check_probabilities(labels, "the targets")
    with pytest.raises(ValueError, match="row 8 has nan"):
        check_weights(pd.Series([1.0, None], index=[3, 8]), "weight column 'w'")


def test_nullable_numbers_and_booleans_are_weights():
    assert check_weights(pd.Series([2, 0], dtype="Int64"), "w").tolist() == [2, 0]
    assert check_weights(pd.Series([True, False]), "w").tolist() == [1, 0]

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lupi import PrivilegedClassifier
from lupi.tabular.frames import Columns
from lupi.tabular.grouping import FEW_VALUES, MOST_LABELS, check_examples, group_equal_inputs, hash_rows, sample_rows


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    some = {
        "number": rng.choice([0.0, 1.5, np.nan], 200),
        "whole": rng.integers(3, size=200),
        "name": rng.choice(["a", "b", None], 200),
        "flag": rng.random(200) < 0.5,
    }
    return pd.DataFrame(some)


def test_rows_are_grouped_by_their_inputs(frame):
    """As pandas groups them, which compares the values and not their hashes."""
    found, (note,) = group_equal_inputs(frame)
    expected = frame.groupby(list(frame), dropna=False, sort=False).ngroup()
    assert 1 < expected.nunique() < len(frame)
    np.testing.assert_array_equal(found, expected)
    assert note.startswith(f"The 200 rows have {expected.nunique()} different inputs, and without `example`")


def test_columns_that_are_read_one_by_one_are_grouped_alike(frame):
    columns = Columns.of(pa.Table.from_pandas(frame))
    np.testing.assert_array_equal(group_equal_inputs(columns)[0], group_equal_inputs(frame)[0])


def test_rows_that_all_differ_are_not_grouped():
    assert group_equal_inputs(pd.DataFrame({"a": [1, 2, 1], "b": [2, 1, 1]})) == (None, [])


def test_zeros_of_both_signs_are_equal_inputs():
    assert group_equal_inputs(pd.DataFrame({"a": [0.0, -0.0]}))[0].tolist() == [0, 0]


def test_integers_are_the_same_inputs_as_floats():
    whole, real = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pd.DataFrame({"a": [1.0, 2.5], "b": ["x", "y"]})
    np.testing.assert_array_equal(hash_rows(whole) == hash_rows(real), [True, False])


def test_many_rows_with_equal_inputs_of_few_values_are_examples():
    assert group_equal_inputs(pd.DataFrame({"a": [1, 2] * MOST_LABELS}))[0] is not None
    example, (note,) = group_equal_inputs(pd.DataFrame({"a": [1, 2] * MOST_LABELS + [1]}))
    assert example is None
    assert note.startswith("The 41 rows have only 2 different inputs, so every row counts as an example")


def test_many_labels_of_examples_whose_inputs_have_many_values_are_grouped():
    many = pd.DataFrame({"a": list(range(FEW_VALUES + 1)) * 2 * MOST_LABELS, "b": 0})
    assert group_equal_inputs(many)[0].max() == FEW_VALUES


def test_an_estimator_fills_in_what_is_known_of_an_example():
    X = pd.DataFrame({"price": [1.5, None, 2.5, None], "city": ["Bern", "Bern", None, "Rome"]})
    y, ids = ["no", "yes", "no", "yes"], list("aabb")
    model = PrivilegedClassifier("no-pi", epochs=1, random_state=0)
    with pytest.warns(UserWarning, match="without '(price|city)', the value of another row of the same example"):
        found = model.fit(X, y, example=ids).predict_proba(X.bfill().ffill())
    whole = X.assign(price=[1.5, 1.5, 2.5, 2.5], city=["Bern", "Bern", "Rome", "Rome"])
    np.testing.assert_array_equal(found, model.fit(whole, y, example=ids).predict_proba(X.bfill().ffill()))


def test_vectors_of_one_example_are_compared():
    ids, same = np.array(["a", "b", "a"]), [np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.array([1.0, 2.0])]
    check_examples(ids, pd.DataFrame({"v": same}))
    with pytest.raises(ValueError, match=r"rows 0 and 2 of example 'a' differ in 'v'"):
        check_examples(ids, pd.DataFrame({"v": [*same[:2], np.array([1.0, 2.5])]}))


def test_examples_are_equally_likely():
    example, counts = np.repeat(np.arange(10), 2), np.zeros(10)
    for seed in range(2000):
        counts[np.unique(example[sample_rows(example, 7, seed)])] += 1
    assert counts.sum() == 3 * 2000
    np.testing.assert_allclose(counts / 2000, 0.3, atol=4 * np.sqrt(0.3 * 0.7 / 2000))

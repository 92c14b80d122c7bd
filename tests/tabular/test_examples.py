import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lupi.tabular.examples import group_equal_inputs, hash_rows, note_equal_inputs
from lupi.tabular.lazy import Columns


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
    found = group_equal_inputs(frame)
    expected = frame.groupby(list(frame), dropna=False, sort=False).ngroup()
    assert 1 < expected.nunique() < len(frame)
    np.testing.assert_array_equal(found, expected)


def test_columns_that_are_read_one_by_one_are_grouped_alike(frame):
    columns = Columns.of(pa.Table.from_pandas(frame))
    np.testing.assert_array_equal(group_equal_inputs(columns), group_equal_inputs(frame))


def test_rows_that_all_differ_are_not_grouped():
    assert group_equal_inputs(pd.DataFrame({"a": [1, 2, 1], "b": [2, 1, 1]})) is None


def test_zeros_of_both_signs_are_equal_inputs():
    assert group_equal_inputs(pd.DataFrame({"a": [0.0, -0.0]})).tolist() == [0, 0]


def test_integers_are_the_same_inputs_as_floats():
    whole, real = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}), pd.DataFrame({"a": [1.0, 2.5], "b": ["x", "y"]})
    np.testing.assert_array_equal(hash_rows(whole) == hash_rows(real), [True, False])


def test_there_is_a_note_only_if_rows_are_grouped():
    assert note_equal_inputs(None) == note_equal_inputs(np.arange(3)) == []
    (note,) = note_equal_inputs(np.array([0, 1, 0, 0]))
    assert note.startswith("The 4 rows have 2 different inputs")

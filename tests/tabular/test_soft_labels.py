import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.tabular.targets import check_probabilities, check_weights


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

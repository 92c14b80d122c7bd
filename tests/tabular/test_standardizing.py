"""Numbers are standardized in double precision: constants become zeros, and nothing overflows."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi import PrivilegedRegressor
from lupi.tabular import TableEncoder
from lupi.tabular.kinds.number import MAX_NUMBER, MAX_STANDARDIZED

DATE = 1700000000123456789
CONSTANTS = [DATE, float(DATE), 1e30, -0.1, 1e-300, np.float32(0.1), True]


@pytest.mark.parametrize("value", CONSTANTS)
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_constant_columns_become_zeros(value, rows):
    X = pd.DataFrame({"c": [value] * rows, "x": np.arange(rows)})
    mixed = X.assign(name="a")
    assert not TableEncoder().fit_transform(X)[:, 0].any()
    assert not TableEncoder().fit_transform(mixed)[:, 0].any()
    if not isinstance(value, bool):
        encoder = TableEncoder(dict.fromkeys(X, "standardized"), privileged=True).fit(X)
        assert not encoder.transform(X).toarray()[:, 0].any()
        assert not encoder.transform(X.assign(c=12.0)).toarray()[:, 0].any()  # nothing was learned about other values


@given(st.lists(st.integers(0, 2**20), min_size=2, max_size=30), st.sampled_from([0.0, 2.0**62, -(2.0**59), 2.0**90]))
def test_an_offset_does_not_change_what_is_standardized(steps, offset):
    values = np.array(steps, float)[:, np.newaxis] * max(1.0, 2**20 * np.spacing(abs(offset)))
    plain, shifted = TableEncoder().fit_transform(values), TableEncoder().fit_transform(values + offset)
    np.testing.assert_allclose(shifted, plain, atol=1e-6)


@given(
    st.lists(st.floats(-MAX_NUMBER, MAX_NUMBER), min_size=1, max_size=20),
    st.floats(allow_nan=False, allow_infinity=False),
)
def test_features_are_finite_and_bounded(train, value):
    encoder = TableEncoder().fit(np.array(train)[:, np.newaxis])
    result = encoder.transform(np.array([*train, value])[:, np.newaxis])
    assert (np.abs(result) <= MAX_STANDARDIZED).all()
    assert (np.abs(result[:-1]) <= np.sqrt(len(train)) + 1e-6).all()  # as for every set of numbers


def test_absurd_training_values_are_refused_by_name():
    X = pd.DataFrame({"x": [1.0, 2.0, 3.0], "mass": [1.0, 1e300, 2.0]})
    message = r"Expected column 'mass' to be numbers of at most 1e\+36 in size, but got 1e\+300 in row 1\."
    for encoder in (TableEncoder(), TableEncoder(dict.fromkeys(X, "standardized"), privileged=True)):
        with pytest.raises(ValueError, match=message):
            encoder.fit(X)
    with pytest.raises(ValueError, match=message):
        TableEncoder().fit(X.assign(name="a"))
    with pytest.raises(
        ValueError, match=r"Expected y to be numbers of at most 1e\+36 in size, but got -1e\+300 in row 1"
    ):
        PrivilegedRegressor("no-pi").fit(X[["x"]], [1.0, -1e300, 2.0])


def test_a_constant_target_is_predicted_exactly():
    X = np.arange(6.0)[:, np.newaxis]
    model = PrivilegedRegressor("no-pi", epochs=1, random_state=0).fit(X, [DATE] * 6)
    assert (model.target_.mean, model.target_.scale) == (float(DATE), 1.0)

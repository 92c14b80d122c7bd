import numpy as np
import pandas as pd
import pytest

from lupi import PrivilegedRegressor
from tests.estimators.helpers import REAL, A, X, regressor


def test_regression_follows_the_scale_of_y():
    model = regressor(epochs=5).fit(X, REAL, privileged=A)
    moved = regressor(epochs=5).fit(X, 1000 * REAL - 7000, privileged=A)
    np.testing.assert_allclose(moved.predict(X), 1000 * model.predict(X) - 7000, rtol=1e-3, atol=1)
    np.testing.assert_allclose(moved.predict_given(X, A), 1000 * model.predict_given(X, A) - 7000, rtol=1e-3, atol=1)


def test_a_constant_target_has_scale_1():
    model = regressor().fit(X, np.full(60, 5.0), privileged=A)
    assert (model.target_.mean, model.target_.scale) == (5.0, 1.0)
    assert np.isfinite(model.predict(X)).all()


def changed(place, value):
    y = REAL.copy()
    y[place] = value
    return y


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array(["a", "b"] * 30), "y .* 'a' in row 0"),
        (pd.Series([1.5, "high", *range(58)], dtype=object), "y .* 'high' in row 1"),
        (["1", "2"] * 30, "y .* '1' in row 0"),
        (np.full(60, np.nan), "all 60 are missing"),
        (changed(3, np.inf), "Input y contains infinity in row 3"),
        (REAL[:10], "`y`.* 60 .* 10"),
        (np.stack([REAL, REAL], 1), r"1d array, got an array of shape \(60, 2\)"),
    ],
)
def test_targets_are_real_numbers(y, message):
    with pytest.raises(ValueError, match=message):
        regressor().fit(X, y, privileged=A)


def test_a_transition_matrix_needs_classes():
    with pytest.raises(ValueError, match=r"y .* 'pi-transition'"):
        regressor("pi-transition").fit(X, REAL, privileged=A)


def test_standard_deviations_are_those_of_the_noise():
    """The noise of y is three times as large on one side."""
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], size=(1500, 1))
    y = 5 * x[:, 0] + np.where(x[:, 0] > 0, 3.0, 1.0) * rng.normal(size=1500)
    model = PrivilegedRegressor("het-tram", epochs=30, learning_rate=1e-2, hidden=(16,), random_state=0)
    model.fit(x, y, privileged=np.zeros((1500, 1)))
    mean, std = model.predict(np.array([[-1.0], [1.0]]), return_std=True)
    np.testing.assert_allclose(mean, [-5, 5], atol=0.5)
    np.testing.assert_allclose(std, [1, 3], rtol=0.25)
    np.testing.assert_array_equal(model.predict(x), model.predict(x, return_std=True)[0])
    scaled = PrivilegedRegressor("het-tram", epochs=1, random_state=0)
    small = [scaled.fit(x, unit * y, privileged=np.zeros((1500, 1))).predict(x[:1], return_std=True) for unit in (1, 8)]
    np.testing.assert_allclose(small[1], 8 * np.array(small[0]), rtol=1e-4)


def test_methods_without_a_variance_have_no_standard_deviation():
    model = PrivilegedRegressor("no-pi", epochs=1).fit(np.arange(9.0)[:, None], np.arange(9.0))
    with pytest.raises(ValueError, match="predicts a variance, such as 'het-tram', for `return_std`, but got 'no-pi'"):
        model.predict(np.ones((1, 1)), return_std=True)

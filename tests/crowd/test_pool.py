import numpy as np
import pytest

from lupi.crowd.pool import fit_pool


def test_pool_of_equal_annotators_is_narrow_and_of_different_ones_wide():
    right = np.array([80.0, 80, 80, 80, 80, 80])
    equal = fit_pool(np.stack([[[r / 2, 50 - r / 2], [50 - r / 2, r / 2]] for r in right]))
    right = np.array([99.0, 95, 80, 50, 20, 10])
    apart = fit_pool(np.stack([[[r / 2, 50 - r / 2], [50 - r / 2, r / 2]] for r in right]))
    assert equal.a + equal.b > 10 * (apart.a + apart.b)
    assert equal.a / (equal.a + equal.b) == pytest.approx(0.8, abs=0.02)
    np.testing.assert_array_equal(equal.errors, [[0, 1], [1, 0]])

import numpy as np
import pytest

from lupi.crowd import pairwise_agreement


@pytest.mark.parametrize("names", [np.arange(3), np.array(["a", "b", None], dtype=object)])
def test_agreement_is_the_fraction_of_equal_pairs(names):
    rng = np.random.default_rng(0)
    example, y = rng.integers(20, size=100), rng.integers(3, size=100)
    pairs = [y[i] == y[j] for i in range(100) for j in range(i) if example[i] == example[j]]
    assert pairwise_agreement(names[y], example) == pytest.approx(np.mean(pairs))


def test_agreement_of_single_labels_is_unknown():
    assert np.isnan(pairwise_agreement([0, 1], [0, 1]))

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.crowd.agreement import krippendorff_alpha, pairwise_agreement


@pytest.mark.parametrize("names", [np.arange(3), np.array(["a", "b", None], dtype=object)])
def test_agreement_is_the_fraction_of_equal_pairs(names):
    rng = np.random.default_rng(0)
    example, y = rng.integers(20, size=100), rng.integers(3, size=100)
    pairs = [y[i] == y[j] for i in range(100) for j in range(i) if example[i] == example[j]]
    assert pairwise_agreement(names[y], example) == pytest.approx(np.mean(pairs))


def test_agreement_of_single_labels_is_unknown():
    assert np.isnan(pairwise_agreement([0, 1], [0, 1]))


def coincidence_alpha(label, example):
    """Krippendorff's definition by the matrix of coincidences, pair by pair."""
    o = collections.Counter()
    for e in set(example):
        own = [value for value, of in zip(label, example, strict=True) if of == e]
        for i, j in itertools.permutations(range(len(own)), 2):
            o[own[i], own[j]] += 1 / (len(own) - 1)
    n_c = collections.Counter()
    for (c, _), count in o.items():
        n_c[c] += count
    n = sum(n_c.values())
    observed = sum(count for (c, k), count in o.items() if c != k)
    expected = sum(n_c[c] * n_c[k] for c in n_c for k in n_c if c != k) / (n - 1)
    return 1 - observed / expected


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=6, max_size=20))
def test_alpha_is_that_of_the_coincidences(pairs):
    label, example = map(list, zip(*[*pairs, (0, 9), (1, 9)], strict=True))
    assert krippendorff_alpha(label, example) == pytest.approx(coincidence_alpha(label, example))


def test_alpha_of_krippendorffs_example():
    """The nominal data of "Computing Krippendorff's alpha-reliability" (2011), section C: α = 0.743."""
    table = """
    1 2 3 3 2 1 4 1 2 . . .
    1 2 3 3 2 2 4 1 2 5 . 3
    . 3 3 3 2 3 4 2 2 5 1 .
    1 2 3 3 2 4 4 1 2 5 1 .
    """
    cells = [(v, i) for line in table.split("\n") for i, v in enumerate(line.split()) if v != "."]
    assert krippendorff_alpha(*zip(*cells, strict=True)) == pytest.approx(0.743, abs=5e-4)


def test_alpha_without_pairs_or_without_variation():
    assert math.isnan(krippendorff_alpha([1, 2], [0, 1]))
    assert krippendorff_alpha([1, 1], [0, 0]) == 1.0

import collections
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lupi.crowd.agreement import bootstrap_alpha, krippendorff_alpha, pairwise_agreement


@pytest.mark.parametrize("names", [np.arange(3), np.array(["a", "b", None], dtype=object)])
def test_agreement_is_the_fraction_of_equal_pairs(names):
    rng = np.random.default_rng(0)
    example, y = rng.integers(20, size=100), rng.integers(3, size=100)
    pairs = [y[i] == y[j] for i in range(100) for j in range(i) if example[i] == example[j]]
    assert pairwise_agreement(names[y], example) == pytest.approx(np.mean(pairs))


def test_agreement_of_single_labels_is_unknown():
    assert np.isnan(pairwise_agreement([0, 1], [0, 1]))


def square(c, k, n_c, level):
    """δ² of Krippendorff (2018), equations 12.9, 12.10 and 12.11."""
    if level == "nominal":
        return float(c != k)
    if level == "interval":
        return (c - k) ** 2
    between = sum(count for value, count in n_c.items() if min(c, k) <= value <= max(c, k))
    return (between - (n_c[c] + n_c[k]) / 2) ** 2


def coincidence_alpha(label, example, level):
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
    observed = sum(count * square(c, k, n_c, level) for (c, k), count in o.items())
    expected = sum(n_c[c] * n_c[k] * square(c, k, n_c, level) for c in n_c for k in n_c) / (n - 1)
    return 1 - observed / expected


LEVELS = ["nominal", "ordinal", "interval"]


@pytest.mark.parametrize("level", LEVELS)
@given(pairs=st.lists(st.tuples(st.sampled_from([-3, 0, 1, 5]), st.integers(0, 4)), min_size=6, max_size=20))
def test_alpha_is_that_of_the_coincidences(level, pairs):
    label, example = map(list, zip(*[*pairs, (0, 9), (1, 9)], strict=True))
    expected = coincidence_alpha(label, example, level)
    assert krippendorff_alpha(label, example, level) == pytest.approx(expected)


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_krippendorffs_example(level, alpha):
    """The data of "Computing Krippendorff's alpha-reliability" (2011), sections C and D."""
    table = """
    1 2 3 3 2 1 4 1 2 . . .
    1 2 3 3 2 2 4 1 2 5 . 3
    . 3 3 3 2 3 4 2 2 5 1 .
    1 2 3 3 2 4 4 1 2 5 1 .
    """
    cells = [(int(v), i) for line in table.split("\n") for i, v in enumerate(line.split()) if v != "."]
    assert krippendorff_alpha(*zip(*cells, strict=True), level) == pytest.approx(alpha, abs=5e-4)


def rate(rng, examples, each=3):
    """Numbers that are half truth and half error, and the same rounded to four grades of different width."""
    number = rng.normal(size=(examples, 1)) + rng.normal(size=(examples, each))
    return number.ravel(), np.digitize(number.ravel(), [-1.5, 0.2, 1]), np.arange(examples).repeat(each)


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_cover_alpha_of_the_population(level):
    """The interval α of numbers is the share of the truth in their variance; the others are those of a large sample."""
    number, grade, example = rate(np.random.default_rng(0), 100_000)
    truth = 0.5 if level == "interval" else krippendorff_alpha(grade, example, level)
    assert krippendorff_alpha(number, example, "interval") == pytest.approx(0.5, abs=0.01)
    covered = 0
    for seed in range(1, 201):
        number, grade, example = rate(np.random.default_rng(seed), 60)
        low, high = bootstrap_alpha(number if level == "interval" else grade, example, level, seed)
        covered += low <= truth <= high
    assert 180 <= covered < 200


def test_alpha_without_pairs_or_without_variation():
    assert math.isnan(krippendorff_alpha([1, 2], [0, 1]))
    assert krippendorff_alpha([1, 1], [0, 0]) == 1.0

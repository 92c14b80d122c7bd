import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import dirichlet_multinomial

from lupi.crowd.errors import CONCENTRATIONS, estimate_errors, log_evidence


def test_evidence_is_that_of_the_dirichlet_multinomial_of_each_row():
    count = np.array([[9.0, 3, 1, 0], [2, 7, 2, 2], [0, 5, 1, 0], [1, 0, 1, 8]])
    expected = 0.0
    for row in range(4):
        others = np.delete(count[row], row)
        n = int(others.sum())
        expected += dirichlet_multinomial.logpmf(others.astype(int), np.full(3, 2.5), n)
        expected -= gammaln(n + 1) - gammaln(others + 1).sum()  # the order of the labels is known
    assert log_evidence(count, 7.5) == pytest.approx(expected)


def test_few_errors_of_many_classes_are_uniform_and_many_are_learnt():
    rng = np.random.default_rng(0)
    few = rng.poisson(1 / 300, (300, 300)).astype(float)
    np.testing.assert_allclose(estimate_errors(few)[0, 1:], 1 / 299, rtol=0.05)
    often = np.array([[0, 0.9, 0.1], [0.5, 0, 0.5], [0.2, 0.8, 0]])
    np.testing.assert_allclose(estimate_errors(1000 * often), often, atol=0.01)
    assert (np.diag(estimate_errors(few)) == 0).all()
    np.testing.assert_allclose(estimate_errors(few).sum(1), 1)


def test_the_concentration_has_the_highest_evidence():
    rng = np.random.default_rng(1)
    count = rng.multinomial(20, rng.dirichlet(np.ones(9))[None].repeat(10, 0).reshape(10, 9)[0], 10)
    count = np.insert(count.astype(float), 0, 0, axis=1)
    count = np.array([np.roll(row, shift) for shift, row in enumerate(count)])
    best = CONCENTRATIONS[np.argmax([log_evidence(count, total) for total in CONCENTRATIONS])]
    expected = (count + best / 9) * (1 - np.eye(10))
    np.testing.assert_allclose(estimate_errors(count), expected / expected.sum(1, keepdims=True))

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm

from lupi_paper.theory import binned_information, draw_synthetic, exact_information, plug_in_information
from lupi_paper.theory.information import log_densities


def bernoulli_entropy(p):
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


def log_ratio(x, a, y, noise):
    """log p(y | x, a) / p(y | x), the density of a = 1 by another formula."""
    careful = norm.pdf(y, np.sin(2 * np.pi * x), noise)
    random = (norm.sf((y - 1) / noise) - norm.sf((y + 1) / noise)) / 2
    return np.log(np.where(a, random, careful) / (0.7 * careful + 0.3 * random))


@pytest.mark.parametrize(
    ("noise", "value"), [(0.1, 0.39975), (0.5, 0.13756), (1.0, 0.04756), (1.5, 0.02245), (2.0, 0.01287)]
)
def test_exact_information_has_its_values(noise, value):
    assert exact_information(noise) == pytest.approx(value, abs=6e-6)


@pytest.mark.parametrize("noise", [0.1, 0.5, 2.0])
def test_exact_information_is_that_of_another_quadrature(noise):
    """I = H(a) − E H(a | x, y), Gauss-Legendre in x and adaptive in y."""

    def inner(x):
        signal = math.sin(2 * math.pi * x)

        def integrand(y):
            careful = 0.7 * norm.pdf(y, signal, noise)
            random = 0.3 * (norm.cdf(y + 1, scale=noise) - norm.cdf(y - 1, scale=noise)) / 2
            return (careful + random) * bernoulli_entropy(min(max(random / (careful + random), 1e-300), 1 - 1e-16))

        ends = -1 - 7 * noise, 1 + 7 * noise
        return integrate.quad(integrand, *ends, points=[signal, -1, 1], limit=200, epsabs=1e-7)[0]

    node, weight = np.polynomial.legendre.leggauss(16)
    half = sum(w * inner(0.25 * n) for n, w in zip(node, weight, strict=True)) / 2  # x from −¼ to ¼, a monotone half
    assert exact_information(noise) == pytest.approx(bernoulli_entropy(0.3) - half, abs=2e-5)


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_exact_information_is_within_the_error_of_monte_carlo(noise):
    n = 400_000
    sample = log_ratio(*draw_synthetic(n, noise, np.random.default_rng(0)), noise)
    assert abs(sample.mean() - exact_information(noise)) < 3 * sample.std() / math.sqrt(n)


@settings(max_examples=20)
@given(st.floats(0.02, 20), st.floats(0.05, 0.95), st.floats(1.05, 3))
def test_exact_information_lies_between_nothing_and_the_entropy_of_a(noise, noisy, factor):
    found = exact_information(noise, noisy)
    assert 0 < found < bernoulli_entropy(noisy)
    assert exact_information(noise * factor, noisy) < found


def test_exact_information_has_its_limits():
    assert exact_information(3e-3) == pytest.approx(bernoulli_entropy(0.3), abs=0.02)
    assert exact_information(3e-3) > exact_information(1e-2)
    assert exact_information(1000.0) == pytest.approx(0, abs=1e-7)


@pytest.mark.parametrize(
    ("noise", "noisy", "name"), [(0.0, 0.3, "noise"), (5e-324, 0.3, "noise"), (0.1, 1.0, "noisy"), (0.1, 0.0, "noisy")]
)
def test_exact_information_refuses(noise, noisy, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        exact_information(noise, noisy)


def test_draw_synthetic_is_the_papers_process():
    x, a, y = draw_synthetic(200_000, 0.1, np.random.default_rng(0))
    assert a.mean() == pytest.approx(0.3, abs=0.005)
    assert 0 <= x.min() < x.max() <= 1
    careful = y[a == 0] - np.sin(2 * np.pi * x[a == 0])
    assert careful.std() == pytest.approx(0.1, abs=0.001)
    assert y[a == 1].var() == pytest.approx(1 / 3 + 0.01, abs=0.005)
    assert np.corrcoef(y[a == 1], np.sin(2 * np.pi * x[a == 1]))[0, 1] == pytest.approx(0, abs=0.02)


def test_densities_sum_to_one():
    y = np.linspace(-8, 8, 40_001)
    for log_density in log_densities(np.float64(0.3), y, 0.5):
        assert integrate.trapezoid(np.exp(log_density), y) == pytest.approx(1, abs=1e-6)


@settings(max_examples=30)
@given(st.integers(0, 2**31))
def test_plug_in_of_a_whole_table_is_its_information(seed):
    """Each cell of p(x, a, y) stands in the sample as often as it should, so there is no sampling error."""
    counts = np.random.default_rng(seed).integers(0, 5, size=(3, 2, 4))
    counts[2, 1, 3] += 1
    p = counts / counts.sum()
    expected = 0.0
    for i, j, k in zip(*np.nonzero(p), strict=True):
        expected += p[i, j, k] * math.log(p[i, j, k] * p[i].sum() / (p[i, j].sum() * p[i, :, k].sum()))
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    x, a, y = np.unravel_index(cells, counts.shape)
    assert plug_in_information(x, a, y) == pytest.approx(expected, abs=1e-12)


def test_bins_of_a_discrete_toy_are_exact_and_biased():
    rng = np.random.default_rng(0)
    n = 100_000
    x, a = rng.integers(4, size=n), rng.integers(2, size=n)
    y = np.where(rng.uniform(size=n) < 0.9, a, 1 - a)  # I = log 2 − H(0.9)
    exact = math.log(2) - bernoulli_entropy(0.9)
    assert binned_information(x.astype(float), a, y.astype(float), bins=4) == pytest.approx(exact, abs=0.005)
    nothing = [
        plug_in_information(rng.integers(4, size=500), rng.integers(2, size=500), rng.integers(5, size=500))
        for _ in range(200)
    ]
    assert np.mean(nothing) == pytest.approx(4 * (2 - 1) * (5 - 1) / (2 * 500), rel=0.1)  # Miller and Madow


def test_bins_are_biased_up_by_a_hundredth():
    x, a, y = draw_synthetic(250_000, 1.0, np.random.default_rng(0))
    assert binned_information(x, a, y, 100) - exact_information(1.0) == pytest.approx(0.0125, abs=0.0025)

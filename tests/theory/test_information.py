import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm

from lupi import testing
from lupi.data import Batch
from lupi.likelihoods import Gaussian
from lupi.theory import information
from lupi.theory.information import (
    binned_information,
    cross_entropy_gap,
    draw_synthetic,
    estimate_information,
    exact_information,
    held_out_losses,
    log_densities,
    mixture,
    plug_in_information,
)

FAST = {"epochs": 4, "learning_rate": 1e-2}


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


@pytest.mark.parametrize(("noise", "noisy", "name"), [(0.0, 0.3, "noise"), (0.1, 1.0, "noisy"), (0.1, 0.0, "noisy")])
def test_exact_information_refuses(noise, noisy, name):
    with pytest.raises(ValueError, match=f"Expected `{name}` to be"):
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


def test_gap_by_hand():
    marginal, conditional = [1.0, 2.0, 3.0, 4.0], [0.0, 1.5, 2.0, 4.5]  # gains 1, 0.5, 1, −0.5: mean 0.5
    found = cross_entropy_gap(marginal, conditional, example=["p", "p", "q", "r"])
    # deviations 0.5, 0, 0.5, −1 sum to 0.5, 0.5, −1 by example: √(3/2 · 1.5) / 4 = 0.375
    assert found.estimate == 0.5
    assert found.standard_error == pytest.approx(0.375)
    assert (found.low, found.high) == pytest.approx((0.5 - 4.30265 * 0.375, 0.5 + 4.30265 * 0.375), rel=1e-5)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=2, max_size=30), st.integers(2, 4))
def test_gap_without_and_with_repeats(pairs, repeats):
    marginal, conditional = np.array(pairs).T
    found = cross_entropy_gap(marginal, conditional)
    gain = marginal - conditional
    assert found.standard_error == pytest.approx(gain.std(ddof=1) / math.sqrt(len(gain)), abs=1e-12)
    assert found.low <= found.estimate <= found.high
    # Copies of an annotation add nothing when they are of one example.
    example = np.tile(np.arange(len(gain)), repeats)
    again = cross_entropy_gap(np.tile(marginal, repeats), np.tile(conditional, repeats), example=example)
    assert again.estimate == pytest.approx(found.estimate, abs=1e-12)
    assert again.standard_error == pytest.approx(found.standard_error, abs=1e-12)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_interval_covers_as_often_as_it_says(level):
    """The true densities for the models, five annotations for each of 200 examples."""
    covered = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        example = np.repeat(np.arange(200), 5)
        shared = rng.normal(size=200)[example]
        gain = 0.3 + shared + rng.normal(size=1000)
        found = cross_entropy_gap(gain, np.zeros(1000), example=example, level=level)
        covered += found.low < 0.3 < found.high
    assert abs(covered / 400 - level) < 3 * math.sqrt(level * (1 - level) / 400)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"marginal": [[1.0, 2.0]]}, "`marginal`"),
        ({"conditional": [1.0, math.nan]}, "`conditional`"),
        ({"conditional": [1.0]}, "`conditional`"),
        ({"example": [1]}, "`example`"),
        ({"example": [1, 1]}, "at least 2 examples"),
        ({"level": 1.0}, "`level`"),
    ],
)
def test_gap_refuses(change, name):
    arguments = {"marginal": [1.0, 2.0], "conditional": [1.0, 2.0], **change}
    with pytest.raises(ValueError, match=f"Expected .*{name}"):
        cross_entropy_gap(arguments.pop("marginal"), arguments.pop("conditional"), **arguments)


def careless(n, seed=0):
    """Half of the labels are the truth, half are coins; H(¾) − ½ log 2 = 0.2158."""
    rng = np.random.default_rng(seed)
    truth, coin = rng.integers(2, size=n), rng.integers(2, size=n)
    y = np.where(coin, rng.integers(2, size=n), truth)
    X = pd.DataFrame({"truth": truth.astype(float)})
    return X, np.array(["no", "yes"])[y], pd.DataFrame({"annotator": np.array(["ann", "bob"])[coin]})


def test_estimate_of_classes_finds_what_there_is_and_nothing_in_noise():
    X, y, A = careless(600)
    found = estimate_information(X, y, A, folds=2, parameters=FAST)
    assert found.low < 0.2158 < found.high < 0.3
    shuffled = A.sample(frac=1, random_state=0).reset_index(drop=True)
    nothing = estimate_information(X, y, shuffled, folds=2, parameters=FAST)
    assert nothing.low < 0.01
    assert nothing.high < 0.02


def test_estimate_repeats_and_hangs_on_its_seed():
    X, y, A = careless(120)
    first, second, other = (estimate_information(X, y, A, folds=2, parameters=FAST, seed=seed) for seed in (0, 0, 1))
    assert first == second != other


def test_estimate_of_a_real_y_is_near_the_exact_value():
    x, a, y = draw_synthetic(2000, 0.5, np.random.default_rng(0))
    found = estimate_information(x[:, None], y, a[:, None], folds=2, parameters={"epochs": 6, "learning_rate": 1e-2})
    assert found.low < exact_information(0.5) < found.high < 0.25


def test_examples_are_never_in_training_and_held_out_at_once(monkeypatch):
    seen = []
    fit = information.PrivilegedClassifier.fit

    def spy(self, X, y, *, privileged, example):
        seen.append(set(X["truth"]))
        return fit(self, X, y, privileged=privileged, example=example)

    monkeypatch.setattr(information.PrivilegedClassifier, "fit", spy)
    ids = np.repeat(np.arange(20), 3)
    X, y, A = pd.DataFrame({"truth": ids.astype(float)}), np.tile([0, 1, 1], 20), careless(60)[2]
    held_out_losses(X, y, A, example=ids, folds=4, parameters={"epochs": 1})
    assert [len(examples) for examples in seen] == [15] * 4
    assert set.intersection(*seen) == set()


def test_a_class_that_training_has_not_seen_costs_the_same_with_and_without_a():
    y = np.array(["often"] * 30 + ["other"] * 29 + ["once"])
    X, A = np.zeros((60, 1)), np.arange(60)[:, None] % 2
    for privileged in (A, None):
        losses = held_out_losses(X, y, privileged, folds=2, parameters={"epochs": 1})
        assert losses[-1] == pytest.approx(-math.log(1e-7))
        assert np.isfinite(losses).all()


def test_losses_are_in_the_units_of_y():
    x, a, y = draw_synthetic(200, 0.1, np.random.default_rng(0))
    losses, larger = (
        held_out_losses(x[:, None], unit * y, a[:, None], folds=2, parameters={"epochs": 1}) for unit in (1, 16)
    )
    np.testing.assert_allclose(larger - losses, math.log(16), atol=1e-5)


def test_held_out_losses_refuse():
    with pytest.raises(ValueError, match="Expected `y` to be one label per annotation"):
        held_out_losses(np.zeros((4, 1)), np.arange(8).reshape(4, 2), None)
    with pytest.raises(ValueError, match="Expected `folds` to be"):
        held_out_losses(np.zeros((4, 1)), np.zeros(4), None, folds=1)


def test_losses_of_several_targets_are_those_of_each_summed():
    rng = np.random.default_rng(0)
    X, a = rng.normal(size=(300, 1)), rng.integers(2, size=(300, 1))
    y = np.stack([X[:, 0] > 0, a[:, 0] == 1, rng.random(300) < 0.5], 1).astype(int)
    losses = held_out_losses(X, y, a, folds=2, parameters={"epochs": 30, "learning_rate": 1e-2})
    blank = held_out_losses(X, y, None, folds=2, parameters={"epochs": 30, "learning_rate": 1e-2})
    assert losses.shape == (300,)
    assert math.log(2) - 0.1 < losses.mean() < math.log(2) + 0.4  # the third is a coin, and the first two are known
    assert cross_entropy_gap(blank, losses).estimate == pytest.approx(math.log(2), abs=0.15)  # the second


def test_whole_numbers_are_real_where_that_is_said():
    x, a, y = draw_synthetic(200, 0.1, np.random.default_rng(0))
    whole = np.round(5 * y)
    given = {"folds": 2, "parameters": {"epochs": 1}}
    real = held_out_losses(x[:, None], whole, a[:, None], real=True, **given)
    np.testing.assert_allclose(real, held_out_losses(x[:, None], whole + 1e-9, a[:, None], **given), atol=1e-3)
    assert np.abs(real - held_out_losses(x[:, None], whole, a[:, None], **given)).max() > 1


def test_mixture_is_a_density_and_the_one_of_its_parameters():
    method = mixture(testing.make_parts(Gaussian())).double()
    y = torch.linspace(-40, 40, 20_001).double()
    x, a = torch.ones(1, testing.INPUTS).double(), torch.zeros(1, testing.PRIVILEGED).double()
    row = torch.zeros(len(y), dtype=torch.long)
    with torch.no_grad():
        losses = method.each(Batch(x, row, a.expand(len(y), -1), y)).numpy()
        weight, mean, scale = method.predictor()(x)[0].numpy().reshape(3, -1)
    assert integrate.trapezoid(np.exp(-losses), y.numpy()) == pytest.approx(1, abs=1e-6)
    weight = np.exp(weight) / np.exp(weight).sum()
    mean = np.linspace(-1.5, 1.5, 8) + mean
    scale = np.log1p(np.exp(scale)) + 0.01
    density = norm.pdf(y.numpy()[:, None], mean, scale) @ weight
    np.testing.assert_allclose(np.exp(-losses), density, rtol=1e-4, atol=1e-12)

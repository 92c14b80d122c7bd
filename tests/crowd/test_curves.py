"""Learning curves."""

import numpy as np
import pytest

from lupi.crowd.curves import extrapolate, measure_trainings

SHARES, FOLDS = (1 / 8, 1 / 4, 1 / 2, 1), 5


def test_a_curve_without_noise_is_found():
    sizes = np.array([50, 100, 200, 400])
    mean = 0.1 + 2 / np.sqrt(sizes)
    rng = np.random.default_rng(0)
    noise = 1e-4 * rng.normal(size=(4, 1000))
    losses = mean[:, None] + noise - noise.mean(1, keepdims=True)
    for found, at in zip(extrapolate(losses, sizes, np.arange(1000) % FOLDS, [400, 800]), [400, 800], strict=True):
        assert found.loss == pytest.approx(0.1 + 2 / np.sqrt(at), abs=0.003)
        assert found.low < found.loss < found.high
    assert found.gain == pytest.approx(2 / np.sqrt(400) - 2 / np.sqrt(800), abs=0.003)
    assert found.gain_low < found.gain < found.gain_high


def test_the_variance_between_trainings_is_that_which_examples_do_not_explain():
    rng = np.random.default_rng(0)
    fold, sizes = np.arange(40_000) % 400, np.array([100, 200, 400])
    between = rng.normal(size=(3, 400)) * np.sqrt(50 / sizes)[:, None]
    found = measure_trainings(rng.normal(size=(3, 40_000)) + between[:, fold], sizes, fold)
    assert found == pytest.approx(50, rel=0.15)
    assert measure_trainings(rng.normal(size=(3, 400)), np.ones(3), np.arange(400) % 2) < 0.02


def test_models_that_more_labels_make_worse():
    losses = np.linspace(0, 1, 4)[:, None] + 1e-6 * np.random.default_rng(0).normal(size=(4, 100))
    found = extrapolate(losses, [1, 2, 4, 8], np.arange(100) % FOLDS, [16])[0]
    assert found.low <= found.loss <= found.high


def fit(x, y):
    """Least squares; the probability of class 1."""
    solution = np.linalg.solve(x.T @ x + 5 * np.eye(x.shape[1]), x.T @ (2 * y - 1))
    return lambda new: 1 / (1 + np.exp(-3 * new @ solution))


def losses_of(p, y):
    return np.stack([(p > 0.5) != y, -np.log(np.where(y == 1, p, 1 - p))])


def double(seed, n=400, features=20):
    """Return whether the intervals cover error and NLL of models of n and of 2n examples, and their difference."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=features) / 3

    def draw(size):
        x = rng.normal(size=(size, features))
        return x, x @ w + rng.logistic(size=size) > 0

    (x, y), (test, truth) = draw(2 * n), draw(10_000)
    fold, found = np.arange(n) % FOLDS, np.zeros((2, len(SHARES), n))
    for k in range(FOLDS):
        train, held = rng.permutation(np.flatnonzero(fold != k)), fold == k
        for place, share in enumerate(SHARES):
            use = train[: round(share * len(train))]
            found[:, place, held] = losses_of(fit(x[use], y[use])(x[:n][held]), y[:n][held])
    sizes = [share * n * (FOLDS - 1) / FOLDS for share in SHARES]
    trained = []
    for inputs, labels in [(x, y), *(draw(2 * n) for _ in range(19))]:
        trained.append([losses_of(fit(inputs[:size], labels[:size])(test), truth).mean(1) for size in (n, 2 * n)])
    true, gain = trained[0], np.mean([first - second for first, second in trained], 0)
    predicted = [extrapolate(each, sizes, fold, [n, 2 * n]) for each in found]
    covered = [
        [each.low <= true[at][metric] <= each.high for at, each in enumerate(predicted[metric])]
        + [predicted[metric][1].gain_low <= gain[metric] <= predicted[metric][1].gain_high]
        for metric in (0, 1)
    ]
    return covered, [[each.loss for each in of_metric] for of_metric in predicted]


def test_intervals_cover_the_error_and_the_nll_of_models_with_more_labels_and_what_these_gain():
    covered, predicted = zip(*[double(seed) for seed in range(200)], strict=True)
    assert (np.mean(covered, 0) >= 0.9).all(), np.mean(covered, 0)
    now, later = np.mean(predicted, 0).T
    assert (later < now).all()

"""Learning curves."""

import numpy as np
import pytest

from lupi.diagnose.curves import extrapolate, measure_trainings

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


def test_the_variance_between_trainings_is_that_which_examples_do_not_explain():
    rng = np.random.default_rng(0)
    fold = np.arange(40_000) % 400
    found = measure_trainings(rng.normal(size=(3, 40_000)) + 0.5 * rng.normal(size=(3, 400))[:, fold], fold)
    assert found == pytest.approx(0.25, abs=0.03)
    assert measure_trainings(rng.normal(size=(3, 400)), np.arange(400) % 2) < 0.02


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
    """Return whether the intervals cover error and NLL of models of n and of 2n examples, and their predictions."""
    rng = np.random.default_rng(seed)
    w, x, test = rng.normal(size=features) / 3, rng.normal(size=(2 * n, features)), rng.normal(size=(10_000, features))
    y, truth = (each @ w + rng.logistic(size=len(each)) > 0 for each in (x, test))
    fold, found = np.arange(n) % FOLDS, np.zeros((2, len(SHARES), n))
    for k in range(FOLDS):
        train, held = rng.permutation(np.flatnonzero(fold != k)), fold == k
        for place, share in enumerate(SHARES):
            use = train[: round(share * len(train))]
            found[:, place, held] = losses_of(fit(x[use], y[use])(x[:n][held]), y[:n][held])
    sizes = [share * n * (FOLDS - 1) / FOLDS for share in SHARES]
    true = [losses_of(fit(x[:size], y[:size])(test), truth).mean(1) for size in (n, 2 * n)]
    predicted = [extrapolate(each, sizes, fold, [n, 2 * n]) for each in found]
    return [
        [each.low <= true[at][metric] <= each.high for at, each in enumerate(predicted[metric])] for metric in (0, 1)
    ], [[each.loss for each in of_metric] for of_metric in predicted]


def test_intervals_cover_the_error_and_the_nll_of_models_with_more_labels():
    covered, predicted = zip(*[double(seed) for seed in range(200)], strict=True)
    assert (np.mean(covered, 0) >= 0.9).all(), np.mean(covered, 0)
    now, later = np.mean(predicted, 0).T
    assert (later < now).all()

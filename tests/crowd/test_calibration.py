import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from lupi.crowd.calibration import SPREAD, calibrate


def draw(examples=200, classes=3, seed=0):
    """Draw predictions, the log-likelihood of labels, and true labels; t = ½, e = 2 and b = 1, 0, 0."""
    rng = np.random.default_rng(seed)
    p, evidence = softmax(2 * rng.normal(size=(examples, classes)), 1), rng.normal(size=(examples, classes))
    bias = np.eye(classes)[0]
    truth = softmax(0.5 * np.log(p) + 2 * evidence + bias, 1)
    return p, evidence, (truth.cumsum(1) > rng.random((examples, 1))).argmax(1)


def test_nothing_changes_without_true_labels():
    p, evidence, _ = draw()
    found = calibrate(np.full(len(p), -1), p, evidence, 0.7)
    assert (found.power, found.exponent) == (1, 0.7)
    np.testing.assert_allclose(found.apply(p, evidence), softmax(np.log(p) + 0.7 * evidence, 1), atol=1e-9)


def test_the_fit_is_the_maximum_of_the_posterior():
    """An independent search of the maximum, with the formula of the module and no gradient."""
    p, evidence, gold = draw(60)
    gold = np.where(np.arange(60) < 40, gold, -1)

    def negative_log_posterior(t):
        logits = np.exp(t[0]) * np.log(p) + np.exp(t[1]) * 0.7 * evidence + t[2:]
        of_truth = log_softmax(logits, 1)[np.arange(40), gold[:40]]
        return (
            (t[0] / SPREAD[0]) ** 2 / 2 + (t[1] / SPREAD[1]) ** 2 / 2 + (t[2:] ** 2).sum() / 2 / 0.25 - of_truth.sum()
        )

    found = calibrate(gold, p, evidence, 0.7)
    best = minimize(negative_log_posterior, np.zeros(5), method="Nelder-Mead", options={"maxiter": 5000, "xatol": 1e-7})
    np.testing.assert_allclose([found.power, found.exponent / 0.7], np.exp(best.x[:2]), rtol=1e-3)
    np.testing.assert_allclose(found.bias, best.x[2:], atol=1e-3)


def test_many_true_labels_reveal_the_calibration():
    p, evidence, gold = draw(20_000)
    found = calibrate(gold, p, evidence)
    assert found.power == pytest.approx(0.5, abs=0.03)
    assert found.exponent == pytest.approx(2, abs=0.1)
    np.testing.assert_allclose(found.bias - found.bias[2], [1, 0, 0], atol=0.1)


def test_a_few_true_labels_make_the_other_probabilities_better():
    gain = []
    for seed in range(20):
        p, evidence, z = draw(500, seed=seed)
        found = calibrate(np.where(np.arange(500) < 30, z, -1), p, evidence).apply(p, evidence)
        before = softmax(np.log(p) + evidence, 1)
        gain.append(np.log(found[np.arange(30, 500), z[30:]] / before[np.arange(30, 500), z[30:]]).mean())
    assert np.mean(gain) > 3 * np.std(gain) / len(gain) ** 0.5

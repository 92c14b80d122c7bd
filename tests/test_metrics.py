import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, cohen_kappa_score, log_loss

from lupi import metrics

RNG = np.random.default_rng(0)
P = RNG.dirichlet([1, 1, 1], size=200)
Y = RNG.integers(3, size=200)
ON = RNG.random((200, 4))
IS_ON = (RNG.random((200, 4)) < ON).astype(int)


def test_means_are_scikit_learns_scores():
    assert metrics.nll(Y, P).mean() == pytest.approx(log_loss(Y, P))
    assert metrics.accuracy(Y, P).mean() == pytest.approx(accuracy_score(Y, P.argmax(1)))


def test_impossible_labels_cost_what_scikit_learn_says():
    y, p = [0, 1], [[0.0, 1.0], [0.5, 0.5]]
    assert metrics.nll(y, p).mean() == pytest.approx(log_loss(y, p))


def test_brier_by_hand():
    expected = [sum((P[i, k] - (Y[i] == k)) ** 2 for k in range(3)) for i in range(200)]
    np.testing.assert_allclose(metrics.brier(Y, P), expected)


def test_multi_label_is_the_mean_of_binary_scores():
    columns = [np.stack([1 - ON[:, j], ON[:, j]], 1) for j in range(4)]
    of_each = [metrics.nll(IS_ON[:, j], columns[j]) for j in range(4)]
    np.testing.assert_allclose(metrics.nll(IS_ON, ON), np.mean(of_each, axis=0))
    assert metrics.accuracy(IS_ON, ON).mean() == pytest.approx(np.mean((ON > 0.5) == IS_ON))
    halves = [metrics.brier(IS_ON[:, j], columns[j]) / 2 for j in range(4)]  # both classes of a binary label count
    np.testing.assert_allclose(metrics.brier(IS_ON, ON), np.mean(halves, axis=0))


def test_ece_by_hand():
    expected, n = 0.0, len(Y)
    for b in range(15):
        chosen = [i for i in range(n) if b / 15 < P[i].max() <= (b + 1) / 15]
        if chosen:
            right = np.mean([P[i].argmax() == Y[i] for i in chosen])
            expected += len(chosen) / n * abs(right - np.mean([P[i].max() for i in chosen]))
    assert metrics.ece(Y, P) == pytest.approx(expected)


def test_ece_of_labels_that_are_on_or_off():
    both = np.stack([1 - ON.ravel(), ON.ravel()], 1)
    assert metrics.ece(IS_ON, ON) == pytest.approx(metrics.ece(IS_ON.ravel(), both))


def test_certainty_falls_into_the_last_bin():
    table = metrics.reliability([0, 1], [[1.0, 0.0], [1.0, 0.0]])
    assert table["count"].tolist() == [0] * 14 + [2]
    assert metrics.ece([0, 1], [[1.0, 0.0], [1.0, 0.0]]) == 0.5


def test_gaussian_nll_is_that_of_scipy():
    y, mean, variance = RNG.normal(size=9), RNG.normal(size=9), RNG.random(9) + 0.1
    found = metrics.evaluate(y, metrics.Normal(mean, variance))["nll"].rows
    np.testing.assert_allclose(found, -stats.norm.logpdf(y, mean, variance**0.5))


@given(st.integers(2, 5), st.integers(1, 8), st.integers(0, 1000))
def test_scores_under_a_posterior_are_expectations(classes, rows, seed):
    """The mean over all labels, weighted by their probability; a posterior without doubt is a label."""
    rng = np.random.default_rng(seed)
    p, q = (rng.dirichlet(np.ones(classes), rows) for _ in range(2))
    for function in (metrics.nll, metrics.accuracy, metrics.brier):
        each = np.stack([function(np.full(rows, k), p) for k in range(classes)], 1)
        np.testing.assert_allclose(function(metrics.Posterior(q), p), (q * each).sum(1))
    y = rng.integers(classes, size=rows)
    certain = metrics.evaluate(metrics.Posterior(np.eye(classes)[y]), p)
    for name, score in metrics.evaluate(y, p).items():
        assert certain[name].value == pytest.approx(score.value)


RATED = np.random.default_rng(1).integers(0, 5, 40)
GRADES = np.random.default_rng(2).dirichlet(np.ones(5), 40)


def test_the_median_grade_has_the_lowest_expected_absolute_error():
    grade = np.arange(5)
    expected = np.abs(grade[:, None] - grade) @ GRADES.T  # [decision, row]
    decided = metrics.find_medians(GRADES)
    np.testing.assert_allclose(expected[decided, np.arange(40)], expected.min(0))


def test_the_ranked_probability_score_is_the_sum_of_binary_brier_scores():
    by_threshold = [np.square(GRADES[:, : k + 1].sum(1) - (k >= RATED)) for k in range(5)]
    np.testing.assert_allclose(metrics.ranked_probability_score(RATED, GRADES), np.sum(by_threshold, axis=0))


def test_quadratic_kappa_is_scikit_learns_and_its_rows_are_its_derivatives():
    expected = cohen_kappa_score(RATED, metrics.find_medians(GRADES), weights="quadratic")
    found = metrics.quadratic_kappa(RATED, GRADES)
    assert found.value == pytest.approx(expected)
    left = [metrics.quadratic_kappa(np.delete(RATED, i), np.delete(GRADES, i, 0)).value for i in range(40)]
    jackknife = 39 * (expected - np.array(left))
    assert np.corrcoef(jackknife, found.rows)[0, 1] > 0.99


def test_scores_of_grades_under_a_posterior_are_expectations():
    posterior = np.random.default_rng(3).dirichlet(np.ones(5), 40)
    for score in (metrics.ranked_probability_score, metrics.absolute_error):
        every = np.stack([score(np.full(40, k), GRADES) for k in range(5)], 1)
        np.testing.assert_allclose(score(metrics.Posterior(posterior), GRADES), (posterior * every).sum(1))


def test_grades_are_scored_as_classes_and_by_their_order():
    found = metrics.evaluate(RATED, metrics.Grades(GRADES))
    assert list(found) == ["nll", "accuracy", "brier", "ece", "rps", "kappa", "mae"]

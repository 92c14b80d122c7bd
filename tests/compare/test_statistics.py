import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lupi.compare.statistics import Difference, Uncertainty, difference, mean_difference, summarize
from lupi.metrics import clustered_error

RNG = np.random.default_rng(0)


def test_the_interval_is_that_of_a_paired_t_test():
    a, b = RNG.normal(size=8), RNG.normal(size=8)
    found, expected = mean_difference(a - b), stats.ttest_rel(a, b)
    np.testing.assert_allclose(found.interval(), expected.confidence_interval(0.95))
    np.testing.assert_allclose(found.interval(0.99), expected.confidence_interval(0.99))
    assert found.p_value == pytest.approx(expected.pvalue)


def test_overlapping_training_parts_widen_the_interval():
    """Nadeau & Bengio 2003: the variance of the mean of n splits is (1/n + test/train)·s²."""
    values = RNG.normal(size=10)
    found = mean_difference(values, overlap=0.25)
    assert found.error == pytest.approx(np.std(values, ddof=1) * np.sqrt(0.1 + 0.25))
    assert found.degrees == 9


def test_errors_of_runs_and_test_examples_add_up():
    values = RNG.normal(size=5)
    found = mean_difference(values, test_error=(0.3, 101))
    runs = np.var(values, ddof=1) / 5
    assert found.error == pytest.approx(np.sqrt(runs + 0.09))
    assert found.degrees == pytest.approx((runs + 0.09) ** 2 / (runs**2 / 4 + 0.09**2 / 100))


def test_degrees_are_welchs():
    """With as many runs as examples it is Welch's t-test of two samples."""
    a, b = RNG.normal(size=6), RNG.normal(3, 2, size=9)
    found = mean_difference(a, test_error=(float(stats.sem(b)), 9))
    assert found.degrees == pytest.approx(stats.ttest_ind(a, b, equal_var=False).df)


def test_the_error_of_clusters_is_that_of_a_bootstrap_over_them():
    size = RNG.integers(1, 6, size=150)
    cluster = np.repeat(np.arange(150), size)
    values = RNG.normal(size=150)[cluster] + 0.5 * RNG.normal(size=len(cluster))
    error, count = clustered_error(values, cluster)
    sums = np.bincount(cluster, values)
    draws = RNG.integers(150, size=(4000, 150))
    assert error == pytest.approx(np.std(sums[draws].sum(1) / size[draws].sum(1)), rel=0.1)
    assert count == 150
    assert error > 1.3 * clustered_error(values)[0]


def test_alone_rows_have_the_usual_error():
    values = RNG.normal(size=30)
    assert clustered_error(values) == (pytest.approx(stats.sem(values)), 30)
    with pytest.raises(ValueError, match="at least two test examples, but got 1"):
        clustered_error(values, np.zeros(30, dtype=int))


def test_no_difference_and_no_error():
    assert mean_difference(np.zeros(3)).p_value == 1
    assert mean_difference(np.zeros(3)).interval() == (0, 0)
    assert np.isnan(Difference(np.nan, np.nan, 3).p_value)
    with pytest.raises(ValueError, match="at least two runs"):
        mean_difference(np.ones(1))


@pytest.mark.parametrize("values", [np.ones(3), np.array([0.3, 0.1 + 0.2, 0.3])])
def test_runs_without_variation_are_too_few(values):
    found = mean_difference(values)
    assert np.isnan([found.p_value, *found.interval()]).all()
    assert found.mean == pytest.approx(values[0])
    assert mean_difference(values, test_error=(0.1, 50)).error == pytest.approx(0.1)


def test_differences_pair_seeds_and_take_the_rows_of_the_test_set():
    runs = pd.DataFrame(
        {"method": ["b", "a", "a", "b"], "seed": [1, 0, 1, 0], "nll": [5.0, 1.0, 2.0, 3.0], "ece": [0.1, 0.2, 0.3, 0.5]}
    )
    rows = {("a", "nll"): np.array([1.0, 2.0, 3.0]), ("b", "nll"): np.array([4.0, 4.0, 5.0])}
    known = Uncertainty(rows=rows, example=np.array([0, 1, 1]))
    found = difference(runs, "b", "a", "nll", known)
    assert found == mean_difference(
        np.array([2.0, 3.0]), test_error=clustered_error(np.array([3.0, 2.0, 2.0]), np.array([0, 1, 1]))
    )
    of_ece = difference(runs, "b", "a", "ece", known)
    assert of_ece.mean == pytest.approx(0.05)
    assert of_ece.error == pytest.approx(0.25)  # the rows of ECE are not known


def test_seeds_that_only_other_methods_have_do_not_count():
    runs = pd.DataFrame(
        {"method": ["a", "a", "b", "b", "c", "c"], "seed": [0, 1, 0, 1, 0, 2], "nll": [1.0, 2.0, 3.0, 5.0, 1.0, 1.0]}
    )
    assert difference(runs, "b", "a", "nll") == Difference(2.5, 0.5, 1)
    assert np.isnan(difference(runs, "c", "a", "nll").mean)  # not paired


def test_summary_is_paired_by_seed():
    rng = np.random.default_rng(0)
    rows = [
        {"method": method, "seed": seed, "nll": rng.random(), "accuracy": rng.random(), "seconds": 1.0}
        for method in ("no-pi", "tram")
        for seed in range(6)
    ]
    runs = pd.DataFrame(rows).sample(frac=1, random_state=0)
    summary = summarize(runs)
    values = {name: runs[runs["method"] == name].sort_values("seed")["nll"].to_numpy() for name in ("no-pi", "tram")}
    difference = values["tram"] - values["no-pi"]
    assert summary.loc["tram", "nll"] == pytest.approx(values["tram"].mean())
    assert summary.loc["tram", "nll_sd"] == pytest.approx(values["tram"].std(ddof=1))
    assert summary.loc["tram", "nll_difference"] == pytest.approx(difference.mean())
    assert summary.loc["tram", "nll_error"] == pytest.approx(difference.std(ddof=1) / np.sqrt(6))
    assert summary.loc["no-pi", "nll_difference"] == 0
    test = stats.ttest_rel(values["tram"], values["no-pi"])
    interval = test.confidence_interval(0.95)
    assert summary.loc["tram", ["nll_low", "nll_high"]].tolist() == pytest.approx([interval.low, interval.high])
    assert summary.loc["tram", "nll_p"] == pytest.approx(test.pvalue)

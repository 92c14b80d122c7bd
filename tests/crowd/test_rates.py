"""Rates from many labels and a few true ones."""

import numpy as np
import pandas as pd
import pytest

from lupi.crowd import estimate_rate
from lupi.crowd.rates import correct_shares, estimate_mean


def simulate(rng, share=0.3, examples=1000, right=0.75, bias=0.2):
    """Three judges who share errors: half of a judge's errors are those of all judges."""
    truth = (rng.random(examples) < share).astype(int)
    common = rng.random(examples) < bias
    wrong = (rng.random((examples, 3)) > right) | common[:, None]
    return truth, np.where(wrong, 1 - truth[:, None], truth[:, None])


def tabulate(truth, judged, known):
    frame = pd.DataFrame({"example": np.arange(len(truth)).repeat(3), "label": judged.ravel()})
    return frame.assign(gold=np.where(np.arange(len(truth)) < known, truth.astype(float), np.nan).repeat(3))


def test_the_rate_is_that_of_ppi():
    """λ minimizes the variance: no other one gives a shorter interval, and the rate is the formula of the paper."""
    rng = np.random.default_rng(0)
    y, f = rng.normal(size=400), rng.normal(size=400)
    f = f + y
    truth = np.where(np.arange(400) < 50, y, np.nan)
    found = estimate_mean(f, truth)
    slopes = np.linspace(-2, 2, 4001)
    variance = [np.var(y[:50] - s * f[:50]) / 50 + s**2 * np.var(f[:50]) / 350 for s in slopes]
    best = slopes[np.argmin(variance)]
    assert found.rate == pytest.approx(y[:50].mean() + best * (f[50:].mean() - f[:50].mean()), abs=1e-3)
    assert found.low < found.rate < found.high
    assert found.high - found.low < 4 * y[:50].std() / np.sqrt(50)
    shifted = estimate_mean(3 * f + 7, truth)  # the scale of the predictions does not matter
    np.testing.assert_allclose(shifted, found)


@pytest.mark.parametrize("share", [0.5, 0.05])
def test_intervals_cover_and_are_shorter_than_those_of_people_alone(share):
    covered, width, naive = 0, [], []
    for seed in range(200):
        truth, judged = simulate(np.random.default_rng(seed), share, bias=0.0, right=0.85)
        row = estimate_rate(tabulate(truth, judged, 100), gold="gold").iloc[1]
        covered += row["low"] <= share <= row["high"]
        naive.append(row["naive"])
        width.append((row["high"] - row["low"]) / (row["human_high"] - row["human_low"]))
    assert covered >= 180
    assert np.mean(width) < (0.7 if share == 0.5 else 0.9)
    assert share == 0.5 or np.mean(naive) > 2 * share


def test_intervals_cover_with_dependent_judges_and_few_people():
    covered = 0
    for seed in range(200):
        truth, judged = simulate(np.random.default_rng(seed))
        row = estimate_rate(tabulate(truth, judged, 20), gold="gold").iloc[1]
        covered += row["low"] <= 0.3 <= row["high"]
    assert covered >= 180


def test_means_cover():
    """Grades from 1 to 5; the judge is half a grade too kind, and its scale is twice as wide."""
    covered = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        grade = rng.integers(1, 6, size=500)
        score = 2 * (grade + 0.5 + rng.normal(size=500))
        known = dict(enumerate(grade[:40]))
        table = pd.DataFrame({"example": range(500), "label": score})
        row = estimate_rate(table, gold=known, mean=True).iloc[0]
        covered += row["low"] <= 3 <= row["high"]
    assert covered >= 180
    assert row["class"] == "mean"
    assert row["naive"] > 6


def test_errors_that_are_known_are_corrected():
    truth = np.eye(3)[np.array([0] * 50 + [1] * 30 + [2] * 20)]
    errors = np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.0, 0.4, 0.6]])
    predictions = truth @ errors
    known = truth.copy()
    known[::2] = np.nan
    np.testing.assert_allclose(correct_shares(predictions, known), [0.5, 0.3, 0.2])
    known[:50] = np.nan
    assert np.isnan(correct_shares(predictions, known)).all()


def test_classes_without_a_known_example_and_all_known():
    truth, judged = simulate(np.random.default_rng(0), 0.02)
    found = estimate_rate(tabulate(0 * truth, judged, 50), gold="gold")
    assert found["human"].tolist() == [1.0, 0.0]
    assert 0.03 < found["high"].iloc[1] < 0.15
    assert np.isnan(found["rogan_gladen"]).all()
    found = estimate_rate(tabulate(truth, judged, 1000), gold="gold")
    assert found["rate"].tolist() == pytest.approx([1 - truth.mean(), truth.mean()])
    np.testing.assert_allclose(found["low"], found["human_low"])


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"gold": [0.0] * 12 + [None] * 48}, {}, "true labels of 5 examples or more, but got 4"),
        ({"gold": 7.0}, {}, "`gold` to have labels of the table, but got 7.0 of example 0"),
        ({"label": "x", "gold": "x"}, {"mean": True}, "`label` to be numbers for `mean`, but got 'x'"),
        ({"gold": "x"}, {"mean": True}, "`gold` to have numbers for `mean`, but got 'x' of example 0"),
        ({}, {"label": "verdict"}, "'verdict'"),
    ],
)
def test_tables_without_what_is_needed(change, options, message):
    truth, judged = simulate(np.random.default_rng(0), examples=20)
    with pytest.raises(ValueError, match=message):
        estimate_rate(tabulate(truth, judged, 20).assign(**change), gold="gold", **options)

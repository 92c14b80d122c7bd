import math
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student

from lupi.diagnose import estimate_information, information
from lupi.diagnose.information import cross_entropy_gap, held_out_losses
from lupi_paper.theory import draw_synthetic, exact_information

FAST = {"epochs": 4, "learning_rate": 1e-2}


def standard_error(found, examples):
    return (found.high - found.low) / 2 / student.ppf(0.975, examples - 1)


def test_gap_by_hand():
    marginal, conditional = [1.0, 2.0, 3.0, 4.0], [0.0, 1.5, 2.0, 4.5]  # gains 1, 0.5, 1, −0.5: mean 0.5
    found = cross_entropy_gap(marginal, conditional, example=["p", "p", "q", "r"])
    # deviations 0.5, 0, 0.5, −1 sum to 0.5, 0.5, −1 by example: √(3/2 · 1.5) / 4 = 0.375
    assert found.estimate == 0.5
    assert (found.low, found.high) == pytest.approx((0.5 - 4.30265 * 0.375, 0.5 + 4.30265 * 0.375), rel=1e-5)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 5)), min_size=2, max_size=30), st.integers(2, 4))
def test_gap_without_and_with_repeats(pairs, repeats):
    marginal, conditional = np.array(pairs).T
    found = cross_entropy_gap(marginal, conditional)
    gain = marginal - conditional
    error = gain.std(ddof=1) / math.sqrt(len(gain))
    assert standard_error(found, len(gain)) == pytest.approx(error, abs=1e-9)
    assert found.low <= found.estimate <= found.high
    # Copies of an annotation add nothing when they are of one example.
    example = np.tile(np.arange(len(gain)), repeats)
    again = cross_entropy_gap(np.tile(marginal, repeats), np.tile(conditional, repeats), example=example)
    assert again.estimate == pytest.approx(found.estimate, abs=1e-12)
    assert again.high == pytest.approx(found.high, abs=1e-9)


def test_interval_covers_as_often_as_it_says():
    """The true densities for the models, five annotations for each of 200 examples."""
    covered = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        example = np.repeat(np.arange(200), 5)
        shared = rng.normal(size=200)[example]
        gain = 0.3 + shared + rng.normal(size=1000)
        found = cross_entropy_gap(gain, np.zeros(1000), example=example)
        covered += found.low < 0.3 < found.high
    assert abs(covered / 400 - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 400)


def test_single_examples_are_refused():
    with pytest.raises(ValueError, match="at least two"):
        cross_entropy_gap([1.0, 2.0], [1.0, 2.0], example=[1, 1])


def careless(n, seed=0):
    """Half of the labels are the truth, half are coins; H(¾) − ½ log 2 = 0.2158."""
    rng = np.random.default_rng(seed)
    truth, coin = rng.integers(2, size=n), rng.integers(2, size=n)
    y = np.where(coin, rng.integers(2, size=n), truth)
    X = pd.DataFrame({"answer": truth.astype(float)})
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

    def spy(self, X, y, *, privileged, example, sample_weight):
        seen.append(set(X["answer"]))
        assert sample_weight.tolist() == (1 + X["answer"]).tolist()
        return fit(self, X, y, privileged=privileged, example=example, sample_weight=sample_weight)

    monkeypatch.setattr(information.PrivilegedClassifier, "fit", spy)
    ids = np.repeat(np.arange(20), 3)
    X, y, A = pd.DataFrame({"answer": ids.astype(float)}), np.tile([0, 1, 1], 20), careless(60)[2]
    held_out_losses(X, y, A, example=ids, weight=1 + ids, folds=4, parameters={"epochs": 1})
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


@pytest.mark.parametrize("real", [False, True])
def test_one_missing_value_causes_no_warning(real):
    X, y = pd.DataFrame({"city": [None, *["Bern", "Rome"] * 10]}), np.arange(21) % 2
    with warnings.catch_warnings(action="error"):
        losses = held_out_losses(X, y, y[:, None], folds=2, parameters={"epochs": 1}, real=real)
    assert np.isfinite(losses).all()


def test_held_out_losses_refuse():
    with pytest.raises(ValueError, match=r"`y`.*\(4, 2\)"):
        held_out_losses(np.zeros((4, 1)), np.arange(8).reshape(4, 2), None)
    with pytest.raises(ValueError, match=r"`folds`.*1"):
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

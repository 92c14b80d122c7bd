import numpy as np
import pytest
from scipy.special import expit, logit

from lupi.crowd import Votes, dawid_skene, majority_vote
from lupi.crowd.annotators import Z, approximate_reliability
from lupi.crowd.confusions import expected_counts
from lupi.crowd.tables import HARDLY, expected_confusions, infer_alone


@pytest.fixture(scope="module")
def crowd(simulate):
    _, label, example, annotator, truth, theta = simulate(0, examples=300, people=15, per_example=5)
    votes = Votes(example=example, annotator=annotator, label=label, examples=300, annotators=15, classes=3)
    return votes, truth, theta, infer_alone(votes)


def test_consensus_is_as_accurate_as_majority_vote_and_dawid_skene(crowd):
    votes, truth, _, found = crowd
    accuracy = np.mean(found.truth.argmax(1) == truth)
    assert accuracy >= np.mean(majority_vote(votes) == truth)
    assert accuracy >= np.mean(dawid_skene(votes)[0].argmax(1) == truth) - 0.01


def test_the_prior_of_rare_classes_is_sharper_than_the_shares_of_noisy_labels():
    rng = np.random.default_rng(0)
    truth, example, annotator = (
        (rng.random(400) < 0.1).astype(int),
        np.arange(400).repeat(4),
        np.tile(np.arange(20), 80),
    )
    label = np.where(rng.random(1600) < 0.75, truth[example], 1 - truth[example])
    votes = Votes(example=example, annotator=annotator, label=label, examples=400, annotators=20, classes=2)
    found = infer_alone(votes)
    assert np.mean(label == 1) > 0.25
    assert np.exp(found.log_prior[0, 1]) == pytest.approx(0.1, abs=0.05)


def test_intervals_contain_the_mean_and_most_accuracies(crowd):
    _, _, theta, found = crowd
    mean, low, high = approximate_reliability(found)
    assert ((low < mean) & (mean < high)).all()
    assert np.mean((low <= theta) & (theta <= high)) >= 0.8
    assert np.corrcoef(mean, theta)[0, 1] > 0.9


def test_interval_is_that_of_a_logistic_regression_if_the_truth_is_certain():
    """With one reliable majority the truth is known: the information about the log-odds is n σ(η)(1 − σ(η))."""
    rng = np.random.default_rng(1)
    example, annotator = np.arange(200).repeat(12), np.tile(np.arange(12), 200)
    truth = np.arange(200) % 2
    label = np.where(rng.random(2400) < 0.8, truth[example], 1 - truth[example])
    votes = Votes(example=example, annotator=annotator, label=label, examples=200, annotators=12, classes=2)
    found = infer_alone(votes)
    reliability, low, high = approximate_reliability(found)
    eta, spread = logit(reliability), reliability * (1 - reliability)
    deviation = Z / np.sqrt(1 / found.variances[0] + 200 * spread)
    np.testing.assert_allclose(high - low, expit(eta + deviation) - expit(eta - deviation), rtol=0.1)


def test_confusions_are_the_expected_counts(crowd):
    votes, _, _, found = crowd
    annotator, true, given, count, share = expected_confusions(votes, found.truth)
    dense = expected_counts(found.truth, votes)
    np.testing.assert_allclose(count, dense[annotator, true, given])
    np.testing.assert_allclose(share, (dense / dense.sum(2, keepdims=True))[annotator, true, given])
    assert len(count) == (dense >= HARDLY).sum()


def test_confusions_do_not_depend_on_chunks(crowd, monkeypatch):
    votes, _, _, found = crowd
    whole = expected_confusions(votes, found.truth)
    monkeypatch.setattr("lupi.crowd.likelihood.CHUNK", 7)
    for one, other in zip(whole, expected_confusions(votes, found.truth), strict=True):
        np.testing.assert_allclose(one, other)


def cover(seed, examples=300, people=20, each=3):
    """Return whether intervals cover the accuracies of annotators, and the errors of their reliabilities."""
    rng = np.random.default_rng(seed)
    truth, accuracy = rng.integers(3, size=examples), rng.beta(6, 2, people)
    who = np.argsort(rng.random((examples, people)))[:, :each]
    wrong = (truth[:, None] + rng.integers(1, 3, who.shape)) % 3
    label = np.where(rng.random(who.shape) < accuracy[who], truth[:, None], wrong)
    example = np.arange(examples).repeat(each)
    votes = Votes(
        example=example, annotator=who.ravel(), label=label.ravel(), examples=examples, annotators=people, classes=3
    )
    reliability, low, high = approximate_reliability(infer_alone(votes))
    return (low <= accuracy) & (accuracy <= high), reliability - accuracy


def test_intervals_of_reliability_cover_without_bias():
    covered, error = map(np.array, zip(*(cover(seed) for seed in range(10)), strict=True))
    assert covered.mean() >= 0.9
    assert abs(error.mean()) < 0.03


@pytest.mark.nightly
def test_intervals_of_reliability_cover_in_many_simulations():
    covered, error = map(np.array, zip(*(cover(seed) for seed in range(200)), strict=True))
    assert covered.mean() >= 0.9
    assert abs(error.mean()) < 0.01

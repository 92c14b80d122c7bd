import numpy as np
import pytest
from scipy.special import expit

from lupi.crowd import Votes, dawid_skene, majority_vote
from lupi.crowd.confusions import expected_counts
from lupi.crowd.labels_alone import HARDLY, approximate_reliability, expected_confusions, infer_alone


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
    _, low, high = approximate_reliability(found)
    eta = found.mean + found.effects
    deviation = 1 / np.sqrt(1 / found.variances[0] + 200 * expit(eta) * expit(-eta))
    width = (1 - found.model.share) * (expit(eta + 1.96 * deviation) - expit(eta - 1.96 * deviation))
    np.testing.assert_allclose(high - low, width, rtol=0.1)


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

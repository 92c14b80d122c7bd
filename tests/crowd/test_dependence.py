"""How far annotators err together."""

import numpy as np
import pytest

from lupi.crowd import Votes
from lupi.crowd.dependence import measure_dependence, share_of_independent, shared_error, soften
from lupi.crowd.likelihood import softmax


def simulate(seed, together, judges=6, examples=300, error=0.3):
    """Each label copies a common error with probability `together`: errors have the correlation together²."""
    rng = np.random.default_rng(seed)
    truth, common = rng.integers(2, size=examples), rng.random(examples) < error
    wrong = np.where(rng.random((examples, judges)) < together, common[:, None], rng.random((examples, judges)) < error)
    example, annotator = np.divmod(np.arange(examples * judges), judges)
    label = np.where(wrong.ravel(), 1 - truth[example], truth[example])
    votes = Votes(example=example, annotator=annotator, label=label, examples=examples, annotators=judges, classes=2)
    return votes, truth, wrong


@pytest.mark.parametrize("together", [0.0, 0.5, 0.9])
def test_intervals_cover_the_correlation_of_errors(together):
    covered = 0
    for seed in range(200):
        votes, truth, _ = simulate(seed, together)
        found = measure_dependence(votes, np.eye(2)[truth])
        covered += found.low <= together**2 <= found.high
    assert covered >= 180


def test_correlations_of_pairs_are_those_of_residuals():
    votes, truth, wrong = simulate(0, 0.6)
    found = measure_dependence(votes, np.eye(2)[truth])
    rest = wrong.astype(float)
    for k in (0, 1):
        rest[truth == k] -= rest[truth == k].mean(0)
    expected = np.corrcoef(rest.T)
    np.testing.assert_allclose(found.pairs[~np.eye(6, dtype=bool)], expected[~np.eye(6, dtype=bool)], atol=1e-12)
    assert (found.shared == 300 * (1 - np.eye(6))).all()
    assert found.mean == pytest.approx(np.nanmean(found.pairs))


def test_copies_are_one_vote_and_strangers_are_all():
    votes, truth, _ = simulate(0, 1.0)
    assert measure_dependence(votes, np.eye(2)[truth]).votes[0] == pytest.approx(1)
    votes, truth, _ = simulate(0, 0.0, examples=20_000)
    assert measure_dependence(votes, np.eye(2)[truth]).votes[0] > 5.7


def test_only_known_examples_count():
    votes, truth, _ = simulate(0, 0.6)
    known = np.eye(2)[truth]
    known[100:] = np.nan
    assert (measure_dependence(votes, known).shared.max()) == 100
    known[:] = np.nan
    assert measure_dependence(votes, known) is None


def test_the_share_of_independent_labels_follows_from_their_correlation():
    votes, truth, _ = simulate(0, 0.6)
    use = (votes.example >= 100) | (votes.annotator == 0)  # the first hundred examples have one label, the others six
    votes = Votes(
        example=votes.example[use],
        annotator=votes.annotator[use],
        label=votes.label[use],
        examples=300,
        annotators=6,
        classes=2,
    )
    share = share_of_independent(votes, np.eye(2)[truth])
    rho = measure_dependence(votes, np.eye(2)[truth]).mean
    np.testing.assert_allclose(share, np.where(np.arange(300) < 100, np.nan, 1 / (1 + 5 * rho)))
    assert 0.25 < share[-1] < 0.5
    single = Votes(
        example=np.arange(4), annotator=np.zeros(4, int), label=np.zeros(4, int), examples=4, annotators=1, classes=2
    )
    assert np.isnan(share_of_independent(single, np.full((4, 2), 0.5))).all()


@pytest.mark.parametrize("together", [0.0, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_a_crowd_is_wrong_together_as_often_as_independence_makes_it_too_sure(together):
    votes, truth, wrong = simulate(0, together, examples=5000)
    label = votes.label.reshape(5000, 6)
    evidence = np.stack([np.where(label == z, np.log(0.7), np.log(0.3)).sum(1) for z in (0, 1)], 1)
    even = np.full((5000, 2), np.log(0.5))
    share = share_of_independent(votes, np.eye(2)[truth])
    error = shared_error(even, evidence, share)
    posterior = softmax(even + evidence)
    right = np.where(wrong.sum(1) == 3, 0.5, wrong.sum(1) < 3).mean()
    assert error == pytest.approx(posterior.max(1).mean() - right, abs=0.035)
    softer = soften(posterior, error, 2)
    assert softer.sum(1) == pytest.approx(1)
    of_truth = [np.log(p[np.arange(5000), truth]).mean() for p in (posterior, softer)]
    assert of_truth[1] >= of_truth[0]


def test_single_labels_show_no_common_error():
    evidence = np.log([[0.9, 0.1], [0.2, 0.8]])
    assert shared_error(np.log(np.full((2, 2), 0.5)), evidence, np.full(2, np.nan)) == 0


def test_softer_probabilities_move_to_the_other_classes():
    p = np.array([[0.7, 0.2, 0.1], [1.0, 0.0, 0.0]])
    confusion = np.where(np.eye(3), 0.9, 0.05)
    np.testing.assert_allclose(soften(p, 0.1, 3), p @ confusion)
    np.testing.assert_allclose(
        soften(np.array([0.7, 1.0]), 0.1, 2), [0.66, 0.9]
    )  # probabilities of 1, for several labels

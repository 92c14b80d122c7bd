from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.crowd import Votes, dawid_skene
from lupi.crowd.confusions import compute_posterior, expected_counts, run_em


def by_hand(label, example, annotator, classes, steps):
    """Textbook Dawid-Skene with loops, from the shares of votes."""
    examples, people = max(example) + 1, max(annotator) + 1
    q = np.zeros((examples, classes))
    for i, y in zip(example, label, strict=True):
        q[i, y] += 1
    q /= q.sum(1, keepdims=True)
    for _ in range(steps):
        prior = q.sum(0) + 0.01
        pi = np.full((people, classes, classes), 0.01)
        for i, j, y in zip(example, annotator, label, strict=True):
            pi[j, :, y] += q[i]
        pi /= pi.sum(2, keepdims=True)
        q = np.tile(prior / prior.sum(), (examples, 1))
        for i, j, y in zip(example, annotator, label, strict=True):
            q[i] *= pi[j, :, y]
        q /= q.sum(1, keepdims=True)
    return q, pi


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_it_is_the_textbook_algorithm(simulate, steps):
    _, label, example, annotator, *_ = simulate(1, examples=60, people=5)
    votes = Votes(example=example, annotator=annotator, label=label, examples=60, annotators=5, classes=3)
    truth, confusion = dawid_skene(votes, steps=steps, tolerance=-np.inf)
    expected_truth, expected_confusion = by_hand(label, example, annotator, 3, steps)
    np.testing.assert_allclose(confusion, expected_confusion, atol=1e-8)
    np.testing.assert_allclose(truth, expected_truth, atol=1e-8)


@given(st.integers(0, 10**6), st.floats(0.01, 5))
@settings(max_examples=20)
def test_em_never_lowers_the_log_posterior(draw_votes, seed, smoothing):
    votes, *_ = draw_votes(seed, examples=8, people=3, labels=30)
    start = np.random.default_rng(seed).dirichlet(np.ones(3), 8)
    _, _, trace = run_em(votes, start, smoothing=smoothing, tolerance=0, steps=500)
    assert len(trace) > 1
    assert np.diff(trace).min() > -1e-9
    assert trace[-1] > trace[0]


def test_an_example_without_labels_gets_the_frequencies_of_the_classes():
    row = np.arange(8)
    votes = Votes(
        example=row // 2, annotator=row % 2, label=np.array([0] * 6 + [1] * 2), examples=5, annotators=2, classes=2
    )
    truth, _ = dawid_skene(votes)
    assert truth[4, 1] == pytest.approx(0.25, abs=0.02)


def test_smoothing_must_be_positive(draw_votes):
    with pytest.raises(ValueError, match=r"`smoothing`.*0"):
        dawid_skene(draw_votes(0)[0], smoothing=0)


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_posterior_is_that_of_enumerating_all_truths(draw_votes, seed):
    votes, log_prior, confusion = draw_votes(seed)
    marginal, total = np.zeros((3, 3)), 0.0
    for z in product(range(3), repeat=3):
        z = np.array(z)
        probability = np.exp(log_prior[range(3), z].sum())
        probability *= confusion[votes.annotator, z[votes.example], votes.label].prod()
        marginal[range(3), z] += probability
        total += probability
    truth, evidence = compute_posterior(log_prior, confusion, votes)
    np.testing.assert_allclose(truth, marginal / total)
    assert evidence == pytest.approx(np.log(total))


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_counts_are_sums_over_labels(draw_votes, seed):
    votes, log_prior, _ = draw_votes(seed, labels=7)
    expected = np.zeros((2, 3, 3))
    for i, j, y in zip(votes.example, votes.annotator, votes.label, strict=True):
        expected[j, :, y] += np.exp(log_prior)[i]
    np.testing.assert_allclose(expected_counts(np.exp(log_prior), votes), expected)

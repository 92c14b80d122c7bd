from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi.crowd.posterior import compute_posterior, expected_counts, label_log_likelihood


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


def test_log_likelihood_adds_up_over_the_labels_of_an_example(draw_votes):
    votes, _, confusion = draw_votes(0)
    expected = np.zeros((3, 3))
    for i, j, y in zip(votes.example, votes.annotator, votes.label, strict=True):
        expected[i] += np.log(confusion[j, :, y])
    np.testing.assert_allclose(label_log_likelihood(confusion, votes), expected)

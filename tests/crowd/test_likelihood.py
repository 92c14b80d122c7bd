from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad
from scipy.sparse import csr_array
from scipy.special import expit

from lupi.crowd import likelihood
from lupi.crowd.inference import negative_log_posterior
from lupi.crowd.likelihood import (
    error_evidence,
    example_evidence,
    label_evidence,
    marginal_log_likelihood,
    softmax,
)

seeds = st.integers(0, 10**6)


def draw_model(draw_votes, seed, **sizes):
    """Draw votes sorted by example, a prediction, log-odds, errors and log β."""
    votes, log_p, _ = draw_votes(seed, sort=True, **sizes)
    rng = np.random.default_rng(seed + 1)
    errors = rng.dirichlet(np.ones(votes.classes), votes.classes) * (1 - np.eye(votes.classes))
    errors /= errors.sum(1, keepdims=True)
    return votes, log_p, 2 * rng.normal(size=len(votes.label)), errors, 0.5 * rng.normal()


def probability(eta, errors, y, z):
    return expit(eta) if y == z else expit(-eta) * errors[z, y]


@given(seeds, st.sampled_from([2, 3]))
@settings(max_examples=25)
def test_marginal_and_posterior_are_those_of_enumerating_all_truths(draw_votes, seed, classes):
    votes, log_p, eta, errors, log_beta = draw_model(draw_votes, seed, classes=classes)
    prior = np.exp(np.exp(log_beta) * log_p)
    prior /= prior.sum(1, keepdims=True)
    marginal, total = np.zeros_like(prior), 0.0
    for z in product(range(classes), repeat=votes.examples):
        joint = prior[range(votes.examples), z].prod()
        for n, (i, y) in enumerate(zip(votes.example, votes.label, strict=True)):
            joint *= probability(eta[n], errors, y, z[i])
        marginal[range(votes.examples), z] += joint
        total += joint
    value, *_ = marginal_log_likelihood(votes, log_p, error_evidence(votes, errors), eta, log_beta)
    assert value == pytest.approx(np.log(total))
    truth = softmax(np.log(prior) + example_evidence(votes, eta, errors))
    np.testing.assert_allclose(truth, marginal / total, atol=1e-12)


@given(seeds)
@settings(max_examples=25)
def test_evidence_of_an_example_adds_up_over_its_labels(draw_votes, seed):
    votes, _, eta, errors, _ = draw_model(draw_votes, seed)
    expected = np.zeros((votes.examples, votes.classes))
    own = label_evidence(votes, eta, errors, np.arange(len(eta)))
    for n, (i, y) in enumerate(zip(votes.example, votes.label, strict=True)):
        for z in range(votes.classes):
            assert own[n, z] == pytest.approx(np.log(probability(eta[n], errors, y, z)))
            expected[i, z] += own[n, z]
    np.testing.assert_allclose(example_evidence(votes, eta, errors), expected, atol=1e-9)


@given(seeds)
@settings(max_examples=25)
def test_gradient_is_that_of_finite_differences(draw_votes, seed):
    votes, log_p, eta, errors, log_beta = draw_model(draw_votes, seed, examples=5, labels=12)
    of_errors, rng = error_evidence(votes, errors), np.random.default_rng(seed)

    def value(t):
        return marginal_log_likelihood(votes, log_p, of_errors, t[:-1], t[-1])[0]

    def slope(t):
        return np.append(*marginal_log_likelihood(votes, log_p, of_errors, t[:-1], t[-1])[1:])

    assert check_grad(value, slope, np.append(eta, log_beta)) < 1e-5
    design, centre, variance = csr_array(rng.normal(size=(12, 4))), rng.normal(size=5), rng.uniform(0.5, 2, 5)
    arguments = (votes, log_p, of_errors, design, centre, variance)
    found = check_grad(
        lambda t: negative_log_posterior(t, *arguments)[0],
        lambda t: negative_log_posterior(t, *arguments)[1],
        rng.normal(size=5),
    )
    assert found < 1e-4


@pytest.mark.parametrize("cells", [1, 7, 10**6])
def test_chunks_do_not_change_the_result(draw_votes, monkeypatch, cells):
    votes, log_p, eta, errors, log_beta = draw_model(draw_votes, 3, examples=40, labels=60)
    expected = marginal_log_likelihood(votes, log_p, error_evidence(votes, errors), eta, log_beta)
    evidence = example_evidence(votes, eta, errors)
    monkeypatch.setattr(likelihood, "CHUNK", cells)
    found = marginal_log_likelihood(votes, log_p, error_evidence(votes, errors), eta, log_beta)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    np.testing.assert_allclose(example_evidence(votes, eta, errors), evidence, atol=1e-10)


def test_labels_of_hopeless_log_odds_keep_finite_evidence(draw_votes):
    votes, log_p, eta, errors, _ = draw_model(draw_votes, 0)
    for extreme in (-800.0, 800.0):
        value, slope, _ = marginal_log_likelihood(votes, log_p, error_evidence(votes, errors), 0 * eta + extreme, 0.0)
        assert np.isfinite(value)
        assert np.isfinite(slope).all()

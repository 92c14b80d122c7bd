from dataclasses import replace
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
    LabelModel,
    example_evidence,
    label_evidence,
    marginal_log_likelihood,
    softmax,
)

seeds = st.integers(0, 10**6)


def draw_model(draw_votes, seed, *, habits=False, **sizes):
    """Draw votes sorted by example, a prediction and a model of the labels."""
    votes, log_p, _ = draw_votes(seed, sort=True, **sizes)
    rng = np.random.default_rng(seed + 1)
    errors = rng.dirichlet(np.ones(votes.classes), votes.classes) * (1 - np.eye(votes.classes))
    errors /= errors.sum(1, keepdims=True)
    model = LabelModel(
        log_odds=2 * rng.normal(size=len(votes.label)),
        ease=rng.normal(size=votes.classes),
        errors=errors,
        share=rng.uniform(size=votes.annotators) if habits else np.zeros(votes.annotators),
        habits=rng.dirichlet(np.ones(votes.classes), votes.annotators),
    )
    return votes, log_p, model


def probability(votes, model, n, z):
    """P(y_n | z), in plain probabilities."""
    eta, y, j = model.log_odds[n] + model.ease[z], votes.label[n], votes.annotator[n]
    work = expit(eta) if y == z else expit(-eta) * model.errors[z, y]
    return (1 - model.share[j]) * work + model.share[j] * model.habits[j, y]


@given(seeds, st.sampled_from([2, 3]), st.booleans())
@settings(max_examples=25)
def test_marginal_and_posterior_are_those_of_enumerating_all_truths(draw_votes, seed, classes, habits):
    votes, log_p, model = draw_model(draw_votes, seed, classes=classes, habits=habits)
    prior = np.exp(log_p)
    of_example, total = np.zeros_like(prior), 0.0
    for z in product(range(classes), repeat=votes.examples):
        joint = prior[range(votes.examples), z].prod()
        for n, i in enumerate(votes.example):
            joint *= probability(votes, model, n, z[i])
        of_example[range(votes.examples), z] += joint
        total += joint
    truth = softmax(np.log(prior) + example_evidence(votes, model))
    np.testing.assert_allclose(truth, of_example / total, atol=1e-12)
    assert marginal_log_likelihood(votes, log_p, model)[0] == pytest.approx(np.log(total))


@given(seeds)
@settings(max_examples=25)
def test_evidence_of_an_example_adds_up_over_its_labels(draw_votes, seed):
    votes, _, model = draw_model(draw_votes, seed, habits=True)
    expected = np.zeros((votes.examples, votes.classes))
    own = label_evidence(votes, model, np.arange(len(votes.label)))
    for n, i in enumerate(votes.example):
        for z in range(votes.classes):
            assert own[n, z] == pytest.approx(np.log(probability(votes, model, n, z)))
            expected[i, z] += own[n, z]
    np.testing.assert_allclose(example_evidence(votes, model), expected, atol=1e-9)


@given(seeds)
@settings(max_examples=25)
def test_gradient_is_that_of_finite_differences(draw_votes, seed):
    votes, log_p, model = draw_model(draw_votes, seed, habits=True, examples=5, labels=12)
    rng = np.random.default_rng(seed)
    found = check_grad(
        lambda eta: marginal_log_likelihood(votes, log_p, replace(model, log_odds=eta))[0],
        lambda eta: marginal_log_likelihood(votes, log_p, replace(model, log_odds=eta))[1],
        model.log_odds,
    )
    assert found < 1e-5
    found = check_grad(
        lambda ease: marginal_log_likelihood(votes, log_p, replace(model, ease=ease))[0],
        lambda ease: marginal_log_likelihood(votes, log_p, replace(model, ease=ease))[2],
        model.ease,
    )
    assert found < 1e-5
    design, centre, variance = csr_array(rng.normal(size=(12, 4))), rng.normal(size=7), rng.uniform(0.5, 2, 7)
    arguments = (votes, log_p, model, design, rng.dirichlet(np.ones(3)), centre, variance, csr_array((0, 4)))
    found = check_grad(
        lambda t: negative_log_posterior(t, *arguments)[0],
        lambda t: negative_log_posterior(t, *arguments)[1],
        rng.normal(size=7),
    )
    assert found < 1e-4


@pytest.mark.parametrize("cells", [1, 7, 10**6])
def test_chunks_do_not_change_the_result(draw_votes, monkeypatch, cells):
    votes, log_p, model = draw_model(draw_votes, 3, habits=True, examples=40, labels=60)
    expected, evidence = marginal_log_likelihood(votes, log_p, model), example_evidence(votes, model)
    monkeypatch.setattr(likelihood, "CHUNK", cells)
    found = marginal_log_likelihood(votes, log_p, model)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    np.testing.assert_allclose(example_evidence(votes, model), evidence, atol=1e-10)


def test_labels_of_hopeless_log_odds_keep_finite_evidence(draw_votes):
    votes, log_p, model = draw_model(draw_votes, 0)
    for extreme in (-800.0, 800.0):
        hopeless = replace(model, log_odds=np.full(len(votes.label), extreme))
        value, *slopes = marginal_log_likelihood(votes, log_p, hopeless)
        assert np.isfinite(value)
        assert all(np.isfinite(slope).all() for slope in slopes)

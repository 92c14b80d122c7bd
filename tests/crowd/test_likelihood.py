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
    error_evidence,
    example_evidence,
    label_evidence,
    marginal_log_likelihood,
    softmax,
)

seeds = st.integers(0, 10**6)


def draw_model(draw_votes, seed, *, habits=False, **sizes):
    """Draw votes sorted by example, a prediction, a model of the labels and log β."""
    votes, log_p, _ = draw_votes(seed, sort=True, **sizes)
    rng = np.random.default_rng(seed + 1)
    errors = rng.dirichlet(np.ones(votes.classes), votes.classes) * (1 - np.eye(votes.classes))
    errors /= errors.sum(1, keepdims=True)
    model = LabelModel(
        log_odds=2 * rng.normal(size=len(votes.label)),
        errors=errors,
        share=rng.uniform(size=votes.annotators) if habits else np.zeros(votes.annotators),
        habits=rng.dirichlet(np.ones(votes.classes), votes.annotators),
    )
    return votes, log_p, model, 0.5 * rng.normal()


def probability(votes, model, n, z):
    """P(y_n | z), in plain probabilities."""
    eta, y, j = model.log_odds[n], votes.label[n], votes.annotator[n]
    work = expit(eta) if y == z else expit(-eta) * model.errors[z, y]
    return (1 - model.share[j]) * work + model.share[j] * model.habits[j, y]


def marginal(votes, log_p, model, log_beta, weight=None):
    weight = np.ones(len(votes.label)) if weight is None else weight
    of_errors = error_evidence(votes, model.errors, weight)
    return marginal_log_likelihood(votes, log_p, of_errors, model.log_odds, log_beta, weight)


@given(seeds, st.sampled_from([2, 3]), st.booleans())
@settings(max_examples=25)
def test_marginal_and_posterior_are_those_of_enumerating_all_truths(draw_votes, seed, classes, habits):
    votes, log_p, model, log_beta = draw_model(draw_votes, seed, classes=classes, habits=habits)
    prior = np.exp(np.exp(log_beta) * log_p)
    prior /= prior.sum(1, keepdims=True)
    of_example, total = np.zeros_like(prior), 0.0
    for z in product(range(classes), repeat=votes.examples):
        joint = prior[range(votes.examples), z].prod()
        for n, i in enumerate(votes.example):
            joint *= probability(votes, model, n, z[i])
        of_example[range(votes.examples), z] += joint
        total += joint
    truth = softmax(np.log(prior) + example_evidence(votes, model))
    np.testing.assert_allclose(truth, of_example / total, atol=1e-12)
    if not habits:
        assert marginal(votes, log_p, model, log_beta)[0] == pytest.approx(np.log(total))


def test_a_label_of_weight_zero_or_two_counts_not_at_all_or_twice(draw_votes):
    votes, log_p, model, log_beta = draw_model(draw_votes, 1, examples=5, labels=12)
    times = np.tile([0, 1, 2], 4)
    copies = np.repeat(np.arange(12), times)
    repeated = replace(
        votes, example=votes.example[copies], annotator=votes.annotator[copies], label=votes.label[copies]
    )
    expected = marginal(repeated, log_p, replace(model, log_odds=model.log_odds[copies]), log_beta)
    value, slope, slope_beta = marginal(votes, log_p, model, log_beta, times.astype(float))
    assert (value, slope_beta) == pytest.approx((expected[0], expected[2]))
    np.testing.assert_allclose(slope, np.bincount(copies, expected[1], 12), atol=1e-12)


@given(seeds)
@settings(max_examples=25)
def test_evidence_of_an_example_adds_up_over_its_labels(draw_votes, seed):
    votes, _, model, _ = draw_model(draw_votes, seed, habits=True)
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
    votes, log_p, model, log_beta = draw_model(draw_votes, seed, examples=5, labels=12)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(size=12)
    of_errors = error_evidence(votes, model.errors, weight)

    def value(t):
        return marginal_log_likelihood(votes, log_p, of_errors, t[:-1], t[-1], weight)[0]

    def slope(t):
        return np.append(*marginal_log_likelihood(votes, log_p, of_errors, t[:-1], t[-1], weight)[1:])

    assert check_grad(value, slope, np.append(model.log_odds, log_beta)) < 1e-5
    design, centre, variance = csr_array(rng.normal(size=(12, 4))), rng.normal(size=5), rng.uniform(0.5, 2, 5)
    none = csr_array((0, 4))
    arguments = (votes, log_p, of_errors, design, centre, variance, weight, none)
    found = check_grad(
        lambda t: negative_log_posterior(t, *arguments)[0],
        lambda t: negative_log_posterior(t, *arguments)[1],
        rng.normal(size=5),
    )
    assert found < 1e-4


@pytest.mark.parametrize("cells", [1, 7, 10**6])
def test_chunks_do_not_change_the_result(draw_votes, monkeypatch, cells):
    votes, log_p, model, log_beta = draw_model(draw_votes, 3, habits=True, examples=40, labels=60)
    expected, evidence = marginal(votes, log_p, model, log_beta), example_evidence(votes, model)
    monkeypatch.setattr(likelihood, "CHUNK", cells)
    found = marginal(votes, log_p, model, log_beta)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10)
    np.testing.assert_allclose(example_evidence(votes, model), evidence, atol=1e-10)


def test_labels_of_hopeless_log_odds_keep_finite_evidence(draw_votes):
    votes, log_p, model, _ = draw_model(draw_votes, 0)
    for extreme in (-800.0, 800.0):
        hopeless = replace(model, log_odds=np.full(len(votes.label), extreme))
        value, slope, _ = marginal(votes, log_p, hopeless, 0.0)
        assert np.isfinite(value)
        assert np.isfinite(slope).all()

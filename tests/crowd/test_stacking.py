import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from lupi.crowd import stack_weights, votes


def draw(seed, *, models=3, examples=40, classes=3):
    rng = np.random.default_rng(seed)
    z = rng.integers(classes, size=examples)
    evidence = 2 * rng.normal(size=(examples, classes)) + 3 * np.eye(classes)[z]
    skill = rng.uniform(0, 3, (models, 1, 1))
    logits = rng.normal(size=(models, examples, classes)) + skill * np.eye(classes)[z]
    return softmax(logits, axis=2), evidence


def log_likelihood(weights, predictions, evidence):
    mixture = np.einsum("m,mik->ik", weights, predictions)
    return logsumexp(evidence, b=mixture, axis=1).sum()


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_weights_are_those_of_a_general_optimizer(seed):
    predictions, evidence = draw(seed)
    found = stack_weights(predictions, evidence)
    best = min(
        (
            minimize(lambda t: -log_likelihood(softmax(t), predictions, evidence), start, method="BFGS")
            for start in np.vstack([np.zeros(3), 3 * np.eye(3)])
        ),
        key=lambda result: result.fun,
    )
    assert found.sum() == pytest.approx(1)
    assert log_likelihood(found, predictions, evidence) > -best.fun - 40 * 2e-6


@given(st.integers(0, 10**6))
@settings(max_examples=20)
def test_no_step_lowers_the_likelihood(seed):
    predictions, evidence = draw(seed)
    trace = [
        log_likelihood(stack_weights(predictions, evidence, steps=steps), predictions, evidence) for steps in range(15)
    ]
    assert np.diff(trace).min() > -1e-9
    assert trace[-1] > trace[0]


def test_examples_without_labels_carry_no_information():
    predictions, evidence = draw(0)
    more = np.random.default_rng(0).dirichlet(np.ones(3), (3, 1000))
    found = stack_weights(np.concatenate([predictions, more], 1), np.vstack([evidence, np.zeros((1000, 3))]))
    np.testing.assert_allclose(found, stack_weights(predictions, evidence))
    np.testing.assert_array_equal(stack_weights(more, np.zeros((1000, 3))), np.full(3, 1 / 3))


def test_weights_do_not_depend_on_chunks_nor_on_a_factor_of_the_likelihood(monkeypatch):
    predictions, evidence = draw(1)
    expected = stack_weights(predictions, evidence)
    monkeypatch.setattr(votes, "CHUNK", 10)
    shift = 1000 * np.random.default_rng(1).normal(size=(40, 1))
    np.testing.assert_allclose(stack_weights(predictions, evidence + shift), expected, atol=1e-6)


def test_a_mixture_is_recovered():
    rng = np.random.default_rng(2)
    predictions = rng.dirichlet(np.ones(4) / 2, (3, 20_000))
    model = rng.choice(3, 20_000, p=[0.6, 0.3, 0.1])
    z = (predictions[model, np.arange(20_000)].cumsum(1) > rng.random((20_000, 1))).argmax(1)
    label = np.where(rng.random(20_000) < 0.7, z, rng.integers(4, size=20_000))
    evidence = np.log(np.where(np.arange(4) == label[:, None], 0.7 + 0.3 / 4, 0.3 / 4))
    np.testing.assert_allclose(stack_weights(predictions, evidence), [0.6, 0.3, 0.1], atol=0.03)


def test_an_example_that_no_model_explains_counts_for_nothing():
    predictions, evidence = draw(3)
    impossible = np.array([[0.0, -1000, -1000]])
    more = np.concatenate([predictions, np.tile([0, 0.5, 0.5], (3, 1, 1))], 1)
    found = stack_weights(more, np.vstack([evidence, impossible]))
    np.testing.assert_allclose(found, stack_weights(predictions, evidence), atol=0.01)


def test_predictions_of_another_shape_are_refused():
    predictions, evidence = draw(0)
    with pytest.raises(ValueError, match=r"`predictions`.*\[40, 3\].*\[39, 3\]"):
        stack_weights([predictions[0], predictions[1][1:]], evidence)

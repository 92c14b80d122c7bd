import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi import testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import NoPI, build, transition
from lupi.methods.transition import pi_transition


def method_and_batch(likelihood, **options):
    method = testing.make_method(lambda parts: pi_transition(parts, **options), likelihood)
    return method, testing.make_data(likelihood).by_annotation(torch.arange(testing.ANNOTATIONS))


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_matrix_is_column_stochastic_and_starts_near_the_identity(likelihood):
    method, batch = method_and_batch(likelihood, diagonal=0.8)
    classes = 3 if isinstance(likelihood, Categorical) else 2
    matrix = method.log_matrix(batch.a, classes).detach().exp()
    torch.testing.assert_close(matrix.sum(-2), torch.ones(matrix.shape[:-1]))
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    assert float((diagonal - 0.8).abs().max()) < 0.05
    assert matrix.shape == (testing.ANNOTATIONS, *((3,) if classes == 2 else ()), classes, classes)


def test_output_is_matrix_times_probabilities():
    method, batch = method_and_batch(Categorical())
    with torch.no_grad():
        p = torch.softmax(method.predictor()(batch.x), -1)[batch.row].numpy()
        matrix = method.log_matrix(batch.a, 3).exp().numpy()
        q = np.stack([t @ column for t, column in zip(matrix, p, strict=True)])
        np.testing.assert_allclose(torch.softmax(method.conditional_output(batch), -1).numpy(), q, rtol=1e-4)
        loss = -np.log(q[np.arange(len(q)), batch.y]).mean()
        assert float(method(batch)) == pytest.approx(loss, rel=1e-5)


def test_labels_flip_each_by_its_own_matrix():
    method, batch = method_and_batch(Bernoulli())
    with torch.no_grad():
        p = torch.sigmoid(method.predictor()(batch.x))[batch.row]
        matrix = method.log_matrix(batch.a, 2).exp()
        expected = matrix[..., 1, 1] * p + matrix[..., 1, 0] * (1 - p)
        torch.testing.assert_close(torch.sigmoid(method.conditional_output(batch)), expected)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_the_identity_gives_no_pi(likelihood):
    method, batch = method_and_batch(likelihood)
    nn.init.zeros_(method.transition[-1].weight)
    with torch.no_grad():
        method.transition[-1].bias.mul_(100)
        plain = NoPI(method.trunk, method.marginal, likelihood=likelihood)
        torch.testing.assert_close(method(batch), plain(batch))


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**31 - 1), st.floats(0.1, 60))
def test_the_loss_agrees_with_double_precision(seed, size):
    """Also where probabilities are far below the smallest difference of 1 and a float32."""
    for likelihood in (Categorical(), Bernoulli()):
        method = testing.make_method(pi_transition, likelihood, seed)
        batch = testing.make_data(likelihood, seed).by_annotation(torch.arange(testing.ANNOTATIONS))
        with torch.no_grad():
            method.marginal.weight.mul_(size)
            method.transition[-1].bias.mul_(size)
        reference = copy.deepcopy(method).double()
        y = batch.y if isinstance(likelihood, Categorical) else batch.y.double()
        exact = reference(batch._replace(x=batch.x.double(), a=batch.a.double(), y=y))
        loss = method(batch)
        assert loss.item() == pytest.approx(exact.item(), rel=1e-4)
        loss.backward(), exact.backward()
        for own, other in zip(method.parameters(), reference.parameters(), strict=True):
            scale = float(other.grad.abs().max())
            torch.testing.assert_close(own.grad.double(), other.grad, rtol=1e-2, atol=1e-3 * max(scale, 1e-3))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_a_label_that_is_confidently_contradicted_has_a_gradient(likelihood, autocast):
    """With T near the identity, the loss is that of p(y | x): 50 logits, whose gradient is that of cross-entropy."""
    method, batch = method_and_batch(likelihood)
    nn.init.zeros_(method.transition[-1].weight)
    nn.init.zeros_(method.marginal.weight)
    with torch.no_grad():
        method.transition[-1].bias.mul_(1000)
        method.marginal.bias.copy_(torch.tensor([50.0, 0.0, 0.0]))
    y = torch.ones(testing.ANNOTATIONS, dtype=torch.long)
    if isinstance(likelihood, Bernoulli):
        y = torch.tensor([0.0, 0.0, 1.0]).expand(testing.ANNOTATIONS, 3)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        loss = method(batch._replace(y=y))
    loss.backward()
    categorical = isinstance(likelihood, Categorical)
    expected = 50.0 if categorical else (50 + 2 * np.log(2)) / 3
    assert loss.item() == pytest.approx(expected, rel=1e-2 if autocast else 1e-5)
    gradient = torch.tensor([1.0, -1.0, 0.0]) if categorical else torch.tensor([1.0, 0.5, -0.5]) / 3
    torch.testing.assert_close(method.marginal.bias.grad, gradient, rtol=0, atol=1e-2 if autocast else 1e-5)


def test_real_labels_are_refused():
    with pytest.raises(ValueError, match=r"y .*'pi-transition'.*real number"):
        build("pi-transition", testing.make_parts(Gaussian()))


def test_many_classes_have_a_matrix_of_summed_effects(monkeypatch):
    monkeypatch.setattr(transition, "MANY_CLASSES", 2)
    method, batch = method_and_batch(Categorical(), diagonal=0.8)
    with torch.no_grad():
        start = torch.softmax(method.conditional_output(batch), -1)
        p = torch.softmax(method.predictor()(batch.x), -1)[batch.row]
        torch.testing.assert_close(start, 0.8 * p + 0.1 * (1 - p), rtol=0, atol=0.05)
        nn.init.normal_(method.pairs.weight, std=0.1)
        nn.init.normal_(method.transition[-1].weight)
        stay, answer = method.transition(batch.a).numpy().reshape(-1, 2, 3).transpose(1, 0, 2)
        pairs = transition.PAIR_SCALE * method.pairs.weight.numpy() * (1 - np.eye(3))
        odds = np.exp(answer[:, :, None] + pairs + stay[:, None] * np.eye(3))
        q = np.einsum("nyk,nk->ny", odds / odds.sum(1, keepdims=True), p.numpy())
        np.testing.assert_allclose(torch.softmax(method.conditional_output(batch), -1).numpy(), q, rtol=1e-4)
    testing.check_method(pi_transition, Categorical())

import numpy as np
import pytest
import torch
from torch import nn

from lupi import testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import NoPI, build
from lupi.methods.transition import pi_transition


def method_and_batch(likelihood, **options):
    method = testing.make_method(lambda parts: pi_transition(parts, **options), likelihood)
    return method, testing.make_data(likelihood).by_annotation(torch.arange(testing.ANNOTATIONS))


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_matrix_is_column_stochastic_and_starts_near_the_identity(likelihood):
    method, batch = method_and_batch(likelihood, diagonal=0.8)
    classes = 3 if isinstance(likelihood, Categorical) else 2
    matrix = method.matrix(batch.a, classes).detach()
    torch.testing.assert_close(matrix.sum(-2), torch.ones(matrix.shape[:-1]))
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    assert float((diagonal - 0.8).abs().max()) < 0.05
    assert matrix.shape == (testing.ANNOTATIONS, *((3,) if classes == 2 else ()), classes, classes)


def test_output_is_matrix_times_probabilities():
    method, batch = method_and_batch(Categorical())
    with torch.no_grad():
        p = torch.softmax(method.predictor()(batch.x), -1)[batch.row].numpy()
        matrix = method.matrix(batch.a, 3).numpy()
        q = np.stack([t @ column for t, column in zip(matrix, p, strict=True)])
        np.testing.assert_allclose(torch.softmax(method.given(batch), -1).numpy(), q, rtol=1e-4)
        loss = -np.log(q[np.arange(len(q)), batch.y]).mean()
        assert float(method(batch)) == pytest.approx(loss, rel=1e-5)


def test_labels_flip_each_by_its_own_matrix():
    method, batch = method_and_batch(Bernoulli())
    with torch.no_grad():
        p = torch.sigmoid(method.predictor()(batch.x))[batch.row]
        matrix = method.matrix(batch.a, 2)
        expected = matrix[..., 1, 1] * p + matrix[..., 1, 0] * (1 - p)
        torch.testing.assert_close(torch.sigmoid(method.given(batch)), expected)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli()])
def test_the_identity_gives_no_pi(likelihood):
    method, batch = method_and_batch(likelihood)
    nn.init.zeros_(method.transition[-1].weight)
    with torch.no_grad():
        method.transition[-1].bias.mul_(100)
        plain = NoPI(method.trunk, method.marginal, likelihood=likelihood)
        torch.testing.assert_close(method(batch), plain(batch))


def test_real_labels_are_refused():
    with pytest.raises(ValueError, match=r"y .*'pi-transition'.*real number"):
        build("pi-transition", testing.make_parts(Gaussian()))

import pytest
import torch
from torch import nn

from lupi import testing
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import NoPI
from lupi.methods.pi_dual import pi_dual


def method_and_batch(likelihood):
    method = testing.make_method(lambda parts: pi_dual(parts, random=0), likelihood)
    return method, testing.make_data(likelihood).by_annotation(torch.arange(testing.ANNOTATIONS))


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()])
def test_output_is_the_papers(likelihood):
    method, batch = method_and_batch(likelihood)
    with torch.no_grad():
        gamma = 1 / (1 + torch.exp(-method.gate(batch.a)))
        clean = method.predictor()(batch.x)[batch.row]
        expected = (1 - gamma) * clean + gamma * method.noise(batch.a)
        torch.testing.assert_close(method.conditional_output(batch), expected)


@pytest.mark.parametrize(("logit", "which"), [(-200.0, "clean"), (200.0, "noise")])
def test_limits_of_the_gate(logit, which):
    method, batch = method_and_batch(Categorical())
    nn.init.zeros_(method.gate[-1].weight)
    nn.init.constant_(method.gate[-1].bias, logit)
    with torch.no_grad():
        if which == "clean":
            torch.testing.assert_close(method(batch), NoPI(method.trunk, method.marginal)(batch))
        else:
            torch.testing.assert_close(method(batch), Categorical().loss(method.noise(batch.a), batch.y))


def test_random_features_reach_gate_and_noise():
    method = pi_dual(testing.make_parts(Categorical()), random=6)
    assert method.gate[0].in_features == method.noise[0].in_features == testing.PRIVILEGED + 6
    assert method.random == 6

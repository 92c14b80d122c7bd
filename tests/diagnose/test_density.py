import numpy as np
import pytest
import torch
from scipy import integrate
from scipy.stats import norm

from lupi import testing
from lupi.data import Batch
from lupi.diagnose.density import make_mixture
from lupi.likelihoods import Gaussian


def test_mixture_is_a_density_and_the_one_of_its_parameters():
    method = make_mixture(testing.make_parts(Gaussian())).double()
    y = torch.linspace(-40, 40, 20_001).double()
    x, a = torch.ones(1, testing.INPUTS).double(), torch.zeros(1, testing.PRIVILEGED).double()
    row = torch.zeros(len(y), dtype=torch.long)
    with torch.no_grad():
        losses = method.loss_per_annotation(Batch(x, row, a.expand(len(y), -1), y)).numpy()
        weight, mean, scale = method.predictor()(x)[0].numpy().reshape(3, -1)
    assert integrate.trapezoid(np.exp(-losses), y.numpy()) == pytest.approx(1, abs=1e-6)
    weight = np.exp(weight) / np.exp(weight).sum()
    mean = np.linspace(-1.5, 1.5, 8) + mean
    scale = np.log1p(np.exp(scale)) + 0.01
    density = norm.pdf(y.numpy()[:, None], mean, scale) @ weight
    np.testing.assert_allclose(np.exp(-losses), density, rtol=1e-4, atol=1e-12)

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from torch import nn

from lupi.data import Annotations
from lupi.likelihoods import Gaussian
from lupi.methods import NoPI
from lupi.settings import Settings
from lupi.training import fit


def annotations(x, row, y):
    return Annotations(torch.tensor(x), torch.tensor(row), torch.zeros(len(row), 1), torch.tensor(y))


def test_linear_no_pi_with_l2_is_logistic_regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).astype(np.float32)
    row = rng.integers(60, size=150)
    y = (x[row] @ np.array([[1.0, -1, 0], [0, 2, 0], [0.5, 0, 1]]) + rng.gumbel(size=(150, 3))).argmax(1)
    method = NoPI(nn.Identity(), nn.Linear(3, 3))
    fit(method, annotations(x, row, y), Settings(epochs=1000, batch_size=150, learning_rate=0.05, l2=0.01))
    # λ‖w‖² + mean loss is scikit-learn's ½‖w‖² + C Σ loss at C = 1 / 2λn
    expected = LogisticRegression(C=1 / (2 * 0.01 * 150), tol=1e-10, max_iter=10000).fit(x[row], y)
    ours = method.likelihood.mean(method.predictor()(torch.tensor(x))).detach().numpy()
    np.testing.assert_allclose(ours, expected.predict_proba(x), atol=1e-4)


def test_linear_no_pi_with_l2_is_ridge_regression():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 2)).astype(np.float32)
    y = (x @ [1.0, -2.0] + rng.normal(size=50)).astype(np.float32)
    method = NoPI(nn.Identity(), nn.Linear(2, 1), likelihood=Gaussian())
    fit(method, annotations(x, np.arange(50), y), Settings(epochs=800, batch_size=50, learning_rate=0.05, l2=0.1))
    expected = Ridge(alpha=2 * 0.1 * 50).fit(x, y)  # λ‖w‖² + mean ½(y − ŷ)²
    np.testing.assert_allclose(method.marginal.weight.detach().numpy()[0], expected.coef_, atol=1e-4)

import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi import testing
from lupi.data import Annotations, Batch, SparseRows
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods.marginalization import FullMarginalization, full_marginalization
from lupi.nn import MLP, Tower
from lupi.nn.heads import GaussianHead
from lupi.settings import Settings
from lupi.training import fit


def naive(method, x, a):
    """Mean over rows of a of what the conditional head expects, one row after the other."""
    total = 0
    for row in a:
        batch = Batch(x, torch.arange(len(x)), row.expand(len(x), -1), torch.zeros(len(x)))
        total = total + method.likelihood.mean(method.conditional_output(batch)).detach().double()
    return total / len(a)


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()])
@pytest.mark.parametrize("skip", [False, True])
def test_predictor_is_the_naive_average_of_probabilities(likelihood, skip):
    data = testing.make_data(likelihood)
    method = full_marginalization(dataclasses.replace(testing.make_parts(likelihood), tower_skip=skip))
    fit(method, data, Settings(epochs=20, batch_size=8, learning_rate=0.02))
    x = data.x[torch.arange(testing.EXAMPLES)]
    ours = likelihood.mean(method.predictor()(x)).detach()
    torch.testing.assert_close(ours.double(), naive(method, x, data.a), atol=1e-5, rtol=0)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(1, 5))
def test_distinct_rows_with_weights_are_exact_for_any_rows(seed, rows, columns):
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, columns)) < 0.5).astype(np.float32)
    x = torch.tensor(rng.normal(size=(4, 3)), dtype=torch.float32)
    data = Annotations(
        x, torch.zeros(rows, dtype=torch.long), SparseRows.from_matrix(scipy.sparse.csr_array(dense)), torch.zeros(rows)
    )
    torch.manual_seed(seed % 1000)
    method = FullMarginalization(MLP(3, (4,)), Tower(columns, 4, (5, 6)), nn.Linear(6, 3))
    method.observe(data)
    assert len(method.weight) == len(np.unique(dense, axis=0))
    ours = method.likelihood.mean(method.predictor()(x)).detach()
    torch.testing.assert_close(ours.double(), naive(method, x, torch.tensor(dense)), atol=1e-5, rtol=0)


def test_average_is_of_probabilities_not_of_logits():
    method = FullMarginalization(nn.Identity(), Tower(2, 1, (2, 2)), nn.Linear(2, 2))
    with torch.no_grad():  # row (1, 0) says class 0, row (0, 1) says class 1 with four times the logit
        for layer in (method.tower.first, method.tower.second, method.conditional):
            layer.weight.zero_()
            layer.bias.zero_()
        method.tower.first.weight.copy_(torch.eye(2))
        method.tower.second.weight[:, :2].copy_(torch.eye(2))
        method.conditional.weight.copy_(torch.tensor([[2.0, 0], [0, 8]]))
    data = Annotations(torch.zeros(1, 1), torch.zeros(2, dtype=torch.long), torch.eye(2), torch.tensor([0, 1]))
    method.observe(data)
    p = torch.softmax(method.predictor()(torch.zeros(1, 1)), -1)[0, 0]
    assert p.item() == pytest.approx((1 / (1 + np.exp(-2)) + 1 / (1 + np.exp(8))) / 2, abs=1e-6)


def test_gaussian_mixture_has_the_total_variance():
    torch.manual_seed(0)
    method = FullMarginalization(MLP(3, (4,)), Tower(2, 4, (8, 8)), GaussianHead(8), likelihood=Gaussian())
    a = torch.tensor([[0.0, 5], [5, 0], [5, 0]])
    data = Annotations(torch.randn(2, 3), torch.zeros(3, dtype=torch.long), a, torch.zeros(3))
    method.observe(data)
    x = data.x[torch.arange(2)]
    parts = [
        method.conditional_output(Batch(x, torch.arange(2), row.expand(2, -1), torch.zeros(2))).detach().numpy()
        for row in a
    ]
    mean, variance = np.stack(parts)[..., 0], np.stack(parts)[..., 1]
    expected = np.stack([mean.mean(0), variance.mean(0) + mean.var(0)], 1)
    np.testing.assert_allclose(method.predictor()(x).detach().numpy(), expected, rtol=1e-4)


def test_samples_are_training_rows_drawn_without_replacement():
    data = Annotations(
        torch.zeros(1, 5), torch.zeros(20, dtype=torch.long), torch.arange(80.0).view(20, 4), torch.zeros(20)
    )
    method = full_marginalization(testing.make_parts(Categorical()), samples=7)
    method.observe(data)
    rows = SparseRows(method.index, method.value, 4)[torch.arange(7)]
    assert {tuple(row) for row in rows.tolist()} < {tuple(row) for row in data.a.tolist()}
    assert method.weight.tolist() == pytest.approx([1 / 7] * 7)


def test_many_rows_of_a_stay_sparse():
    """82 × 10 × 10 categories: the predictor stores an offset per distinct row, not the rows."""
    rng = np.random.default_rng(0)
    rows = 16400
    columns = np.stack(
        [rng.integers(82, size=rows), 82 + rng.integers(10, size=rows), 92 + rng.integers(10, size=rows)], 1
    )
    index, value = torch.tensor(columns, dtype=torch.int32), torch.ones(rows, 3)
    data = Annotations(
        torch.zeros(1, 5), torch.zeros(rows, dtype=torch.long), SparseRows(index, value, 102), torch.zeros(rows)
    )
    method = full_marginalization(dataclasses.replace(testing.make_parts(Categorical()), privileged=102))
    method.observe(data)
    kinds, counts = np.unique(columns, axis=0, return_counts=True)
    assert method.index.shape == (len(kinds), 3)
    assert sorted(method.weight.tolist()) == pytest.approx(sorted(counts / rows))
    shapes = {tuple(buffer.shape) for _, buffer in method.predictor().named_buffers()}
    assert shapes == {(8, len(kinds), 1), (3, len(kinds), 1), (3, 8), (8, 8), (1, 1, len(kinds))}

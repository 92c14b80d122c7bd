import dataclasses

import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lupi import testing
from lupi.data import Annotations, Batch, SparseRows
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods.imputation import mean_imputation, zero_imputation


@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()])
@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("build", [zero_imputation, mean_imputation])
def test_predictor_is_the_conditional_head_at_the_imputed_a(build, skip, likelihood):
    data = testing.make_data(likelihood)
    method = build(dataclasses.replace(testing.make_parts(likelihood), tower_skip=skip))
    method.observe(data)
    x = data.x[torch.arange(testing.EXAMPLES)]
    imputed = torch.zeros(testing.PRIVILEGED) if build is zero_imputation else data.a.mean(0)
    a = imputed.expand(len(x), -1)
    expected = method.conditional_output(Batch(x, torch.arange(len(x)), a, torch.zeros(len(x))))
    torch.testing.assert_close(method.predictor()(x), expected)


def test_predictor_holds_neither_the_towers_first_layer_nor_single_rows_of_a():
    method = mean_imputation(testing.make_parts(Categorical()))
    method.observe(testing.make_data(Categorical()))
    shapes = [tuple(tensor.shape) for tensor in method.predictor().state_dict().values()]
    assert (16, testing.PRIVILEGED) not in shapes
    assert (8, 8) in shapes  # layer 2, for the features alone
    assert (8, 24) not in shapes


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 6))
def test_the_mean_of_sparse_rows_is_that_of_dense_ones(seed, rows, columns):
    rng = np.random.default_rng(seed)
    dense = scipy.sparse.csr_array(rng.random((rows, columns)) * (rng.random((rows, columns)) < 0.4))
    np.testing.assert_allclose(SparseRows.from_matrix(dense).mean(0), dense.toarray().mean(0), atol=1e-6)


def test_mean_is_over_annotations_not_examples():
    data = testing.make_data(Categorical())
    few = Annotations(
        data.x, torch.tensor([0, 0, 0, 1]), torch.tensor([[1.0, 0, 0, 0]] * 3 + [[0, 1.0, 0, 0]]), data.y[:4]
    )
    method = mean_imputation(testing.make_parts(Categorical()))
    method.observe(few)
    assert method.imputed.tolist() == [0.75, 0.25, 0, 0]

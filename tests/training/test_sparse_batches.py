"""Privileged information of many columns stays sparse in large batches, which changes nothing but the time."""

import dataclasses

import pytest
import torch

from lupi import methods
from lupi.data import SparseRows
from lupi.settings import Settings
from lupi.training import fit, loop
from tests.training.helpers import HOW, make_data, make_parts


def sparse_data():
    data = make_data()
    dense = torch.where(data.a > 0, data.a, 0)
    return dataclasses.replace(data, a=SparseRows.from_matrix(dense))


def train(name, data, monkeypatch, wide, how=HOW):
    """Return the weights after training, and whether batches were sparse."""
    monkeypatch.setattr(loop, "MAX_DENSE_BATCH", wide)
    found, draw = [], SparseRows.__getitem__
    monkeypatch.setattr(SparseRows, "__getitem__", lambda rows, index: found.append(draw(rows, index)) or found[-1])
    torch.manual_seed(0)
    method = methods.build(name, make_parts())
    fit(method, data, how, validation=data)
    monkeypatch.setattr(SparseRows, "__getitem__", draw)
    return method.state_dict(), any(a.is_sparse for a in found)


@pytest.mark.parametrize("name", ["tram", "two-step-tram"])
def test_sparse_batches_train_the_same_network(name, monkeypatch):
    dense, was_sparse = train(name, sparse_data(), monkeypatch, 2**22)
    assert not was_sparse
    sparse, was_sparse = train(name, sparse_data(), monkeypatch, 0)
    assert was_sparse
    for part, weights in dense.items():
        torch.testing.assert_close(sparse[part], weights, rtol=1e-4, atol=1e-5)


def test_mixed_precision_gets_dense_batches(monkeypatch):
    assert not train("tram", sparse_data(), monkeypatch, 0, Settings(precision="bfloat16", epochs=1))[1]

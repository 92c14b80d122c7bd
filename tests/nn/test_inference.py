import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi.data import Annotations, SparseRows
from lupi.nn.inference import ROWS_AT_ONCE, device_of, over_annotations, over_examples

properties = settings(deadline=None, max_examples=40)


def modes(module):
    return [part.training for part in module.modules()]


def test_device_of():
    assert device_of(nn.Linear(2, 2, device="meta")).type == "meta"
    assert device_of(nn.Flatten()).type == "cpu"


@properties
@given(rows=st.integers(0, 20), size=st.integers(1, 25))
def test_over_examples_is_the_module_at_every_row(rows, size):
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout())
    before = {name: value.clone() for name, value in module.state_dict().items()}
    seen = []
    module.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    x = torch.randn(rows, 3)
    output = over_examples(module, x, size)
    linear, norm = module[0], module[1]
    expected = (x.numpy() @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()) / np.sqrt(1 + norm.eps)
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
    assert not output.requires_grad
    assert seen == ([min(size, rows - start) for start in range(0, rows, size)] or [0])
    assert modes(module) == [True] * 4
    for name, value in module.state_dict().items():  # no running mean moved
        assert torch.equal(value, before[name])


class Source:
    """Rows of an array that is read where it is drawn."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape
        self.drawn = []

    def __getitem__(self, index):
        self.drawn.append(index.numel())
        return torch.from_numpy(self.array[index.numpy()])


def test_over_examples_reads_a_file_piece_by_piece(tmp_path):
    rows = 2 * ROWS_AT_ONCE + 7
    file = np.memmap(tmp_path / "x", dtype=np.float32, mode="w+", shape=(rows, 2, 2))
    file[:] = np.arange(file.size).reshape(file.shape)
    file.flush()
    source = Source(np.memmap(tmp_path / "x", dtype=np.float32, mode="r", shape=file.shape))
    np.testing.assert_array_equal(over_examples(nn.Flatten(), source), np.array(file).reshape(rows, 4))
    assert source.drawn == [ROWS_AT_ONCE, ROWS_AT_ONCE, 7]


@pytest.mark.parametrize("kind", [lambda x: x, list, lambda x: {"x": x}])
def test_over_examples_of_some_rows(kind):
    x = torch.randn(9, 2)
    module = torch.nn.Module()
    module.forward = lambda inputs: 2 * (inputs["x"] if isinstance(inputs, dict) else inputs)
    rows = torch.tensor([7, 0, 3, 7])
    for size in (1, 3, 9):
        assert torch.equal(over_examples(module, kind(x), size, rows=rows), 2 * x[rows])


@properties
@given(
    row=st.lists(st.integers(0, 9), min_size=1, max_size=30),
    size=st.integers(1, 12),
    sparse=st.booleans(),
)
def test_over_annotations_keeps_their_order(row, size, sparse):
    x, a = torch.randn(10, 3), torch.randn(len(row), 2)
    y = torch.randn(len(row))
    data = Annotations(x, torch.tensor(row), SparseRows.from_matrix(a) if sparse else a, y)
    module = nn.Dropout()
    trunk_rows = []

    def function(batch):
        assert not module.training
        trunk_rows.append(batch.x.shape[0])
        return torch.cat([module(batch.x)[batch.row], batch.a, batch.y[:, None]], 1)

    output = over_annotations(module, function, data, size)
    np.testing.assert_array_equal(output, np.hstack([x.numpy()[row], a, y[:, None]]))
    assert max(trunk_rows) <= size
    assert sum(trunk_rows) == len(set(row))
    assert module.training

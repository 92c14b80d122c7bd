from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F

from lupi.nn import layers
from lupi.nn.layers import PRODUCTS, ROWS, Linear, small_kernels

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("relu", [False, True])
def test_a_layer_is_that_of_torch_and_its_relu(relu):
    torch.manual_seed(0)
    layer, x, of_y = Linear(3, 5, relu=relu), torch.randn(7, 3, requires_grad=True), torch.randn(7, 5)
    expected = F.linear(x, layer.weight, layer.bias)
    expected = expected.clamp_min(0) if relu else expected
    y, inputs = layer(x), (x, layer.weight, layer.bias)
    assert torch.equal(y, expected)
    assert (y < 0).any() != relu
    for one, other in zip(
        torch.autograd.grad(y, inputs, of_y), torch.autograd.grad(expected, inputs, of_y), strict=True
    ):
        assert torch.equal(one, other)
    with small_kernels():  # changes nothing on a CPU
        assert torch.equal(layer(x), expected)
    assert ("relu" in repr(layer)) == relu


@pytest.fixture
def own(monkeypatch):
    """Stands for the kernels; a GPU's tensors are described, since there is none."""
    given = []
    small = SimpleNamespace(apply=lambda *inputs: given.append(inputs) or "small")
    monkeypatch.setattr(layers, "kernels", lambda _: SimpleNamespace(SmallLinear=small))
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda *_: "usual")
    return given


def on_gpu(*shape):
    return SimpleNamespace(is_cuda=True, ndim=len(shape), shape=shape, numel=lambda: torch.Size(shape).numel())


def test_small_layers_of_a_recorded_step_have_kernels_of_their_own(own):
    layer, x = Linear(3, 5, relu=True), on_gpu(7, 3)
    with small_kernels():
        assert layer.forward(x) == "small"
    assert own == [(x, layer.weight, layer.bias, True)]
    plain = Linear(3, 5)
    assert plain.forward(x) == "usual"  # starting them costs the CPU more
    with small_kernels(), pytest.raises(ValueError, match="broken"):
        raise ValueError("broken")
    assert plain.forward(x) == "usual"


def test_large_layers_are_torch_s(own):
    wide = Linear(PRODUCTS // ROWS // 4, 4)
    with small_kernels():
        assert wide.forward(on_gpu(ROWS, wide.in_features)) == "small"
        assert wide.forward(on_gpu(ROWS, wide.in_features + 1)) == "usual"
        assert Linear(3, 4).forward(on_gpu(ROWS + 1, 3)) == "usual"
        assert Linear(3, 4).forward(on_gpu(2, 2, 3)) == "usual"
    assert len(own) == 1


def test_kernels_are_for_single_precision_on_a_gpu(monkeypatch):
    monkeypatch.setattr(layers, "own_kernels", lambda: "own")
    assert layers.kernels(torch.ones(1)) is None
    assert layers.kernels(SimpleNamespace(is_cuda=True, dtype=torch.float32)) == "own"
    assert layers.kernels(SimpleNamespace(is_cuda=True, dtype=torch.float64)) is None
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
    assert layers.kernels(SimpleNamespace(is_cuda=True, dtype=torch.float32)) is None


@on_a_gpu
@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("relu", [False, True])
def test_a_layer_on_a_gpu_is_that_of_a_cpu(relu, precision):
    pytest.importorskip("triton")
    before = torch.get_float32_matmul_precision()
    torch.manual_seed(0)
    layer, x, of_y = Linear(102, 64, relu=relu), torch.randn(64, 102), torch.randn(64, 64)
    expected = torch.autograd.grad(layer(x), list(layer.parameters()), of_y)
    torch.set_float32_matmul_precision(precision)
    try:
        layer.cuda()
        with small_kernels():
            gradients = torch.autograd.grad(layer(x.cuda()), list(layer.parameters()), of_y.cuda())
    finally:
        torch.set_float32_matmul_precision(before)
    off = 1e-4 if precision == "highest" else 0.1
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=off, atol=off)

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch.func import vmap

from lupi.nn import layers
from lupi.nn.layers import OUTPUTS, PRODUCTS, ROWS, Linear, small_kernels

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("relu", [False, True])
def test_a_layer_is_that_of_torch_and_its_relu(relu):
    torch.manual_seed(0)
    layer, x, of_y = Linear(3, 5), torch.randn(7, 3, requires_grad=True), torch.randn(7, 5)
    expected = F.linear(x, layer.weight, layer.bias)
    expected = expected.clamp_min(0) if relu else expected
    y, inputs = layer(x, relu=relu), (x, layer.weight, layer.bias)
    assert torch.equal(y, expected)
    assert (y < 0).any() != relu
    for one, other in zip(
        torch.autograd.grad(y, inputs, of_y), torch.autograd.grad(expected, inputs, of_y), strict=True
    ):
        assert torch.equal(one, other)
    with small_kernels():  # changes nothing on a CPU
        assert torch.equal(layer(x, relu=relu), expected)


@pytest.fixture
def own(monkeypatch):
    """Stands for the kernels; a GPU's tensors are described, since there is none."""
    given = []
    small = SimpleNamespace(apply=lambda *inputs: given.append(inputs) or "small")
    monkeypatch.setattr(layers, "kernels_for", lambda _: SimpleNamespace(SmallLinear=small))
    monkeypatch.setattr(F, "linear", lambda *_: "usual")
    return given


def on_gpu(*shape):
    return SimpleNamespace(ndim=len(shape), shape=shape, numel=lambda: torch.Size(shape).numel())


def test_small_layers_have_kernels_where_they_are_asked_for(own):
    layer, x = Linear(3, 5), on_gpu(7, 3)
    with small_kernels():
        assert layer.forward(x, relu=True) == "small"
    assert own == [(x, layer.weight, layer.bias, True)]
    assert layer.forward(x) == "usual"  # starting them costs the CPU more
    with pytest.raises(ValueError, match="broken"), small_kernels():
        raise ValueError("broken")
    assert layer.forward(x) == "usual"


def test_large_layers_are_those_of_torch(own):
    wide = Linear(PRODUCTS // ROWS // 4, 4)
    with small_kernels():
        assert wide.forward(on_gpu(ROWS, wide.in_features)) == "small"
        assert wide.forward(on_gpu(ROWS, wide.in_features + 1)) == "usual"
        assert Linear(3, 4).forward(on_gpu(ROWS + 1, 3)) == "usual"
        assert Linear(3, 4).forward(on_gpu(2, 2, 3)) == "usual"
        assert Linear(3, OUTPUTS).forward(on_gpu(2, 3)) == "small"
        assert Linear(3, OUTPUTS + 1).forward(on_gpu(2, 3)) == "usual"
    assert len(own) == 2


def test_layers_of_replicas_are_those_of_torch():
    """The kernels know nothing of torch's transforms."""
    layer, x, small = Linear(3, 4), torch.ones(2, 5, 3), []

    def watched(x):
        small.append(layer.is_small(x))
        return layer(x)

    vmap(watched)(x)
    watched(x[0])
    assert small == [False, True]


def test_predictors_can_be_scripted():
    layer, x = Linear(3, 4), torch.ones(2, 3)
    with pytest.warns(DeprecationWarning, match="torch.jit.script"):
        scripted = torch.jit.script(layer)
    assert torch.equal(scripted(x), layer(x))


@on_a_gpu
@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("relu", [False, True])
def test_a_layer_on_a_gpu_is_that_of_a_cpu(relu, precision):
    pytest.importorskip("triton")
    before = torch.get_float32_matmul_precision()
    torch.manual_seed(0)
    layer, x, of_y = Linear(102, 64), torch.randn(64, 102, requires_grad=True), torch.randn(64, 64)
    expected = torch.autograd.grad(layer(x, relu=relu), (x, *layer.parameters()), of_y)
    layer, x = layer.cuda(), x.detach().cuda().requires_grad_()
    torch.set_float32_matmul_precision(precision)
    try:
        with small_kernels():
            y = layer(x, relu=relu)
        gradients = torch.autograd.grad(y, (x, *layer.parameters()), of_y.cuda())
    finally:
        torch.set_float32_matmul_precision(before)
    assert y.grad_fn.name() == "SmallLinearBackward"
    for one, other in zip(gradients, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=0, atol=1e-4 if precision == "highest" else 0.05)


@on_a_gpu
@pytest.mark.parametrize("precision", ["highest", "high"])
def test_a_network_that_has_diverged_says_so(precision):
    """A ReLU computed with the product may not turn NaN into 0."""
    pytest.importorskip("triton")
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        for rows, inputs, outputs in [(64, 102, 64), (64, 128, 64), (256, 1024, 64), (5, 3, 2), (64, 512, 512)]:
            layer, x = Linear(inputs, outputs).cuda(), torch.ones(rows, inputs, device="cuda")
            x[1] = torch.nan
            with small_kernels():
                y = layer(x, relu=True)
            assert y[1].isnan().all()
            assert not y[2:].isnan().any()
    finally:
        torch.set_float32_matmul_precision(before)

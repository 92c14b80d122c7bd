"""The kernels equal torch: on a GPU if there is one, else with Triton's interpreter."""

import copy
import os

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
pytest.importorskip("triton", minversion="3.3", reason="older interpreters do not call one kernel from another")

from lupi_paper.mobilenet import kernels, network
from lupi_paper.mobilenet.network import Depthwise, Layer, Pointwise

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def normal(*shape, scale=1.0, shift=0.0):
    generator = torch.Generator().manual_seed(sum(shape))
    return (torch.randn(shape, generator=generator) * scale + shift).to(DEVICE).requires_grad_()


def assert_same(outputs, expected, inputs):
    torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-5)
    of_output = torch.randn_like(expected)
    gradients = torch.autograd.grad(outputs, inputs, of_output)
    for gradient, other in zip(gradients, torch.autograd.grad(expected, inputs, of_output), strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-3, atol=1e-4)


def statistics(*shape):
    return [torch.full(shape, 0.5, device=DEVICE), torch.full(shape, 2.0, device=DEVICE)]


def normed(z, weight, bias, *running):
    y = F.batch_norm(z.flatten(1)[None], *running, weight, bias, True, momentum=0.1, eps=1e-3)
    return F.relu6(y)[0].reshape(z.shape)


@pytest.mark.parametrize("shape", [(5, 3, 8, 8), (4, 2, 2, 2), (3, 5, 1, 1), (2, 9, 12, 16)])
def test_norm_equals_torchs(shape):
    z, weight, bias = normal(*shape, scale=3, shift=1), normal(shape[0]), normal(shape[0], shift=2)
    running, expected = statistics(shape[0]), statistics(shape[0])
    y, mean, variance = kernels.NormReLU6.apply(z, weight, bias, *running, 1e-3, 0.1)
    assert_same(y, normed(z, weight, bias, *expected), (z, weight, bias))
    torch.testing.assert_close(running, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mean, z.flatten(1).mean(1).detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(variance, z.flatten(1).var(1, correction=0).detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(5, 3, 8, 8), (4, 2, 2, 2), (3, 5, 4, 16), (2, 9, 12, 16)])
def test_depthwise_equals_torchs(shape, stride):
    x, layer = normal(*shape), Depthwise(shape[0], stride).to(DEVICE)
    torch.nn.init.normal_(layer.weight)
    padded = F.pad(x.transpose(0, 1), (1, 1, 1, 1) if stride == 1 else (0, 1, 0, 1))
    expected = F.conv2d(padded, layer.weight, stride=stride, groups=shape[0]).transpose(0, 1)
    y = kernels.Depthwise3x3.apply(x, layer.weight, stride)
    assert_same(y, expected, (x, layer.weight))
    torch.testing.assert_close(layer(x), expected, rtol=1e-4, atol=1e-5)


def test_kernels_are_launched_on_the_device_of_the_tensor(monkeypatch):
    """Not on the current GPU, which may be another."""
    entered, usual = [], torch.cuda.device_of

    def watched(value):
        entered.append(value.device)
        return usual(value)

    monkeypatch.setattr(torch.cuda, "device_of", watched)
    x, weight, scale, shift = normal(2, 2, 2, 2), normal(2, 1, 3, 3), normal(2), normal(2)
    y = kernels.NormReLU6.apply(kernels.Depthwise3x3.apply(x, weight, 1), scale, shift, *statistics(2), 1e-3, 0.1)[0]
    y.sum().backward()
    assert entered == [x.device] * 4


@pytest.mark.parametrize("replicas", [0, 3])
def test_layers_with_the_kernels_are_the_same(replicas, monkeypatch):
    """Outputs, gradients and running statistics, one step in training."""
    nets = [nn.Sequential(Layer(Pointwise(3, 4), 0.3), Layer(Depthwise(4, 2), 0.3)) for _ in range(max(replicas, 1))]
    for number, net in enumerate(nets):
        for parameter in net.to(DEVICE).parameters():
            parameter.data = normal(*parameter.shape, scale=1 + number, shift=0.5).detach()
    x = normal(3, 4, 8, 8)
    found = []
    for own in (None, kernels):
        monkeypatch.setattr(network, "kernels_for", lambda _, own=own: own)
        members = copy.deepcopy(nets)
        if replicas:
            parameters, buffers = stack_module_state(members)
            y = vmap(lambda *state, net=members[0]: functional_call(net, state, (x,)))(parameters, buffers)
            state = {name: value for name, value in buffers.items() if "running" in name}
            weights = list(parameters.values())
        else:
            y = members[0](x)
            state = {name: value for name, value in members[0].named_buffers() if "running" in name}
            weights = list(members[0].parameters())
        of_y = torch.linspace(-1, 1, y.numel(), device=DEVICE).reshape(y.shape)
        found.append((y, torch.autograd.grad(y, weights, of_y), state))
    (y, gradients, state), (own_y, own_gradients, own_state) = found
    torch.testing.assert_close(own_y, y, rtol=1e-3, atol=1e-4)
    for own, expected in zip(own_gradients, gradients, strict=True):
        torch.testing.assert_close(own, expected, rtol=1e-3, atol=1e-3)
    assert len(state) == 4
    for name, expected in state.items():
        torch.testing.assert_close(own_state[name], expected, rtol=1e-3, atol=1e-4)
        assert not torch.equal(expected, torch.zeros_like(expected))


def test_running_statistics_that_would_be_copied_are_refused():
    x, scale, shift = normal(3, 4, 2, 4, 4), normal(3, 4), normal(3, 4)
    step = vmap(lambda *given: kernels.NormReLU6.apply(*given, 1e-3, 0.1), in_dims=(0, 0, 0, 1, 1))
    with pytest.raises(RuntimeError, match="stacked running statistics"):
        step(x, scale, shift, *statistics(4, 3))
    apart = [value[::2] for value in statistics(8)]
    with pytest.raises(ValueError, match="contiguous"):
        kernels.NormReLU6.apply(normal(4, 2, 4, 4), normal(4), normal(4), *apart, 1e-3, 0.1)
    with pytest.raises(ValueError, match="more than one value"):
        kernels.NormReLU6.apply(normal(2, 1, 1, 1), normal(2), normal(2), *statistics(2), 1e-3, 0.1)


def test_depthwise_of_one_pixel():
    x, weight = normal(6, 5, 1, 1), normal(6, 1, 3, 3)
    y = kernels.Depthwise3x3.apply(x, weight, 1)
    assert_same(y, x * weight[:, :, 1:2, 1:2], (x, weight))


def test_vmap_computes_each_replica():
    x, weight = normal(3, 4, 2, 4, 4), normal(3, 4, 1, 3, 3)
    y = vmap(lambda x, weight: kernels.Depthwise3x3.apply(x, weight, 2))(x, weight)
    expected = torch.stack([kernels.Depthwise3x3.apply(x[i], weight[i], 2) for i in range(3)])
    assert_same(y, expected, (x, weight))
    scale, shift = normal(3, 4), normal(3, 4, shift=2)
    running, own = statistics(3, 4), [statistics(4) for _ in range(3)]
    y, mean, _ = vmap(lambda *given: kernels.NormReLU6.apply(*given, 1e-3, 0.1))(x, scale, shift, *running)
    assert_same(y, torch.stack([normed(x[i], scale[i], shift[i], *own[i]) for i in range(3)]), (x, scale, shift))
    assert mean.shape == (3, 4)
    for values, expected in zip(running, zip(*own, strict=True), strict=True):
        torch.testing.assert_close(values, torch.stack(expected), rtol=1e-4, atol=1e-5)

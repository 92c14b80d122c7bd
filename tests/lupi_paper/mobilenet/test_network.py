import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lupi.data import Annotations
from lupi.methods import TRAM
from lupi.nn import Projected, Tower
from lupi.settings import Settings
from lupi.training import Replicas, StackedAnnotations, fit
from lupi_paper.mobilenet import MobileNet, network
from lupi_paper.mobilenet.network import WIDTHS, Depthwise, FirstConvolution, kernels_for


def images(n=3, side=32, seed=0):
    return torch.randint(0, 256, (n, 3, side, side), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def run_by_torch(net, x, train):
    """The same network, by torch's convolutions of [n, channels, height, width] and TensorFlow's padding."""
    y = x.double() / 127.5 - 1
    for layer in net.layers:
        convolution, norm = layer.convolution, layer.norm
        weight = convolution.weight
        if isinstance(convolution, FirstConvolution):
            y = F.conv2d(F.pad(y, (0, 1, 0, 1)), weight.reshape(-1, 3, 3, 3).permute(0, 3, 1, 2), stride=2)
        elif isinstance(convolution, Depthwise) and convolution.stride == 1:
            y = F.conv2d(y, weight, padding=1, groups=y.shape[1])
        elif isinstance(convolution, Depthwise):
            y = F.conv2d(F.pad(y, (0, 1, 0, 1)), weight, stride=2, groups=y.shape[1])
        else:
            y = F.conv2d(y, weight[:, :, None, None])
        mean, variance = norm.running_mean.clone(), norm.running_var.clone()
        y = F.relu6(F.batch_norm(y, mean, variance, norm.weight, norm.bias, train, norm.momentum, norm.eps))
    return y.mean((2, 3))


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(("n", "side"), [(3, 32), (2, 64)])
def test_it_is_mobilenet(train, n, side):
    torch.manual_seed(0)
    net, x = MobileNet(0.25).double().train(train), images(n, side)
    expected = run_by_torch(net, x, train)
    y = net(x)
    assert y.shape == (n, net.features)
    torch.testing.assert_close(y, expected, rtol=1e-9, atol=1e-11)
    of_y = torch.randn(y.shape, dtype=torch.float64)
    parameters = list(net.parameters())
    gradients = torch.autograd.grad(y, parameters, of_y)
    for gradient, other in zip(gradients, torch.autograd.grad(expected, parameters, of_y), strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-6, atol=1e-8)


def test_full_width_has_the_published_size():
    net = MobileNet()
    assert net.features == 1024
    weights = sum(layer.convolution.weight.numel() for layer in net.layers)
    biases = sum(layer.norm.bias.numel() for layer in net.layers)
    assert weights + biases + 1024 * 1000 + 1000 == pytest.approx(4.2e6, rel=0.01)  # as published, in millions


def write_weights(path, width=0.25, leave_out=None):
    rng, channels, arrays = np.random.default_rng(0), int(32 * width), {}

    def put(name, shape, outputs):
        arrays[f"{name}/weight"] = (rng.normal(size=shape) * np.sqrt(2 / np.prod(shape) * outputs)).astype(np.float32)
        arrays[f"{name}/bias"] = rng.normal(size=outputs).astype(np.float32)

    put("Conv2d_0", (channels, 3, 3, 3), channels)
    for number, full in enumerate(WIDTHS, 1):
        put(f"Conv2d_{number}_depthwise", (1, 3, 3, channels), channels)
        put(f"Conv2d_{number}_pointwise", (int(full * width), 1, 1, channels), int(full * width))
        channels = int(full * width)
    arrays.pop(leave_out, None)
    np.savez(path, **arrays)
    return arrays


def test_published_weights_without_batch_norm(tmp_path):
    arrays = write_weights(tmp_path / "weights.npz")
    x = images(20, 64)
    net = MobileNet.from_npz(tmp_path / "weights.npz", x).eval()
    y = x.double() / 127.5 - 1
    names = ["Conv2d_0", *(f"Conv2d_{i}_{kind}" for i in range(1, 14) for kind in ("depthwise", "pointwise"))]
    for name in names:
        weight = torch.from_numpy(arrays[f"{name}/weight"]).double()
        bias = torch.from_numpy(arrays[f"{name}/bias"]).double()
        depthwise = name.endswith("depthwise")
        weight = weight.permute(3, 0, 1, 2) if depthwise else weight.permute(0, 3, 1, 2)
        stride = 2 if name in ("Conv2d_0", *(f"Conv2d_{i}_depthwise" for i in (2, 4, 6, 12))) else 1
        if weight.shape[2] == 3:
            y = F.pad(y, (0, 1, 0, 1) if stride == 2 else (1, 1, 1, 1))
        y = F.relu6(F.conv2d(y, weight, bias, stride=stride, groups=y.shape[1] if depthwise else 1))
    evaluated = net(x)
    torch.testing.assert_close(evaluated.double(), y.mean((2, 3)), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(net.train()(x), evaluated, rtol=1e-3, atol=1e-3)  # the identity on these images


def test_weights_of_something_else_are_refused(tmp_path):
    write_weights(tmp_path / "weights.npz", leave_out="Conv2d_7_pointwise/bias")
    with pytest.raises(ValueError, match=r"weights\.npz .*Conv2d_7_pointwise is missing"):
        MobileNet.from_npz(tmp_path / "weights.npz", images())


def test_weights_of_another_shape_are_refused(tmp_path):
    arrays = write_weights(tmp_path / "weights.npz")
    arrays["Conv2d_3_pointwise/bias"] = np.zeros(5, np.float32)
    np.savez(tmp_path / "weights.npz", **arrays)
    with pytest.raises(ValueError, match=r"Conv2d_3_pointwise of .* 1024 weights and 32 biases, but got 1024 and 5\.$"):
        MobileNet.from_npz(tmp_path / "weights.npz", images())


def test_other_files_are_refused(tmp_path):
    whole = tmp_path / "weights.npz"
    write_weights(whole)
    cut_off = whole.read_bytes()[:2000]
    np.save(tmp_path / "one.npy", np.zeros(3))
    for content in (cut_off, b"words", b"", (tmp_path / "one.npy").read_bytes()):
        whole.write_bytes(content)
        with pytest.raises(ValueError, match=r"weights\.npz .*\.npz file"):
            MobileNet.from_npz(whole, images())


def test_batch_norm_needs_more_than_one_image():
    with pytest.raises(ValueError, match=r"32 × 32 image .*but got one"):
        MobileNet(0.25).train()(images(1))
    assert MobileNet(0.25).train()(images(1, 64)).shape == (1, 256)
    assert MobileNet(0.25).eval()(images(1)).shape == (1, 256)
    assert MobileNet(0.25, momentum=0).train()(images(1)).shape == (1, 256)


def test_sides_are_multiples_of_32():
    with pytest.raises(ValueError, match=r"multiples of 32.*32 × 40"):
        MobileNet(0.25)(torch.zeros(1, 3, 32, 40))


def test_fixed_statistics():
    torch.manual_seed(0)
    net = MobileNet(0.25, momentum=0).train()
    before = copy.deepcopy(net.state_dict())
    y = net(images())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(net.eval()(images()), y)
    follows = MobileNet(0.25, momentum=0.5).train()
    follows(images())
    assert not torch.equal(follows.layers[0].norm.running_mean, torch.zeros(8))
    assert not follows.eval().layers[0].norm.training


def test_replicas_are_the_single_networks():
    torch.manual_seed(0)
    x, n = images(24), 24
    data = Annotations(x, torch.arange(n), torch.randn(n, 2, dtype=torch.float64), torch.randint(0, 3, (n,)))
    methods = [
        TRAM(Projected(MobileNet(0.25), 8), Tower(2, 8, (8, 8)), nn.Linear(8, 3), nn.Linear(8, 3)).double()
        for _ in range(3)
    ]
    alone = copy.deepcopy(methods)
    how = Settings(epochs=2, batch_size=10, optimizer="sgd", learning_rate=0.05)
    together = fit(Replicas(methods), StackedAnnotations([data] * 3), how, seed=[3, 4, 5])
    for number, (one, other) in enumerate(zip(alone, methods, strict=True)):
        history = fit(one, data, how, seed=3 + number)
        assert [row["train_conditional"][number] for row in together] == pytest.approx(
            [row["train_conditional"] for row in history], rel=1e-6
        )
        for name, value in one.state_dict().items():
            torch.testing.assert_close(value, other.state_dict()[name], rtol=1e-5, atol=1e-6)


def test_kernels_are_for_eager_float32_on_a_gpu(monkeypatch):
    monkeypatch.setattr(network, "import_kernels", lambda: "own")
    on_gpu = SimpleNamespace(is_cuda=True, dtype=torch.float32)
    assert kernels_for(on_gpu) == "own"
    assert kernels_for(torch.ones(1)) is None
    assert kernels_for(SimpleNamespace(is_cuda=True, dtype=torch.float64)) is None
    with monkeypatch.context() as changed:
        changed.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
        assert kernels_for(on_gpu) is None
    with monkeypatch.context() as changed:
        changed.setattr(torch.compiler, "is_compiling", lambda: True)
        assert kernels_for(on_gpu) is None

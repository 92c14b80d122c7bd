from types import SimpleNamespace

import torch

from lupi.nn.mobilenet.network import triton_backend as own_kernels


def test_kernels_are_for_single_precision_on_a_gpu(monkeypatch):
    monkeypatch.setattr(own_kernels, "imported", lambda: "own")
    on_gpu = SimpleNamespace(is_cuda=True, dtype=torch.float32)
    assert own_kernels.kernels_for(on_gpu) == "own"
    assert own_kernels.kernels_for(torch.ones(1)) is None
    assert own_kernels.kernels_for(SimpleNamespace(is_cuda=True, dtype=torch.float64)) is None
    with monkeypatch.context() as changed:
        changed.setattr(torch, "is_autocast_enabled", lambda device: device == "cuda")
        assert own_kernels.kernels_for(on_gpu) is None
    with monkeypatch.context() as changed:
        changed.setattr(torch.compiler, "is_compiling", lambda: True)
        assert own_kernels.kernels_for(on_gpu) is None

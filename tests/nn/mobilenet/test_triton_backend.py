from types import SimpleNamespace

import torch

from lupi.nn.mobilenet import triton_backend
from lupi.nn.mobilenet.triton_backend import kernels_for


def test_kernels_are_for_eager_float32_on_a_gpu(monkeypatch):
    monkeypatch.setattr(triton_backend, "import_kernels", lambda: "own")
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

"""Where kernels of our own (`lupi.nn.mobilenet.kernels`) can be used."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import torch
from torch import Tensor


def kernels_for(x: Tensor) -> ModuleType | None:
    """Give the kernels for x, where it lies on a GPU and they can be had; None otherwise."""
    if not x.is_cuda or x.dtype != torch.float32 or torch.is_autocast_enabled("cuda") or torch.compiler.is_compiling():
        return None
    return imported()


@cache
def imported() -> ModuleType | None:
    """Import the kernels; None without Triton."""
    try:
        from lupi.nn.mobilenet import kernels
    except ImportError:
        return None
    return kernels

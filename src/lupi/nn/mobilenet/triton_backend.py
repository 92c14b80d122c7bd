"""Decides whether the Triton kernels (`lupi.nn.mobilenet.kernels`) can be used."""

from __future__ import annotations

from functools import cache
from types import ModuleType

import torch
from torch import Tensor


def kernels_for(x: Tensor) -> ModuleType | None:
    """Return the module of kernels if they apply to x: float32 on a GPU, in eager mode; None otherwise."""
    if not x.is_cuda or x.dtype != torch.float32 or torch.is_autocast_enabled("cuda") or torch.compiler.is_compiling():
        return None
    return import_kernels()


@cache
def import_kernels() -> ModuleType | None:
    """Import the kernels; return None without Triton."""
    try:
        from lupi.nn.mobilenet import kernels
    except ImportError:
        return None
    return kernels

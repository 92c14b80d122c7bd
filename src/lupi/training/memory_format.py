"""The order in which a GPU stores the weights of convolutions."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def channels_last(modules: Sequence[nn.Module], device: torch.device) -> Iterator[None]:
    """Store the weights of 2-D convolutions with channels last while they train on a GPU.

    Its fast kernels need that order in mixed precision. A convolution with such weights converts its input and returns
    its output in the same order, so the input of the network need not change. On exit the weights are contiguous, as
    files of weights need them.
    """
    convolutions = [
        part
        for module in modules
        for part in module.modules()
        if device.type == "cuda" and isinstance(part, nn.Conv2d | nn.ConvTranspose2d)
    ]
    try:
        for part in convolutions:
            part.weight.data = part.weight.data.contiguous(memory_format=torch.channels_last)
        yield
    finally:
        for part in convolutions:
            part.weight.data = part.weight.data.contiguous()

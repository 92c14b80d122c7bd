"""The memory format of convolutions on a GPU."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def channels_last(modules: Sequence[nn.Module], device: torch.device) -> Iterator[None]:
    """Store the weights of 2-D convolutions in the channels-last format while they are trained on a GPU.

    The fast kernels for mixed precision need this format. A convolution with such weights converts its input and
    returns its output in the same format, so the input of the network need not change. On exit the weights are
    contiguous again, as needed to save them.
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

"""Put modules in evaluation mode for a moment."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation(module: nn.Module) -> Iterator[None]:
    """Put a module in evaluation mode and turn gradients off; restore the mode of every submodule on exit."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True

"""A context manager for evaluation mode."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluation(module: nn.Module) -> Iterator[None]:
    """Set a module to evaluation mode and disable gradients; restore the mode of every submodule on exit."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part in training:
            part.training = True

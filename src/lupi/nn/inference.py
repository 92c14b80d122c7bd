"""Apply a module to many rows: in evaluation mode, without gradients, in bounded memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from lupi.data import Annotations, Batch, Rows

ROWS_AT_ONCE = 1024


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


def device_of(module: nn.Module) -> torch.device:
    """Return the device of a module's parameters; the CPU if it has none."""
    return next((parameter.device for parameter in module.parameters()), torch.device("cpu"))


def over_examples(module: nn.Module, x: Rows, size: int = ROWS_AT_ONCE) -> Tensor:
    """Apply a module of x to every row, `size` rows at a time.

    Examples
    --------
    >>> over_examples(nn.Flatten(), torch.ones(3, 2, 2)).shape
    torch.Size([3, 4])
    """
    device = device_of(module)
    with evaluation(module):
        return torch.cat([module(x[index].to(device)) for index in torch.split(torch.arange(x.shape[0]), size)])


def over_annotations(
    module: nn.Module, function: Callable[[Batch], Tensor], data: Annotations, size: int = ROWS_AT_ONCE
) -> Tensor:
    """Apply a method of a module, a function of a batch, to every annotation; the order is that of `data`."""
    device = device_of(module)
    with evaluation(module):
        outputs = [function(data.by_example(part).to(device)) for part in torch.split(data.annotated, size)]
    sorted_by_example = torch.cat(outputs)
    result = torch.empty_like(sorted_by_example)
    result[data.order.to(device)] = sorted_by_example
    return result


def measure_width(trunk: nn.Module, x: Tensor) -> int:
    """Return the number of features that a trunk computes."""
    try:
        shape = over_examples(trunk, x[:1]).shape
    except RuntimeError as error:
        got = f"shape {list(x[:1].shape)} and {x.dtype}"
        raise ValueError(f"Expected `trunk` to accept a row of X of {got}, but it raised: {error}") from error
    if len(shape) != 2:
        raise ValueError(f"Expected `trunk` to map a row of X to features [1, width], but got shape {list(shape)}.")
    return shape[1]

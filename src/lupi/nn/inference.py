"""Apply a module to many rows in evaluation mode, without gradients and in bounded memory."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from lupi._internal.devices import evaluation
from lupi._internal.inputs import Inputs, Request, Source, count_rows, in_memory, map_inputs, read_ahead, take_rows
from lupi._internal.sparse_rows import CodedRows
from lupi.data import Annotations, Batch

ROWS_AT_ONCE = 1024


def device_of(module: nn.Module) -> torch.device:
    """Return the device of a module's parameters; the CPU if it has none."""
    return next((parameter.device for parameter in module.parameters()), torch.device("cpu"))


def over_examples(module: nn.Module, x: Source, size: int = ROWS_AT_ONCE, *, rows: Tensor | None = None) -> Tensor:
    """Apply a module to every row of x, in evaluation mode and without gradients.

    Parameters
    ----------
    module : nn.Module
        A function of inputs, such as a method's predictor.
    x : Tensor, dict of Tensor or source of rows
        The inputs. They are moved to the device of the module.
    size : int
        Number of rows in memory at once.
    rows : Tensor, optional
        Positions of the rows; all by default.

    Examples
    --------
    >>> over_examples(nn.Linear(3, 2), torch.ones(5, 3), size=2).shape
    torch.Size([5, 2])
    """
    if rows is None and isinstance(x, Tensor) and len(x) <= size:
        with evaluation(module):
            return module(x.to(device_of(module)))  # type: ignore[no-any-return]
    index = torch.arange(count_rows(x)) if rows is None else rows
    with evaluation(module):
        return torch.cat([module(inputs) for inputs in read_parts(x, torch.split(index, size), device_of(module))])


def over_annotations(
    module: nn.Module, function: Callable[[Batch], Tensor], data: Annotations, size: int = ROWS_AT_ONCE
) -> Tensor:
    """Apply a function of a batch to every annotation, in evaluation mode and without gradients.

    Parameters
    ----------
    module : nn.Module
        The module that the function uses.
    function : callable
        Maps a `Batch` to one row per annotation, such as `Conditional.conditional_output`.
    data : Annotations
        The annotations, whose order the result has.
    size : int
        Number of examples in memory at once.
    """
    device = device_of(module)
    with evaluation(module):
        sorted_by_example = torch.cat([function(batch.to(device)) for batch in iterate_examples(data, size)])
    result = torch.empty_like(sorted_by_example)
    result[data.order.to(device)] = sorted_by_example
    return result


def take_first(x: Tensor | CodedRows, count: int) -> Tensor:
    """Return the first rows."""
    return x[torch.arange(min(count, x.shape[0]))]


def measure_width(trunk: nn.Module, x: Tensor | CodedRows) -> int:
    """Return the number of features that a trunk computes."""
    row = take_first(x, 1)
    try:
        shape = over_examples(trunk, row).shape
    except RuntimeError as error:
        got = f"shape {list(row.shape)} and {row.dtype}"
        raise ValueError(f"Expected `trunk` to accept a row of X of {got}, but it raised: {error}") from error
    if len(shape) != 2:
        raise ValueError(f"Expected `trunk` to map a row of X to features [1, width], but got shape {list(shape)}.")
    return shape[1]


def iterate_examples(data: Annotations, size: int = ROWS_AT_ONCE) -> Iterator[Batch]:
    """Yield the annotated examples with all of their annotations, `size` examples at a time."""
    parts = torch.split(data.annotated, size)
    for part, x in zip(parts, read_parts(data.x, parts, data.row.device), strict=True):
        yield data.by_example(part, x)


def read_parts(x: Source, parts: tuple[Tensor, ...], device: torch.device) -> Iterator[Inputs]:
    """Yield the rows of x part by part, on a device."""
    if not in_memory(x):
        yield from read_ahead(x, [Request(part) for part in parts], device)
        return
    home = x.device if isinstance(x, Tensor) else next(iter(x.values())).device
    for part in parts:
        yield map_inputs(lambda values: values.to(device), take_rows(x, part.to(home)))

"""The inputs x of a training set: their sources, and how to read rows.

A source is a tensor or a dict of tensors in memory, or `Rows` or a dataset, which are read when they are indexed. This
module hides the difference from all others.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeGuard

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

Inputs = Tensor | dict[str, Tensor]
"""The inputs of a batch: a tensor or, for a network with several inputs, tensors by name."""


class Rows(Protocol):
    """Rows that are read when they are indexed, such as a source larger than memory.

    A source needs a `shape`, and must return a tensor when indexed with a tensor of row numbers, for instance as a thin
    wrapper of `numpy.memmap`. Batches are moved to the device one by one.
    """

    @property
    def shape(self) -> Any:
        """The shape, with the number of rows first."""

    def __getitem__(self, index: Tensor, /) -> Inputs: ...


class Items(Protocol):
    """A map-style dataset, whose items are read one by one: tensors of the same shape, or dicts of such tensors.

    Items may be random, such as random crops, if they use torch's random numbers. Errors name the row of an item that
    cannot be read and, if the dataset has an attribute `paths` with a path for each item, the file.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


Source = Tensor | Rows | Items | Mapping[str, Tensor]
"""The source of the inputs of a training set."""


def in_memory(x: Source) -> TypeGuard[Tensor | Mapping[str, Tensor]]:
    """Return whether x is a tensor or a dict of tensors."""
    return isinstance(x, Tensor | Mapping)


def are_items(x: Source) -> TypeGuard[Items]:
    """Return whether the rows of x are read one by one."""
    return isinstance(x, Dataset) or not (in_memory(x) or hasattr(x, "shape"))


def count_rows(x: Source) -> int:
    """Return the number of rows."""
    if isinstance(x, Mapping):
        counts = {name: len(values) for name, values in x.items()}
        if len(set(counts.values())) != 1:
            raise ValueError(f"Expected the tensors of `x` to have equal numbers of rows, but got {counts}.")
        return next(iter(counts.values()))
    return len(x) if are_items(x) else int(x.shape[0])  # type: ignore[union-attr]


def describe_row(x: Source) -> tuple[Any, ...]:
    """Return the shape of a row, as far as it is known without reading one, for every tensor if there are several."""
    if isinstance(x, Mapping):
        return tuple((name, tuple(values.shape[1:])) for name, values in x.items())
    return () if are_items(x) else tuple(x.shape[1:])  # type: ignore[union-attr]


def take_rows(x: Source, index: Tensor, seed: int | None = None) -> Inputs:
    """Return some rows. `index` is on the device of x if x is in memory, and on the CPU for other sources.

    With a `seed`, torch's global generator is seeded before a source is read, with the seed and, for items, the row.
    The caller restores that generator.
    """
    if isinstance(x, Tensor):
        return x.index_select(0, index)
    if isinstance(x, Mapping):
        return {name: values.index_select(0, index) for name, values in x.items()}
    if are_items(x):
        return collate([read_item(x, row, seed) for row in index.tolist()])
    if seed is not None:
        torch.default_generator.manual_seed(seed)
    return x[index]  # type: ignore[index]


def read_item(x: Items, row: int, seed: int | None) -> Any:
    """Return an item of a dataset, or raise an error that names it."""
    if seed is not None:
        torch.default_generator.manual_seed(zlib.crc32(f"{seed} {row}".encode()))
    try:
        item = x[row]
    except Exception as error:  # whatever the dataset raises
        paths = getattr(x, "paths", None)
        which = f"row {row} of `x`" + ("" if paths is None else f" ({paths[row]})")
        reason = " ".join(str(error).split())
        raise OSError(f"Expected {which} to be readable, but got {type(error).__name__}: {reason}") from error
    for value in item.values() if isinstance(item, Mapping) else [item]:
        if not isinstance(value, Tensor):
            got = f"{type(value).__name__} in row {row}"
            raise ValueError(f"Expected items of `x` to be tensors or dicts of tensors, but got {got}.")
    return item


def collate(items: list[Any]) -> Inputs:
    """Stack the items of a batch, in shared memory if this is a worker process."""
    if isinstance(items[0], Tensor) and len(shapes := {tuple(item.shape) for item in items}) > 1:
        raise ValueError(f"Expected items of `x` to have one shape, but got {', '.join(map(str, sorted(shapes)))}.")
    return default_collate(items)  # type: ignore[no-any-return]


def map_inputs(function: Callable[[Tensor], Tensor], inputs: Inputs | Mapping[str, Tensor]) -> Inputs:
    """Apply a function to every tensor of inputs."""
    if isinstance(inputs, Tensor):
        return function(inputs)
    return {name: function(values) for name, values in inputs.items()}


def move_source(x: Source, device: torch.device | str) -> Source:
    """Move x to a device if it is in memory; return the same object if it is there already, or is another source."""
    if isinstance(x, Tensor):
        return x.to(device)
    if not isinstance(x, Mapping):
        return x
    moved = {name: values.to(device) for name, values in x.items()}
    return x if all(moved[name] is values for name, values in x.items()) else moved


def concatenate(sources: list[Source]) -> Source:
    """Concatenate sources in memory."""
    first = sources[0]
    tensors = [x for x in sources if isinstance(x, Tensor)]
    named = [x for x in sources if isinstance(x, Mapping)]
    if len(tensors) == len(sources):
        return torch.cat(tensors)
    if len(named) == len(sources) and isinstance(first, Mapping):
        return {name: torch.cat([x[name] for x in named]) for name in first}
    raise ValueError("Expected `x` to be in memory, or one source shared by all seeds.")

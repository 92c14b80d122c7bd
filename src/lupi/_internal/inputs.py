"""The inputs x of a training set: their sources, and how to read rows.

A source is a tensor or a dict of tensors in memory, or `Rows` or a dataset, which are read when they are indexed. This
module hides the difference from all others. Inputs that are not in memory are read ahead of time, in worker processes,
and copied to a GPU.
"""

import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, TypeGuard

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, default_collate, get_worker_info

from lupi._internal.devices import seeded
from lupi._internal.sanitizing import one_line

Inputs = Tensor | dict[str, Tensor]
"""The inputs of a batch: a tensor or, for a network with several inputs, tensors by name."""
workers: ContextVar[int] = ContextVar("workers", default=0)
"""Number of worker processes that read inputs; 0 to read them in this process."""


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
    if in_memory(x):
        return map_inputs(lambda values: values.index_select(0, index), x)
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
        reason = one_line(error)
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
    tensors = [x for x in sources if isinstance(x, Tensor)]
    named = [x for x in sources if isinstance(x, Mapping)]
    if len(tensors) == len(sources):
        return torch.cat(tensors)
    if len(named) == len(sources):
        return {name: torch.cat([x[name] for x in named]) for name in named[0]}
    raise ValueError("Expected `x` to be in memory, or one source shared by all seeds.")


# -------------------------------------------------------------------------------- reading ahead


class Request(NamedTuple):
    """The rows of a batch, and the seed for reading them."""

    rows: Tensor
    seed: int = 0


class Failure(NamedTuple):
    """An error in a worker process."""

    kind: type[Exception]
    message: str
    trace: str


class Reader:
    """Read whole batches of a source, in a worker process or in this one."""

    def __init__(self, x: Source) -> None:
        self.x = x

    def __getitem__(self, request: tuple[list[int], int]) -> Inputs | Failure:
        rows, seed = torch.tensor(request[0], dtype=torch.int64), request[1]
        if get_worker_info() is None:
            with seeded(seed):
                return take_rows(self.x, rows, seed)
        try:
            return take_rows(self.x, rows, seed)
        except Exception as error:  # any error of the source; torch would print many lines
            kind = next(kind for kind in (OSError, ValueError, RuntimeError, Exception) if isinstance(error, kind))
            return Failure(kind, str(error), traceback.format_exc())


@contextmanager
def use_workers(number: int) -> Iterator[None]:
    """Read inputs that are not in memory in worker processes, within a block.

    Parameters
    ----------
    number : int
        Number of processes; 0 to read in this one. The results do not depend on it.
    """
    before = workers.set(number)
    try:
        yield
    finally:
        workers.reset(before)


def read_ahead(x: Source, requests: Iterable[Request], device: torch.device) -> Iterator[Inputs]:
    """Yield the inputs of every request on a device, while workers read the next ones.

    The number of workers does not change the result. Random numbers that a source draws from torch are determined by
    the seed of the request.
    """
    number = workers.get()
    if isinstance(requests, list):
        number = min(number, len(requests))
    loader: DataLoader[Any] = DataLoader(
        Reader(x),  # type: ignore[arg-type]
        batch_size=None,  # a request is a batch, which `Reader` collates
        sampler=((request.rows.tolist(), request.seed) for request in requests),
        num_workers=number,
        pin_memory=device.type == "cuda",
        generator=torch.Generator(),  # not torch's global one
    )
    stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
    for inputs in loader if number == 0 else receive(iter(loader)):
        yield map_inputs(lambda values: values.to(device), inputs) if stream is None else copy_in_stream(inputs, stream)


def receive(batches: Any) -> Iterator[Inputs]:
    """Yield the inputs that worker processes read; raise their errors as one sentence."""
    if getattr(batches, "_worker_pids_set", False):  # else torch reports a dead worker anywhere, even at exit
        torch._C._remove_worker_pids(id(batches))
        batches._worker_pids_set = False
    try:
        while True:
            try:
                inputs = next(batches, None)
            except Exception as error:  # a source's errors arrive as a `Failure`
                reason = one_line(error).rstrip(".")
                raise RuntimeError(
                    f"Expected worker processes to read `x`, but one of them died: {reason}. If memory ran out, use "
                    "fewer `workers` or a smaller `batch_size`."
                ) from error
            if inputs is None:
                return
            if isinstance(inputs, Failure):
                failure = inputs.kind(inputs.message)
                failure.add_note(inputs.trace)
                raise failure
            yield inputs
    finally:
        del batches  # ends the workers at once; if garbage collection did it, torch would wait 5 seconds for each


def copy_in_stream(inputs: Inputs, stream: torch.cuda.Stream) -> Inputs:
    """Copy pinned inputs to a GPU while it computes, in a separate stream that the current stream waits for."""
    current = torch.cuda.current_stream(stream.device)
    with torch.cuda.stream(stream):
        copied = map_inputs(lambda values: values.to(stream.device, non_blocking=True), inputs)
    current.wait_stream(stream)
    map_inputs(lambda values: values.record_stream(current) or values, copied)  # type: ignore[func-returns-value]
    return copied

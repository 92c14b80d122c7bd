"""Read inputs that are not in memory ahead of time, in worker processes, and copy them to a GPU."""

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, get_worker_info

from lupi._internal.devices import seeded
from lupi._internal.inputs import Inputs, Source, map_inputs, take_rows

workers: ContextVar[int] = ContextVar("workers", default=0)
"""Number of worker processes that read inputs; 0 to read them in this process."""


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


def pass_through(batch: Any) -> Any:
    """Return a batch unchanged, since `Reader` has collated it."""
    return batch


@contextmanager
def use_workers(number: int) -> Iterator[None]:
    """Read inputs in worker processes within a block."""
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
        batch_size=None,  # a request is a batch
        sampler=((request.rows.tolist(), request.seed) for request in requests),
        num_workers=number,
        collate_fn=pass_through,
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
                reason = " ".join(str(error).split()).rstrip(".")
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

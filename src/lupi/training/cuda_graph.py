"""A training step recorded as a CUDA graph: hundreds of small kernels become one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WARM = 3
"""Steps of each batch shape that run as usual before one is recorded: they allocate what lasts, such as momenta."""


class Recorded:
    """Takes a step, a function of the indices of a batch, by recording it for each shape of them and replaying that.

    The steps before the recording are ordinary ones, so that a replayed training is the same training. What a step
    returns is overwritten by the next one of its shape.

    Parameters
    ----------
    device : torch.device or str
        The GPU.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.taken: dict[torch.Size, int] = {}
        self.graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor, Any]] = {}

    def __call__(self, step: Callable[[Tensor], Any], index: Tensor) -> Any:
        """Take a step, the same one in every call.

        It may not wait for the GPU, nor depend on the values of a tensor. It is not kept: what it belongs to, and the
        memory of that, would wait for the garbage collector.
        """
        shape = index.shape
        with torch.cuda.device(self.device):  # whose kernels a graph of its stream records
            if self.taken.setdefault(shape, 0) < WARM:
                self.taken[shape] += 1
                return self.as_usual(step, index)
            if shape not in self.graphs:
                self.graphs[shape] = self.record(step, index)
            graph, static, result = self.graphs[shape]
            static.copy_(index)
            graph.replay()
            return result

    def as_usual(self, step: Callable[[Tensor], Any], index: Tensor) -> Any:
        """Take a step without a graph, on the stream that graphs are recorded on."""
        before = torch.cuda.current_stream()
        self.stream.wait_stream(before)
        with torch.cuda.stream(self.stream):
            result = step(index)
        before.wait_stream(self.stream)
        return result

    def record(self, step: Callable[[Tensor], Any], index: Tensor) -> tuple[torch.cuda.CUDAGraph, Tensor, Any]:
        """Record a step, which does not take it."""
        graph, static = torch.cuda.CUDAGraph(), index.clone()
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                result = step(static)
        except RuntimeError as error:  # what a recording that is broken off says, whatever broke it off
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        return graph, static, result

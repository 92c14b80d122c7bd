"""A training step recorded as a CUDA graph: one launch instead of hundreds of small kernels."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WARM = 3
"""Eager steps per batch shape before recording: they allocate what persists, such as momenta."""


class GraphedSteps:
    """Takes steps, functions of some tensors: eagerly at first, then by replaying a graph per shape of the first.

    The eager steps are ordinary training steps, so a replayed training equals an eager one. The next step of the same
    shape overwrites what a step returns.

    Parameters
    ----------
    device : torch.device or str
        The GPU.
    generator : torch.Generator
        What steps draw their random numbers from; every replay draws new ones.
    """

    def __init__(self, device: torch.device | str, generator: torch.Generator) -> None:
        self.device, self.generator = device, generator
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.taken: dict[torch.Size, int] = {}
        self.graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Any]] = {}

    def __call__(self, step: Callable[..., Any], *inputs: Tensor) -> Any:
        """Take a step; every call gets the same function and tensors of the same kind.

        It must neither synchronise with the GPU nor depend on the values of a tensor. No reference to it is kept,
        which would delay freeing its memory until the garbage collector runs.
        """
        shape = inputs[0].shape
        with torch.cuda.device(self.device):
            if self.taken.setdefault(shape, 0) < WARM:
                self.taken[shape] += 1
                return self.run_eagerly(step, *inputs)
            if shape not in self.graphs:
                self.graphs[shape] = self.record(step, *inputs)
            graph, static, result = self.graphs[shape]
            for place, value in zip(static, inputs, strict=True):
                place.copy_(value)
            graph.replay()
            return result

    def run_eagerly(self, step: Callable[..., Any], *inputs: Tensor) -> Any:
        """Take a step without a graph, on the stream on which graphs are recorded."""
        before = torch.cuda.current_stream()
        self.stream.wait_stream(before)
        with torch.cuda.stream(self.stream):
            result = step(*inputs)
        before.wait_stream(self.stream)
        return result

    def record(self, step: Callable[..., Any], *inputs: Tensor) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Any]:
        """Record a step without taking it."""
        graph, static = torch.cuda.CUDAGraph(), tuple(value.clone() for value in inputs)
        graph.register_generator_state(self.generator)
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                result = step(*static)
        except RuntimeError as error:  # raised by a recording that breaks off, whatever the cause
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        return graph, static, result

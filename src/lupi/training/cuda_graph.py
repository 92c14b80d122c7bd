"""A training step recorded as a CUDA graph: one launch instead of hundreds of small kernels."""

import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WARM = 3
"""Eager steps per batch shape before recording: they allocate what persists, such as momenta."""


SMALL = 10_000_000
"""Steps of networks of up to this number of parameters are recorded by default; larger ones keep a GPU busy."""


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
    watched : torch.Generator, optional
        If given, steps are recorded only if that is possible: if they do not wait for the GPU, and take no random
        numbers from this generator of the CPU, whose values a graph would repeat.
    """

    def __init__(
        self, device: torch.device | str, generator: torch.Generator, watched: torch.Generator | None = None
    ) -> None:
        self.device, self.generator, self.watched = device, generator, watched
        self.refused = False
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
            taken = self.taken.get(shape, 0)
            if self.refused or taken < WARM:
                self.taken[shape] = taken + 1
                doubtful = self.watched is not None and taken == WARM - 1
                return self.try_out(step, *inputs) if doubtful else self.run_eagerly(step, *inputs)
            if shape not in self.graphs:
                try:
                    self.graphs[shape] = self.record(step, *inputs)
                except RuntimeError:
                    if self.watched is None:
                        raise
                    self.refused = True
                    return self.run_eagerly(step, *inputs)
            graph, static, result = self.graphs[shape]
            for place, value in zip(static, inputs, strict=True):
                place.copy_(value)
            graph.replay()
            return result

    @property
    def recorded(self) -> bool:
        """Whether steps are replayed."""
        return bool(self.graphs) and not self.refused

    def try_out(self, step: Callable[..., Any], *inputs: Tensor) -> Any:
        """Take a step without a graph, and refuse to record further ones if it does what a graph cannot."""
        assert self.watched is not None
        states, mode = (self.watched.get_state(), random.getstate()), torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                result = self.run_eagerly(step, *inputs)
            finally:
                torch.cuda.set_sync_debug_mode(mode)
        for warning in caught:
            if "synchronizing CUDA operation" in str(warning.message):
                self.refused = True
            elif "ynchronization debug mode" not in str(warning.message):
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        if not torch.equal(self.watched.get_state(), states[0]) or random.getstate() != states[1]:
            self.refused = True
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

"""Record a training step as a CUDA graph: one launch instead of hundreds of small kernels."""

import random
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

EAGER_STEPS = 3
"""Number of eager steps per batch shape before recording; they allocate persistent tensors such as momenta."""


MAX_RECORDED_PARAMETERS = 10_000_000
"""Maximum number of parameters of a network whose steps are recorded by default; larger ones keep a GPU busy anyway."""


class GraphedSteps:
    """Run training steps, first eagerly and then by replaying a CUDA graph for each shape of the first input.

    The eager steps are ordinary training steps, so replayed training equals eager training. The result of a step is
    overwritten by the next step with the same shape.
    """

    def __init__(self, device: torch.device | str, *, only_if_possible: bool = False) -> None:
        self.device, self.only_if_possible = device, only_if_possible
        self.refused = False
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.taken: dict[torch.Size, int] = {}
        self.graphs: dict[torch.Size, tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Any]] = {}

    def __call__(self, step: Callable[..., Any], *inputs: Tensor) -> Any:
        """Run a step. Every call must pass the same function, and tensors of the same kinds.

        The step must neither synchronize with the GPU nor depend on the values of a tensor. No reference to it is kept,
        because that would delay freeing its memory until the garbage collector runs.
        """
        shape = inputs[0].shape
        with torch.cuda.device(self.device):
            taken = self.taken.get(shape, 0)
            if self.refused or taken < EAGER_STEPS:
                self.taken[shape] = taken + 1
                doubtful = self.only_if_possible and taken == EAGER_STEPS - 1
                return self.try_out(step, *inputs) if doubtful else self.run_eagerly(step, *inputs)
            if shape not in self.graphs:
                try:
                    self.graphs[shape] = self.record(step, *inputs)
                except RuntimeError:
                    if not self.only_if_possible:
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
        """Run a step eagerly, and disable recording if the step does something that a graph cannot."""
        states, mode = (torch.get_rng_state(), random.getstate()), torch.cuda.get_sync_debug_mode()
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
        if not torch.equal(torch.get_rng_state(), states[0]) or random.getstate() != states[1]:
            self.refused = True
        return result

    def run_eagerly(self, step: Callable[..., Any], *inputs: Tensor) -> Any:
        """Run a step eagerly, on the stream on which graphs are recorded."""
        before = torch.cuda.current_stream()
        self.stream.wait_stream(before)
        with torch.cuda.stream(self.stream):
            result = step(*inputs)
        before.wait_stream(self.stream)
        return result

    def record(self, step: Callable[..., Any], *inputs: Tensor) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...], Any]:
        """Record a step without running it."""
        graph, static = torch.cuda.CUDAGraph(), tuple(value.clone() for value in inputs)
        try:
            with torch.cuda.graph(graph, stream=self.stream):
                result = step(*static)
        except RuntimeError as error:  # raised when recording fails, whatever the cause
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        return graph, static, result

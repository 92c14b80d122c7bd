"""Twenty seeds of the paper's synthetic regression, one after another against together as replicas.

Both sides are whole calls of `lupi.training.fit` for one epoch. Compiled code is cached, so the first round, a warm-up,
compiles it; that is measured in wall-clock time, since other processes do the work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import torch
from torch import nn

from benchmarks.measure import Result, at_least, ratio
from lupi.data import Annotations
from lupi.likelihoods import Gaussian
from lupi.methods import Method, build
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training import Replicas, StackedAnnotations, fit

SEEDS, ROWS, BATCH, ROUNDS = 20, 2500, 32, 12


def results() -> Iterator[Result]:
    sets = [regression(seed) for seed in range(SEEDS)]
    together = StackedAnnotations(sets)
    eager, compiled = (Settings(epochs=1, batch_size=BATCH, compile=choice) for choice in (False, True))
    for name, title in (("no-pi", "No PI"), ("tram", "TRAM")):
        alone, replicas = methods(name), Replicas(methods(name))

        def one_by_one(alone: list[Method] = alone) -> None:
            for seed, (method, data) in enumerate(zip(alone, sets, strict=True)):
                fit(method, data, eager, seed=seed)

        def at_once(settings: Settings, replicas: Replicas = replicas) -> None:
            fit(replicas, together, settings, seed=range(SEEDS))

        value = ratio(one_by_one, partial(at_once, eager), ROUNDS)
        yield at_least(f"one after another / {SEEDS} replicas, {title}, eager", value, 3)
        first, second = (wall_clock(partial(at_once, compiled)) for _ in range(2))
        value = ratio(one_by_one, partial(at_once, compiled), ROUNDS)
        remark = f"after {first - second:.0f} s of compilation"
        yield at_least(f"one after another / {SEEDS} replicas, {title}, compiled", value, 5, remark)


def wall_clock(work: partial[None]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def regression(seed: int) -> Annotations:
    """Draw the data: with A = 0 the label is x, with A = 1 it is noise."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(ROWS, 1, generator=generator)
    a = torch.randint(2, (ROWS, 1), generator=generator).float()
    noise = torch.randn(ROWS, generator=generator)
    return Annotations(x, torch.arange(ROWS), a, torch.where(a[:, 0] == 1, noise, x[:, 0]))


def methods(name: str) -> list[Method]:
    """Make the method of every seed, on a 64-64 trunk."""
    torch.manual_seed(0)
    trunk = partial(MLP, 1, (64, 64), activation=nn.Tanh)
    parts = Parts(trunk, features=64, privileged=1, outputs=1, likelihood=Gaussian())
    return [build(name, parts) for _ in range(SEEDS)]

"""The speed of training MobileNet on a GPU, with and without each optimization.

``python -m benchmarks.images throughput`` or ``ratios``.

Wall-clock time with the sizes of CIFAR-10H: 32 × 32 images, 102 privileged features of which three are 1, 10 classes,
batches of 64, Adam. Throughput is that of whole calls of `lupi.training.fit`, including all that comes before the first
step; ratios are those of steps in the middle of a training, including the ends of epochs. On a CPU everything is
smaller, and only shows that it runs.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from itertools import islice
from typing import Any
from unittest import mock

import torch
from torch import nn

from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Categorical
from lupi.methods import Method, build
from lupi.nn import Parts, Projected
from lupi.settings import Settings
from lupi.training import Replicas, StackedAnnotations, fit
from lupi.training.fitting import iterate_stages
from lupi.training.loop import StageLoop, Training
from lupi.training.replicas import Data
from lupi.training.stepper import OneDevice, matrix_precision
from lupi_paper.mobilenet import MobileNet, network

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
BATCH, SEEDS, STEPS, WIDTH = (64, 20, 200, 1.0) if GPU else (8, 4, 2, 0.25)
PRIVILEGED, CLASSES = (82, 10, 10), 10
"""Annotators, and quantiles of reaction time and of the number of labels before, all one-hot; classes."""


def main(parts: list[str]) -> None:
    name = torch.cuda.get_device_name() if GPU else "CPU"
    print(f"torch {torch.__version__}, {name}; batches of {BATCH}, {SEEDS} replicas")
    named = {"throughput": throughputs, "ratios": ratios}
    for part in parts or named:
        named[part]()


def throughputs() -> None:
    print("\n| training | annotations a second | against one eager run |\n|---|---|---|")
    first = 0.0
    for title, seeds, own, changes in VARIANTS:
        with kernels(own):
            rate = throughput("no-pi", seeds, Settings(epochs=1, batch_size=BATCH, **changes))
        first = first or rate
        print(f"| {title} | {rate:,.0f} | {rate / first:.1f}× |", flush=True)


def ratios() -> None:
    print("\n| ratio | median | quartiles |\n|---|---|---|")
    for title, seeds, turns, each, changes in STEPPED:
        endless = Settings(epochs=10**6, **{"batch_size": BATCH, "precision": "tfloat32", **changes})
        with matrix_precision(endless.precision):
            tram, no_pi = (stepping(steps(method, seeds, endless), each) for method in ("tram", "no-pi"))
            print(f"| step, TRAM / No PI, {title} | {ratio(tram, no_pi, turns)} |", flush=True)
    x = torch.randint(0, 256, (1024, 3, 32, 32), dtype=torch.uint8, device=DEVICE)
    predictors = [make(method, 1)[0].to(DEVICE).eval().predictor() for method in ("tram", "no-pi")]
    tram, no_pi = (predicting(predictor, x) for predictor in predictors)
    print(f"| predictor, TRAM / No PI, 1024 images | {ratio(tram, no_pi, 40)} |")


VARIANTS: list[tuple[str, int, bool, dict[str, Any]]] = [
    ("one run, eager", 1, False, {"cuda_graph": False}),
    ("one run, CUDA graph, own kernels", 1, True, {"cuda_graph": True}),
    (f"{SEEDS} replicas, eager", SEEDS, False, {"cuda_graph": False}),
    (f"{SEEDS} replicas, CUDA graph", SEEDS, False, {"cuda_graph": True}),
    (f"{SEEDS} replicas, CUDA graph, own kernels", SEEDS, True, {"cuda_graph": True}),
    (
        f"{SEEDS} replicas, CUDA graph, own kernels, tfloat32",
        SEEDS,
        True,
        {"cuda_graph": True, "precision": "tfloat32"},
    ),
]
LARGE = 4 * BATCH
STEPPED: list[tuple[str, int, int, int, dict[str, Any]]] = [
    (f"{SEEDS} replicas, CUDA graph", SEEDS, 12, STEPS, {"cuda_graph": True}),
    ("one run, CUDA graph", 1, 12, STEPS, {"cuda_graph": True}),
    (f"one run, CUDA graph, batches of {LARGE}", 1, 12, STEPS, {"cuda_graph": True, "batch_size": LARGE}),
    ("one run, eager", 1, 200, 3, {"cuda_graph": False}),
]
"""Name, replicas, turns, steps in each, and settings. What is eager waits for the CPU, whose speed varies."""


def kernels(own: bool) -> AbstractContextManager[object]:
    """Enable or disable the Triton kernels."""
    return nullcontext() if own else mock.patch.object(network, "import_kernels", import_nothing)


def import_nothing() -> None:
    """Stand in for `network.import_kernels`."""


def data() -> Annotations:
    """Return one annotation for each of the images of `STEPS` batches."""
    n, generator = STEPS * BATCH, torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (n, 3, 32, 32), generator=generator, dtype=torch.uint8)
    columns = [torch.randint(0, width, (n,), generator=generator, dtype=torch.int32) for width in PRIVILEGED]
    index = torch.stack([column + sum(PRIVILEGED[:place]) for place, column in enumerate(columns)], 1)
    a = SparseRows(index, torch.ones(index.shape), sum(PRIVILEGED))
    y = torch.randint(0, CLASSES, (n,), generator=generator)
    return Annotations(x, torch.arange(n), a, y).to(DEVICE)


def make(name: str, seeds: int) -> list[Method]:
    torch.manual_seed(0)
    parts = Parts(
        lambda: Projected(MobileNet(WIDTH), 64),
        features=64,
        privileged=sum(PRIVILEGED),
        outputs=CLASSES,
        likelihood=Categorical(),
    )
    return [build(name, parts) for _ in range(seeds)]


def training(name: str, seeds: int, settings: Settings) -> Callable[[], None]:
    """Return a function that trains for an epoch."""
    members, rows = make(name, seeds), data()

    def work() -> None:
        if seeds == 1:
            fit(members[0], rows, settings, device=DEVICE)
        else:
            fit(Replicas(members), StackedAnnotations([rows] * seeds), settings, seed=range(seeds), device=DEVICE)

    return work


def steps(name: str, seeds: int, settings: Settings) -> Iterator[int]:
    """Train, as `fit` does, and yield after every step."""
    members, rows = make(name, seeds), data()
    method: Method = members[0]
    training_set: Data = rows
    if seeds > 1:
        method, training_set = Replicas(members), StackedAnnotations([rows] * seeds)
    method.to(DEVICE).observe(training_set)  # type: ignore[arg-type] # `Replicas` take `StackedAnnotations`
    shared = Training(
        method=method,
        data=training_set,
        validation=None,
        settings=settings,
        place=OneDevice(DEVICE, settings.precision),
        seeds=list(range(seeds)),
        history=[],
    )
    with closing(iterate_stages(shared)) as stages:
        stage, _ = next(stages)
        yield from StageLoop(shared, stage, 0).steps()


def stepping(steps: Iterator[int], count: int) -> Callable[[], None]:
    """Return a function that takes the next steps."""

    def work() -> None:
        for _ in islice(steps, count):
            pass

    return work


def predicting(predictor: nn.Module, x: torch.Tensor) -> Callable[[], None]:
    """Return a function that predicts the same images repeatedly."""

    def work() -> None:
        with torch.no_grad():
            for _ in range(20 if GPU else 1):
                predictor(x)

    return work


def throughput(name: str, seeds: int, settings: Settings) -> float:
    """Return annotations per second of all seeds together, after one epoch of warm-up."""
    work = training(name, seeds, settings)
    work()
    return seeds * STEPS * BATCH / min(seconds(work) for _ in range(2))


def ratio(one: Callable[[], None], other: Callable[[], None], turns: int) -> str:
    """Return median and quartiles of the ratio of two times, measured in turns."""
    for work in (one, other):
        work()
    found = []
    for number in range(turns if GPU else 2):
        pair = (one, other) if number % 2 else (other, one)
        taken = {work: seconds(work) for work in pair}
        found.append(taken[one] / taken[other])
    low, median, high = statistics.quantiles(found, n=4)
    return f"{median:.3f} | {low:.3f} to {high:.3f}"


def seconds(work: Callable[[], None]) -> float:
    """Return wall-clock time, including work that is left to the GPU."""
    start = time.monotonic()
    work()
    if GPU:
        torch.cuda.synchronize()
    return time.monotonic() - start


if __name__ == "__main__":
    main(sys.argv[1:])

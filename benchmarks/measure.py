"""Time two things side by side."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

THREADS = 1


class Result(NamedTuple):
    """One line of the table."""

    name: str
    measured: str
    goal: str
    reached: bool
    remark: str = ""


def ratio(a: Callable[[], object], b: Callable[[], object], rounds: int) -> float:
    """Median over rounds of the time of a over the time of b."""
    return statistics.median(first / second for first, second in times(a, b, rounds))


def times(a: Callable[[], object], b: Callable[[], object], rounds: int) -> list[tuple[float, float]]:
    """Processor seconds of a and b in every round; they take turns in going first, and a first round warms up."""
    torch.set_num_threads(THREADS)
    for work in (a, b):
        work()
    pairs = []
    gc.disable()
    try:
        for number in range(rounds):
            if number % 2:
                second, first = seconds(b), seconds(a)
            else:
                first, second = seconds(a), seconds(b)
            pairs.append((first, second))
    finally:
        gc.enable()
    return pairs


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this process, which other processes on the machine disturb less than the wall clock."""
    start = time.process_time()
    work()
    return time.process_time() - start


def at_most(name: str, value: float, goal: float, remark: str = "") -> Result:
    """A ratio that should be small."""
    return Result(name, f"{value:.2f}", f"≤ {goal:.2f}", round(value, 2) <= goal, remark)


def at_least(name: str, value: float, goal: float, remark: str = "") -> Result:
    """A ratio that should be large."""
    return Result(name, f"{value:.1f}×", f"≥ {goal:g}×", value >= goal, remark)

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
    reached: bool | None
    remark: str = ""


class Ratio(NamedTuple):
    """Median and quartiles of a ratio over rounds."""

    median: float
    low: float
    high: float


def ratio(a: Callable[[], object], b: Callable[[], object], rounds: int, scale: float = 1.0) -> Ratio:
    """Return median and quartiles over rounds of the time of a over that of b, times a scale."""
    low, median, high = statistics.quantiles((scale * first / second for first, second in times(a, b, rounds)), n=4)
    return Ratio(median, low, high)


def times(a: Callable[[], object], b: Callable[[], object], rounds: int) -> list[tuple[float, float]]:
    """Return processor seconds of a and b in every round, alternating which goes first, after a warm-up."""
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
    """Return processor time, which other processes disturb less than wall-clock time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def at_most(name: str, value: Ratio, goal: float | None, remark: str = "") -> Result:
    """Return the result for a ratio that should be small; without a goal it is for comparison only."""
    spread = f"quartiles {value.low:.2f} to {value.high:.2f}"
    aim, reached = ("", None) if goal is None else (f"≤ {goal:.2f}", round(value.median, 2) <= goal)
    return Result(name, f"{value.median:.2f}", aim, reached, join(spread, remark))


def at_least(name: str, value: Ratio, goal: float | None, remark: str = "") -> Result:
    """Return the result for a ratio that should be large; without a goal it is for comparison only."""
    spread = f"quartiles {value.low:.1f} to {value.high:.1f}"
    aim, reached = ("", None) if goal is None else (f"≥ {goal:g}×", value.median >= goal)
    return Result(name, f"{value.median:.1f}×", aim, reached, join(spread, remark))


def join(*remarks: str) -> str:
    """Join remarks that are not empty."""
    return "; ".join(remark for remark in remarks if remark)

"""Full marginalization over 16,400 rows of a, against running the tower on every pair of row and example."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.measure import THREADS, Result, at_least, ratio
from benchmarks.networks import one_hot
from lupi.data import Annotations, Batch, SparseRows
from lupi.likelihoods import Categorical
from lupi.methods.marginalization import FullMarginalization
from lupi.nn import MLP, Tower

ROWS, CATEGORIES = 16_400, (82, 10, 10)
EXAMPLES, FEATURES, CLASSES = 1_000, 64, 10
TIMED = 200
"""Number of rows with which the naive average is timed; its time is linear in them."""
MEGABYTES = 300


def results() -> Iterator[Result]:
    fitted, a, x = fitted_method()
    predictor = fitted.predictor().eval()
    assert isinstance(a, SparseRows)
    some = a[torch.arange(TIMED)]
    with torch.no_grad():
        value = ratio(lambda: naive(fitted, x, some), lambda: predictor(x), rounds=7, scale=ROWS / TIMED)
        yield at_least(
            "full marginalization, naive / ours",
            value,
            50,
            f"{ROWS} rows ({fitted.weight.shape[0]} distinct) × {EXAMPLES} examples, q(y|x,a) for every row; "
            f"naive timed on {TIMED} rows, scaled linearly",
        )
        value = ratio(lambda: less_naive(fitted, x, some), lambda: predictor(x), rounds=7, scale=ROWS / TIMED)
        yield at_least("full marginalization, naive with φ(x) computed once / ours", value, None)
        part = x[:20]
        expected = naive(fitted, part, a[torch.arange(ROWS)])
        difference = float((predictor(part).softmax(-1) - expected).abs().max())
    yield Result("full marginalization, largest error", f"{difference:.1e}", "≤ 1e-5", difference <= 1e-5)
    growth = memory()
    yield Result("full marginalization, memory", f"{growth:.0f} MB", f"≤ {MEGABYTES} MB", growth <= MEGABYTES)


def fitted_method() -> tuple[FullMarginalization, SparseRows, Tensor]:
    """Return a method that has observed the rows of a, those rows, and x; timing needs no trained weights."""
    torch.manual_seed(0)
    a = one_hot(ROWS, CATEGORIES)
    tower, head = Tower(sum(CATEGORIES), FEATURES), nn.Linear(64, CLASSES)
    nn.init.normal_(head.weight)  # so that the rows of a predict differently
    fitted = FullMarginalization(MLP(FEATURES, (64, 64)), tower, head, likelihood=Categorical())
    x = torch.randn(EXAMPLES, FEATURES)
    data = Annotations(torch.zeros(1, FEATURES), torch.zeros(ROWS, dtype=torch.long), a, torch.zeros(ROWS).long())
    fitted.observe(data)
    return fitted, a, x


def naive(fitted: FullMarginalization, x: Tensor, a: Tensor) -> Tensor:
    """Run the network for all examples with one row of a after the other, and average the probabilities."""
    total = x.new_zeros(x.shape[0], CLASSES)
    row = torch.arange(x.shape[0])
    for one in a:
        total += fitted.conditional_output(Batch(x, row, one.expand(x.shape[0], -1), row)).softmax(-1)
    return total / a.shape[0]


def less_naive(fitted: FullMarginalization, x: Tensor, a: Tensor, pairs_at_once: int = 1000) -> Tensor:
    """Pair every example with every row of a, and average the probabilities; a thousand pairs at once are fastest."""
    features: Tensor = fitted.trunk(x)
    total = features.new_zeros(x.shape[0], CLASSES)
    for rows in a.split(max(1, pairs_at_once // x.shape[0])):
        pairs = features.repeat(rows.shape[0], 1), rows.repeat_interleave(x.shape[0], 0)
        output = fitted.conditional(fitted.tower(*pairs))
        total += output.softmax(-1).view(rows.shape[0], x.shape[0], CLASSES).sum(0)
    return total / a.shape[0]


def memory() -> float:
    """Return by how many megabytes a new process grows when it makes and runs the predictor."""
    command = [sys.executable, "-c", "from benchmarks import marginalization; marginalization.print_growth()"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def print_growth() -> None:
    torch.set_num_threads(THREADS)
    fitted, _, x = fitted_method()
    tiny = FullMarginalization(fitted.trunk, fitted.tower, fitted.conditional)
    with torch.no_grad():
        tiny.predictor().eval()(x[:1])  # loads what torch loads on first use
        before = largest_memory()
        fitted.predictor().eval()(x)
    print((largest_memory() - before) / 2**20)


def largest_memory() -> int:
    """Return the peak memory of this process in bytes (Linux)."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024

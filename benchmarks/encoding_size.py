"""What encoded privileged information takes in memory, at the size of CIFAR-10H."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Result
from benchmarks.networks import one_hot

ANNOTATIONS, ANNOTATORS, QUANTILES = 514_200, 2_571, 10


def results() -> Iterator[Result]:
    rows = one_hot(ANNOTATIONS, (ANNOTATORS, QUANTILES, QUANTILES))
    stored = sum(part.element_size() * part.nelement() for part in (rows.index, rows.value))
    dense = 4 * rows.shape[0] * rows.shape[1]
    yield Result(
        "one-hot privileged information, stored",
        f"{stored / 1e6:.1f} MB",
        "< dense",
        stored < dense,
        f"{ANNOTATIONS} × {rows.width}: {dense / 1e6:.0f} MB as dense float32, {dense / stored:.0f} times as much",
    )

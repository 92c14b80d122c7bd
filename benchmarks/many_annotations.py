"""An example stored once with 50 annotations, against 50 copies of the example."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from benchmarks.measure import Result, at_least, ratio
from benchmarks.networks import draw_annotations, method
from lupi.settings import Settings
from lupi.training import fit

EXAMPLES, EACH = 8, 50
STEPS = 10
"""Number of steps that are timed together, since one is short."""


def results() -> Iterator[Result]:
    once = draw_annotations("conv", EXAMPLES, EACH)
    assert isinstance(once.x, Tensor)
    repeated = replace(once, x=once.x[once.row], row=torch.arange(len(once)))
    by_example = Settings(epochs=STEPS, batch_size=EXAMPLES, draw="examples")
    by_annotation = Settings(epochs=1, batch_size=len(once))
    tram = method("tram", "conv")
    faster = ratio(
        lambda: fit(tram, repeated, by_annotation), lambda: fit(tram, once, by_example), rounds=12, scale=STEPS
    )
    yield at_least(f"TRAM step, {EXAMPLES} images × {EACH} annotations, x repeated / x once", faster, 10)

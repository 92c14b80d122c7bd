"""A training step of TRAM against one of No PI: draw a batch, losses, backward, fused Adam."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.measure import Ratio, Result, at_most, ratio
from benchmarks.networks import Trunk, draw_annotations, method
from lupi.settings import Settings
from lupi.training import fit

BATCH = 64


def results() -> Iterator[Result]:
    yield at_most("training step, TRAM / No PI, conv trunk", tram_to_no_pi("conv", steps=3, rounds=24), 1.10)
    yield at_most("training step, TRAM / No PI, 64-64 MLP", tram_to_no_pi("MLP", steps=60, rounds=60), 1.50)


def tram_to_no_pi(trunk: Trunk, steps: int, rounds: int) -> Ratio:
    data, settings = draw_annotations(trunk, steps * BATCH), Settings(epochs=1, batch_size=BATCH)
    tram, no_pi = method("tram", trunk), method("no-pi", trunk)
    return ratio(lambda: fit(tram, data, settings), lambda: fit(no_pi, data, settings), rounds)

"""A prediction of TRAM and of auto against one of No PI: the exported graphs are equal, so the ratio should be 1."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.measure import Result, ratio
from benchmarks.networks import INPUTS, Trunk, method

ROWS = 64
NOISE = 0.03
TITLES = {"tram": "TRAM", "auto": "auto"}


def results() -> Iterator[Result]:
    for name in ("tram", "auto"):
        yield compare_to_no_pi(name, "conv", calls=2, rounds=40)
        yield compare_to_no_pi(name, "MLP", calls=200, rounds=60)


def compare_to_no_pi(name: str, trunk: Trunk, calls: int, rounds: int) -> Result:
    own, no_pi = (method(name, trunk).predictor().eval() for name in (name, "no-pi"))
    x = torch.randn(ROWS, *INPUTS[trunk])

    def predict(predictor: torch.nn.Module) -> None:
        for _ in range(calls):
            predictor(x)

    with torch.inference_mode():
        value = ratio(lambda: predict(own), lambda: predict(no_pi), rounds)
    same = graph(own, x) == graph(no_pi, x)
    graphs = "exported graphs are equal" if same else "exported graphs differ"
    return Result(
        f"predictor, {TITLES[name]} / No PI, {trunk} trunk",
        f"{value.median:.2f}",
        f"1.00 ± {NOISE}",
        same and abs(value.median - 1) <= NOISE,
        f"quartiles {value.low:.2f} to {value.high:.2f}; {graphs}",
    )


def graph(module: torch.nn.Module, x: torch.Tensor) -> str:
    """Return the exported program as text."""
    return str(torch.export.export(module, (x,)).graph)

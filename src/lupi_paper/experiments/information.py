"""Information of a about y given x in the synthetic process: exact, by the paper's bins, and from data.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), the table of I(y; a | x) in the appendix that varies ε.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lupi.diagnose import estimate_information
from lupi_paper.findings import COLOURS, Findings, make_figure, render_report
from lupi_paper.progress import show_progress
from lupi_paper.settings import check_number, check_settings
from lupi_paper.theory import binned_information, draw_synthetic, exact_information
from lupi_paper.theory.information import check_noise

PAPER = {0.1: 0.408, 0.5: 0.150, 1.0: 0.059, 1.5: 0.034, 2.0: 0.024}
"""The paper's estimate by ε, in nats."""
FEWER = (100, 30, 10, 3, 1)
"""Factors by which samples for the bins are made smaller, to show the bias."""


@dataclass(frozen=True)
class Settings:
    """Noise, and sizes of samples."""

    seed: int = 0
    noise: tuple[float, ...] = (0.1, 0.5, 1.0, 1.5, 2.0)
    seeds: int = 5
    sample: int = 1_000_000
    bins: int = 200
    annotations: int = 20_000
    folds: int = 3

    def __post_init__(self) -> None:
        least = {"seed": 0, "seeds": 2, "sample": 1000, "bins": 2, "folds": 2}
        check_settings(self, least, positive=["noise"])
        for noise in self.noise:
            check_noise(noise)
        check_number("annotations", self.annotations, 10 * self.folds, whole=True)


def run(settings: Settings, *, progress: bool) -> Findings:
    """Compute I(y; a | x) in all ways."""
    measured: list[dict[str, Any]] = []
    seeds = np.random.SeedSequence(settings.seed).spawn(len(settings.noise))
    for noise, own in zip(show_progress(settings.noise, "information", show=progress), seeds, strict=True):
        measured.append({"noise": noise, "estimator": "exact", "information": exact_information(noise)})
        if noise in PAPER:
            measured.append({"noise": noise, "estimator": "paper", "information": PAPER[noise]})
        *samples, data = own.spawn(settings.seeds + 1)
        for number, sample in enumerate(samples):
            measured += estimate_by_bins(settings, noise, number, np.random.default_rng(sample))
        measured.append(estimate_by_models(settings, noise, np.random.default_rng(data)))
    table = pd.DataFrame(measured)
    return Findings(table, report(settings, table), {"information": estimates_figure(settings, table)})


def estimate_by_bins(
    settings: Settings, noise: float, number: int, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Estimate by bins, also from smaller samples, and from a sample in which a is uninformative."""
    x, a, y = draw_synthetic(settings.sample, noise, rng)
    samples = [("bins", a, settings.sample // factor) for factor in FEWER]
    for name, own, n in (*samples, ("bins, a shuffled", rng.permutation(a), settings.sample)):
        found = binned_information(x[:n], own[:n], y[:n], settings.bins)
        yield {"noise": noise, "estimator": name, "seed": number, "sample": n, "information": found}


def estimate_by_models(settings: Settings, noise: float, rng: np.random.Generator) -> dict[str, Any]:
    """Estimate by the gap between two models, as for real data."""
    x, a, y = draw_synthetic(settings.annotations, noise, rng)
    found = estimate_information(x[:, None], y, a[:, None], folds=settings.folds, seed=settings.seed)
    row = {"noise": noise, "estimator": "two models", "seed": 0, "sample": settings.annotations}
    return {**row, "information": found.estimate, "low": found.low, "high": found.high}


def report(settings: Settings, table: pd.DataFrame) -> str:
    """Write the report."""
    whole = table[~table["sample"].lt(settings.sample)].groupby(["noise", "estimator"])["information"]
    exact = {noise: exact_information(noise) for noise in settings.noise}
    gap: dict[Any, Any] = table[table["estimator"] == "two models"].set_index("noise").to_dict("index")
    bins = whole.mean().xs("bins", level="estimator")
    return render_report(
        "information",
        settings=settings,
        paper=PAPER,
        exact=exact,
        values=dict(iter(whole)),
        gap=gap,
        bias=[bins[noise] - exact[noise] for noise in settings.noise],
        covered=sum(gap[noise]["low"] < exact[noise] < gap[noise]["high"] for noise in settings.noise),
    )


def estimates_figure(settings: Settings, table: pd.DataFrame) -> Figure:
    """Draw all estimates by ε, and those of the bins by the size of the sample."""

    def draw(axes: Sequence[Any]) -> None:
        left, right = axes
        grid = np.geomspace(min(settings.noise) / 1.3, max(settings.noise) * 1.3, 60)
        left.plot(grid, [exact_information(noise) for noise in grid], color=COLOURS["truth"], label="exact")
        looks = {
            "paper": ("x", COLOURS["no-pi"], "paper, bins"),
            "bins": ("o", COLOURS["control"], "bins"),
            "bins, a shuffled": ("^", COLOURS["other"], "bins, a shuffled (exactly 0)"),
        }
        whole = table[~table["sample"].lt(settings.sample)]
        for name, (marker, colour, label) in looks.items():
            mean = whole[whole["estimator"] == name].groupby("noise")["information"].mean()
            hollow = {"mfc": "none"} if marker != "x" else {}
            left.plot(mean.index, mean, marker, color=colour, label=label, **hollow)
        gap = table[table["estimator"] == "two models"]
        reach = [gap["information"] - gap["low"], gap["high"] - gap["information"]]
        look = {"fmt": ".", "color": COLOURS["pi"], "capsize": 3, "label": "two models, 95 %"}
        left.errorbar(gap["noise"] * 1.06, gap["information"], reach, **look)
        left.set(xscale="log", yscale="log", xlabel="ε", ylabel="I(y; a | x), nats")
        left.set_xticks(settings.noise, [f"{noise:g}" for noise in settings.noise])
        left.minorticks_off()
        left.legend()
        bins = table[table["estimator"] == "bins"]
        for shade, noise in zip(np.linspace(1, 0.3, len(settings.noise)), settings.noise, strict=True):
            exact = exact_information(noise)
            mean = bins[bins["noise"] == noise].groupby("sample")["information"].mean() - exact
            right.plot(mean.index, mean, "o-", color=COLOURS["control"], alpha=shade, label=f"ε = {noise:g}")
        right.axhline(0, color=COLOURS["truth"])
        right.set(xscale="log", xlabel="annotations in the sample", ylabel="bins − exact, nats")
        right.set_yscale("symlog", linthresh=0.01)
        right.legend()

    return make_figure(draw, 2, figsize=(10.5, 4.2))

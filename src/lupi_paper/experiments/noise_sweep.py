"""The synthetic regression with increasing noise: privileged information helps until it is lost in the noise.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), the appendix that varies ε.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from lupi_paper.experiments import synthetic
from lupi_paper.experiments import synthetic_regression as regression
from lupi_paper.experiments.synthetic import LEAST, PAIR, Floats, Variant
from lupi_paper.findings import COLOURS, Findings, make_figure, render_report
from lupi_paper.settings import check_settings
from lupi_paper.theory.information import check_noise, exact_information

PUBLISHED = {
    0.1: {"no PI": 0.0858, "PI": 0.0008, "information": 0.408},
    0.5: {"no PI": 0.0880, "PI": 0.0007, "information": 0.150},
    1.0: {"no PI": 0.0897, "PI": 0.0027, "information": 0.059},
    1.5: {"no PI": 0.0841, "PI": 0.0472, "information": 0.034},
    2.0: {"no PI": 0.0977, "PI": 0.0977, "information": 0.024},
}
"""The paper's "RMSE", which is an MSE (erratum), and its binned I(y; a | x) in nats."""
SHOWN: dict[Variant, str] = {"no PI": "no-pi", "PI": "pi", "zeros": "control"}
"""Variants, and the colour of each."""


@dataclass(frozen=True)
class Settings:
    """Noise levels; everything else is the default of `synthetic-regression`."""

    seed: int = 0
    seeds: int = 20
    n: int = 2500
    epochs: int = 10
    noise: tuple[float, ...] = (0.1, 0.5, 1.0, 1.5, 2.0)

    def __post_init__(self) -> None:
        check_settings(self, LEAST, positive=["noise"])
        for noise in self.noise:
            check_noise(noise)

    def at(self, noise: float) -> regression.Settings:
        """Return the settings of the regression at one noise level."""
        return regression.Settings(seed=self.seed, seeds=self.seeds, n=self.n, epochs=self.epochs, noise=noise)


def run(settings: Settings, *, progress: bool) -> Findings:
    """Learn at every noise level with PI, without, and with zeros in place of PI."""
    arms = {arm_name(noise, variant): (settings.at(noise), variant) for noise in settings.noise for variant in SHOWN}
    table, curves = synthetic.train_variants(regression.train, arms, settings, progress=progress)
    table.insert(0, "noise", [arms[name][0].noise for name in table["variant"]])
    table["variant"] = [arms[name][1] for name in table["variant"]]
    figures = {"fits": fits_figure(curves, settings), "error": error_figure(table, settings)}
    return Findings(table, report(table, settings), figures)


def arm_name(noise: float, variant: Variant) -> str:
    """Return the name of a variant at a noise level."""
    return f"ε = {noise:g}, {variant}"


def report(table: pd.DataFrame, settings: Settings) -> str:
    """Write the report."""
    groups = table.groupby(["noise", "variant"])
    mean = groups["mse"].mean()
    return render_report(
        "noise_sweep",
        settings=settings,
        protocol=settings.at(settings.noise[0]),
        variants=list(SHOWN),
        mse=dict(iter(groups["mse"])),
        rmse=groups["rmse"].mean(),
        exact={noise: exact_information(noise) for noise in settings.noise},
        published=PUBLISHED,
        apart=[
            f"{one:g}" for one in settings.noise if mean[one, "PI"] > 3 * PUBLISHED.get(one, {}).get("PI", math.inf)
        ],
    )


def fits_figure(curves: dict[str, Floats], settings: Settings) -> Figure:
    """Draw the fits of every seed at every noise level."""
    x = regression.GRID

    def draw(axes: Sequence[Any]) -> None:
        for axis, noise in zip(axes, settings.noise, strict=True):
            for variant in PAIR:
                colour = COLOURS[SHOWN[variant]]
                axis.plot(x, curves[arm_name(noise, variant)].T, color=colour, lw=0.7, alpha=0.5)
                axis.plot([], [], color=colour, label=variant)
            axis.plot(x, regression.marginal_mean(x), "--", color=COLOURS["truth"], label="0.7 sin 2πx")
            axis.set(title=f"ε = {noise:g}", xlabel="x", ylim=(-1, 1))
            if axis is not axes[0]:
                axis.set_yticklabels([])
        axes[0].legend(loc="lower left", fontsize=8)

    return make_figure(draw, len(settings.noise), figsize=(2.4 * len(settings.noise), 2.9))


def error_figure(table: pd.DataFrame, settings: Settings) -> Figure:
    """Draw the error of every seed over ε, and the paper's."""

    def draw(axes: Sequence[Any]) -> None:
        axis = axes[0]
        for shift, (variant, role) in zip((-1, 1, 0), SHOWN.items(), strict=True):
            of_kind = table[table["variant"] == variant]
            axis.semilogy(of_kind["noise"] + 0.02 * shift, of_kind["mse"], "o", ms=3, alpha=0.35, color=COLOURS[role])
            mean = of_kind.groupby("noise")["mse"].mean()
            axis.plot(mean.index, mean, color=COLOURS[role], label=f"{variant} (mean of {settings.seeds} seeds)")
        for variant in PAIR:
            paper = [one[variant] for one in PUBLISHED.values()]
            axis.plot(list(PUBLISHED), paper, "x", ms=7, color=COLOURS[SHOWN[variant]], label=f"{variant}, paper")
        axis.set(xlabel="standard deviation of ε", ylabel="MSE to the marginal mean")
        axis.legend(loc="lower right", fontsize=8)

    return make_figure(draw)

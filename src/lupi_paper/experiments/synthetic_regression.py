"""Synthetic regression: a representation learned with privileged information, and controls.

y = (1 − a) sin 2πx + a v + ε, x ~ U(0, 1), a ~ Bernoulli(0.3), v ~ U(−1, 1). φ is frozen, y is regressed on φ(x) by
ridge regression, and the fit is compared with the true marginal mean 0.7 sin 2πx.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 2.2 and the appendix that varies ε.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge

from lupi.likelihoods import Gaussian
from lupi_paper.experiments import synthetic
from lupi_paper.experiments.synthetic import Floats, Variant
from lupi_paper.findings import COLOURS, Findings, render_report
from lupi_paper.settings import check_number
from lupi_paper.theory.information import NOISY

PUBLISHED = {"no PI": 0.0858, "PI": 0.0008}
"""The paper's "RMSE" at ε = 0.1, which is an MSE (erratum)."""
GRID = synthetic.make_grid((0.0, 1.0))


@dataclass(frozen=True)
class Settings(synthetic.Protocol):
    """Data, training and probe."""

    ridge: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("ridge", self.ridge, above=True)


SENSITIVITY: dict[str, dict[str, Any]] = {
    "torch's initialization": {"initialization": "torch"},
    "ReLU in the head on [φ(x), a]": {"head": "relu"},
    "batch 8": {"batch_size": 8},
    "batch 128": {"batch_size": 128},
    "learning rate 3e-4": {"learning_rate": 3e-4},
    "learning rate 3e-3": {"learning_rate": 3e-3},
    "ridge 0.05": {"ridge": 0.05},
    "ridge 5": {"ridge": 5.0},
}
"""Choices that the paper does not state, changed one at a time."""


def marginal_mean(x: Floats) -> Floats:
    """Return E[y | x] = 0.7 sin 2πx."""
    return np.asarray((1 - NOISY) * np.sin(2 * np.pi * x))


def train(settings: Settings, variant: Variant, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Learn φ, fit the probes, and return the error and the curve of every seed."""
    samples = synthetic.draw_samples(settings.n, settings.noise, seeds)
    targets = [sample.y for sample in samples]
    trunks = synthetic.learn_representations(variant, samples, targets, Gaussian(), settings, seeds)
    found = []
    for trunk, sample in zip(trunks, samples, strict=True):
        curve = synthetic.fit_probe(Ridge(alpha=settings.ridge), trunk, sample, sample.y, GRID)
        mse = ((curve - marginal_mean(GRID)) ** 2).mean()
        found.append({"mse": mse, "rmse": np.sqrt(mse), "curve": curve})
    return found


def run(settings: Settings, *, progress: bool) -> Findings:
    """Learn with PI, without, and with the controls."""
    arms = synthetic.list_arms(settings, SENSITIVITY)
    table, curves = synthetic.train_variants(train, arms, settings, progress=progress)
    mse = synthetic.by_variant(table, "mse")
    figures = {
        "fits": fits_figure(curves, settings),
        "controls": synthetic.strips_figure(mse, settings.long, "MSE to the marginal mean", "log"),
    }
    return Findings(table, report(table, settings), figures)


def report(table: pd.DataFrame, settings: Settings) -> str:
    """Write the report."""
    return render_report(
        "synthetic_regression",
        settings=settings,
        variants=synthetic.VARIANTS,
        changes=list(SENSITIVITY),
        mse=synthetic.by_variant(table, "mse"),
        rmse=synthetic.by_variant(table, "rmse"),
        published=PUBLISHED if settings.is_published else {},
    )


def fits_figure(curves: dict[str, Floats], settings: Settings) -> Figure:
    """Draw the fits of every seed over x, with labels of the first."""
    (sample,) = synthetic.draw_samples(settings.n, settings.noise, [settings.seed])
    x, a, y = (values[:400] for values in sample)

    def draw_truth(axis: Any) -> None:
        for value, shade in ((0, "#9ca3af"), (1, "#fca5a5")):
            axis.plot(x[a == value], y[a == value], ".", ms=3, color=shade, label=f"a = {value}")
        axis.plot(GRID, marginal_mean(GRID), "--", color=COLOURS["truth"], label="0.7 sin 2πx", zorder=3)

    return synthetic.fits_figure(curves, GRID, draw_truth, "y", ylim=(-1.4, 2.0))

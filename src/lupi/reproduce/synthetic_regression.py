"""Synthetic regression: a representation learned with privileged information, and controls.

y = (1 − a) sin 2πx + a v + ε, x ~ U(0, 1), a ~ Bernoulli(0.3), v ~ U(−1, 1). φ is frozen, y is regressed on φ(x) by
ridge regression, and the fit is compared with the true marginal mean 0.7 sin 2πx.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 2.2 and the appendix that varies ε.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge
from torch import nn

from lupi._internal.checks import check_integer, check_positive
from lupi.compare.engine import to_frame
from lupi.likelihoods import Gaussian
from lupi.reproduce.findings import COLOURS, Findings, make_figure, render_report
from lupi.reproduce.synthetic import (
    PAIR,
    VARIANTS,
    Floats,
    Protocol,
    Sample,
    Variant,
    compute_features,
    draw_samples,
    format_mean,
    learn_representations,
    make_grid,
    stack_curves,
    strips_figure,
    train_variants,
)
from lupi.theory.information import NOISY

PUBLISHED = {"no PI": 0.0858, "PI": 0.0008}
"""The paper's "RMSE" at ε = 0.1, which is an MSE (erratum)."""
SPAN = (0.0, 1.0)


@dataclass(frozen=True)
class Settings(Protocol):
    """Data, training and probe.

    Parameters
    ----------
    seed, seeds : int
        First seed, and number of seeds: of data, initial weights and batches.
    n : int
        Training examples.
    noise : float
        Standard deviation of ε.
    epochs, batch_size, learning_rate, initialisation, head
        As in `Protocol`.
    ridge : float
        λ of the probe ‖y − φw − b‖² + λ‖w‖².
    long : int
        Epochs of the control that trains longer.
    """

    seed: int = 0
    seeds: int = 20
    n: int = 2500
    noise: float = 0.1
    ridge: float = 0.5
    long: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("seeds", self.seeds, 2)
        check_positive("noise", self.noise)
        check_positive("ridge", self.ridge)


SENSITIVITY: dict[str, dict[str, Any]] = {
    "torch's initialisation": {"initialisation": "torch"},
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


def fit_probes(trunks: Sequence[nn.Module], samples: Sequence[Sample], ridge: float, x: Floats) -> Floats:
    """Fit a ridge regression of y on φ(x) for every seed, and predict at x: [seeds, x]."""
    curves = []
    for trunk, sample in zip(trunks, samples, strict=True):
        probe = Ridge(alpha=ridge).fit(compute_features(trunk, sample.x), sample.y)
        curves.append(probe.predict(compute_features(trunk, x)))
    return np.stack(curves)


def compute_mse(curves: Floats, x: Floats) -> Floats:
    """Return the MSE to the marginal mean of every seed."""
    return np.asarray(((curves - marginal_mean(x)) ** 2).mean(1))


def train(settings: Settings, variant: Variant, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Learn φ, fit the probes, and return the error and the curve of every seed."""
    samples, x = draw_samples(settings.n, settings.noise, seeds), make_grid(SPAN)
    targets = [sample.y for sample in samples]
    trunks = learn_representations(variant, samples, targets, Gaussian(), settings, seeds)
    curves = fit_probes(trunks, samples, settings.ridge, x)
    return [
        {"mse": mse, "rmse": np.sqrt(mse), "curve": curve}
        for mse, curve in zip(compute_mse(curves, x), curves, strict=True)
    ]


def run(settings: Settings, *, progress: bool) -> Findings:
    """Learn with PI, without, and with the controls.

    Examples
    --------
    >>> small = Settings(seeds=2, n=64, epochs=1, long=2)
    >>> sorted(run(small, progress=False).figures)
    ['controls', 'fits']
    """
    changes = {f"{settings.long} epochs": {"epochs": settings.long}, **SENSITIVITY}
    found = train_variants(train, settings, changes, progress=progress)
    table = to_frame(found).rename(columns={"method": "variant"})
    figures = {"fits": fits_figure(stack_curves(found), settings), "controls": controls_figure(table, settings)}
    return Findings(table, report(table, settings), figures)


def report(table: pd.DataFrame, settings: Settings) -> str:
    """Write the report."""
    mse = {str(name): group["mse"].to_numpy() for name, group in table.groupby("variant")}
    mean = {name: float(values.mean()) for name, values in mse.items()}
    own = replace(Settings(), seed=settings.seed, seeds=settings.seeds, long=settings.long)
    published = {name: f"{value:.4f}" for name, value in PUBLISHED.items()} if settings == own else {}
    longer = [f"{variant}, {settings.long} epochs" for variant in PAIR]
    lines = [
        {
            "": name,
            "step 1": VARIANTS.get(name, "trained longer"),  # type: ignore[call-overload]
            "MSE": format_mean(mse[name]),
            "RMSE": format_mean(np.sqrt(mse[name])),
            "MSE in the paper": published.get(name, ""),
        }
        for name in (*VARIANTS, *longer)
    ]
    sensitive = [
        {"": name, **{one: format_mean(mse[one + after]) for one in PAIR}, "ratio": f"{ratio(mean, after):.1f}"}
        for name, after in (("as above", ""), *((name, f", {name}") for name in SENSITIVITY))
    ]
    return render_report(
        "synthetic_regression",
        settings=settings,
        lines=lines,
        sensitive=sensitive,
        ratios=[ratio(mean, f", {name}") for name in SENSITIVITY],
        better={name: mean["no PI"] / mean[name] for name in VARIANTS},
        long=[mean[name] for name in longer],
        mean=mean,
        explain_gain=explain_gain,
    )


def ratio(mean: dict[str, float], after: str) -> float:
    """Return the error without PI divided by that with PI."""
    return mean[f"no PI{after}"] / mean[f"PI{after}"]


def explain_gain(gain: float, long_gain: float) -> str:
    """Say what longer training shows."""
    if long_gain < 1.5 < gain:
        return "The gain is one of speed: PI makes the representation curve sooner, and longer training does the same."
    if long_gain < gain / 2:
        return "Most of the gain is one of speed: longer training makes up for much of it."
    return "Longer training does not make up for it."


def fits_figure(curves: dict[str, Floats], settings: Settings) -> Figure:
    """Draw the fits of every seed over x, with labels of the first."""
    x, (sample,) = make_grid(SPAN), draw_samples(settings.n, settings.noise, [settings.seed])

    def draw(axes: Sequence[Any]) -> None:
        for axis, variant in zip(axes, PAIR, strict=True):
            some = slice(0, 400)
            for value, shade, label in ((0, "#9ca3af", "a = 0"), (1, "#fca5a5", "a = 1")):
                of_kind = sample.a[some] == value
                axis.plot(sample.x[some][of_kind], sample.y[some][of_kind], ".", ms=3, color=shade, label=label)
            colour = COLOURS["pi" if variant == "PI" else "no-pi"]
            axis.plot(x, curves[variant].T, color=colour, lw=0.8, alpha=0.5)
            axis.plot([], [], color=colour, label=f"{variant}, {settings.seeds} seeds")
            axis.plot(x, marginal_mean(x), "--", color=COLOURS["truth"], label="0.7 sin 2πx")
            axis.set(title=f"φ learned with {variant}", xlabel="x", ylim=(-1.4, 2.0))
            axis.legend(loc="upper right", fontsize=8, ncols=2)
        axes[0].set_ylabel("y")

    return make_figure(draw, 2, figsize=(9.6, 4.0))


def controls_figure(table: pd.DataFrame, settings: Settings) -> Figure:
    """Draw the error of every seed and variant."""
    shown = table.assign(value=table["mse"])
    return strips_figure(shown, settings.long, "MSE to the marginal mean", "log")

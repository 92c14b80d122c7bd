"""Synthetic classification: a representation learned with privileged information, with classes.

y = 1 where the sigmoid of the score exceeds ½; the score is (1 − a) sin 2πx + a v + ε with x ~ U(−2, 2). φ is frozen, a
logistic regression is fitted on φ(x), and its decisions are compared with those of the oracle, 1[sin 2πx > 0].

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 2.2 and the appendix on data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from torch import nn

from lupi._internal.checks import check_integer, check_positive
from lupi.compare.engine import to_frame
from lupi.compare.statistics import mean_difference
from lupi.likelihoods import Bernoulli, Gaussian, Likelihood
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

PUBLISHED = {"no PI": 0.910, "PI": 0.967}
"""Share of x for which the classifier agrees with the oracle."""
SPAN = (-2.0, 2.0)
LOSSES: dict[str, Likelihood] = {"cross-entropy": Bernoulli(), "squared error": Gaussian()}


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
    loss : "cross-entropy" or "squared error"
        Loss of step 1. The paper states the squared error for its synthetic experiments, perhaps including this one.
    c : float
        C of the logistic regression, scikit-learn's default.
    long : int
        Epochs of the control that trains longer.
    """

    seed: int = 0
    seeds: int = 20
    n: int = 20_000
    noise: float = 0.4
    loss: str = "cross-entropy"
    c: float = 1.0
    long: int = 50

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integer("seeds", self.seeds, 2)
        check_positive("noise", self.noise)
        check_positive("c", self.c)
        if self.loss not in LOSSES:
            raise ValueError(f"Expected `loss` to be {' or '.join(map(repr, LOSSES))}, but got {self.loss!r}.")


def decide(x: Floats) -> Floats:
    """Return the decision of the oracle, 1[sin 2πx > 0].

    Examples
    --------
    >>> decide(np.array([0.25, 0.75, -0.75]))
    array([1., 0., 1.])
    """
    return np.asarray(np.sin(2 * np.pi * x) > 0, dtype=np.float64)


def fit_probes(trunks: Sequence[nn.Module], samples: Sequence[Sample], c: float, x: Floats) -> Floats:
    """Fit a logistic regression on φ(x) for every seed, and predict probabilities at x: [seeds, x]."""
    curves = []
    for trunk, sample in zip(trunks, samples, strict=True):
        probe = LogisticRegression(C=c, max_iter=2000).fit(compute_features(trunk, sample.x), sample.y > 0)
        curves.append(probe.predict_proba(compute_features(trunk, x))[:, 1])
    return np.stack(curves)


def train(settings: Settings, variant: Variant, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Learn φ, fit the probes, and return agreement and probabilities of every seed."""
    samples, x = draw_samples(settings.n, settings.noise, seeds, SPAN), make_grid(SPAN)
    shape = (-1, 1) if settings.loss == "cross-entropy" else (-1,)
    targets = [(sample.y > 0).astype(np.float64).reshape(shape) for sample in samples]
    trunks = learn_representations(variant, samples, targets, LOSSES[settings.loss], settings, seeds)
    curves = fit_probes(trunks, samples, settings.c, x)
    agreement = ((curves > 0.5) == decide(x)).mean(1)
    return [{"agreement": value, "curve": curve} for value, curve in zip(agreement, curves, strict=True)]


def run(settings: Settings, *, progress: bool) -> Findings:
    """Learn with PI, without, and with the controls.

    Examples
    --------
    >>> small = Settings(seeds=2, n=64, epochs=1, long=2)
    >>> sorted(run(small, progress=False).figures)
    ['agreement', 'fits']
    """
    found = train_variants(train, settings, list_changes(settings), progress=progress)
    table = to_frame(found).rename(columns={"method": "variant"})
    figures = {"fits": fits_figure(stack_curves(found), settings), "agreement": agreement_figure(table, settings)}
    return Findings(table, report(table, settings), figures)


def list_changes(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return what is changed one at a time: the training time, and choices that the paper does not state."""
    return {
        f"{settings.long} epochs": {"epochs": settings.long},
        "squared error": {"loss": "squared error"},
        "torch's initialisation": {"initialisation": "torch"},
        "batch 128": {"batch_size": 128},
        "learning rate 3e-3": {"learning_rate": 3e-3},
    }


def report(table: pd.DataFrame, settings: Settings) -> str:
    """Write the report."""
    share = {str(name): 100 * group["agreement"].to_numpy() for name, group in table.groupby("variant")}
    mean = {name: float(values.mean()) for name, values in share.items()}
    own = replace(Settings(), seed=settings.seed, seeds=settings.seeds, long=settings.long)
    published = {name: f"{100 * value:.1f}" for name, value in PUBLISHED.items()} if settings == own else {}
    lines = [
        {"": name, "step 1": what, "agreement %": format_mean(share[name], ".1f"), "paper": published.get(name, "")}
        for name, what in VARIANTS.items()
    ]
    sensitive = [
        {
            "": name,
            **{variant: format_mean(share[variant + after], ".1f") for variant in PAIR},
            "difference": format_difference(share[f"PI{after}"], share[f"no PI{after}"]),
        }
        for name, after in (("as above", ""), *((name, f", {name}") for name in list_changes(settings)))
    ]
    return render_report(
        "synthetic_classification",
        settings=settings,
        lines=lines,
        sensitive=sensitive,
        mean=mean,
        share=share,
        long=f", {settings.long} epochs",
        format_difference=format_difference,
        judge_gain=judge_gain,
    )


def format_difference(first: Floats, second: Floats) -> str:
    """Format a paired difference with its standard error.

    Examples
    --------
    >>> format_difference(np.array([3.0, 5.0]), np.array([1.0, 1.0]))
    '+3.0 ± 1.0'
    """
    found = mean_difference(first - second)
    return f"{found.mean:+.1f} ± {found.error:.1f}"


def judge_gain(differences: Floats) -> str:
    """Say whether the paper's order is reproduced."""
    found = mean_difference(differences)
    if found.mean > 2 * found.error:
        return "The paper's order is reproduced."
    if found.mean < -2 * found.error:
        return "That is the opposite of the paper's order."
    return "That is within two standard errors of zero: the paper's gain is not reproduced with this protocol."


def fits_figure(curves: dict[str, Floats], settings: Settings) -> Figure:
    """Draw the probability of class 1 of every seed, and the oracle's decision."""
    x = make_grid(SPAN)

    def draw(axes: Sequence[Any]) -> None:
        for axis, variant in zip(axes, PAIR, strict=True):
            colour = COLOURS["pi" if variant == "PI" else "no-pi"]
            axis.fill_between(x, decide(x), step="mid", color="#f3e8ff", label="oracle: class 1")
            axis.plot(x, curves[variant].T, color=colour, lw=0.7, alpha=0.5)
            axis.plot([], [], color=colour, label=f"{variant}, {settings.seeds} seeds")
            axis.axhline(0.5, color=COLOURS["truth"], lw=0.8, ls=":")
            axis.set(title=f"φ learned with {variant}", xlabel="x", xlim=SPAN, ylim=(0, 1.25))
            axis.legend(loc="upper right", fontsize=8, ncols=2)
        axes[0].set_ylabel("probability of class 1")

    return make_figure(draw, 2, figsize=(9.6, 3.6))


def agreement_figure(table: pd.DataFrame, settings: Settings) -> Figure:
    """Draw the agreement of every seed and variant."""
    shown = table.assign(value=100 * table["agreement"])
    return strips_figure(shown, settings.long, "agreement with the oracle, % of x", "linear")

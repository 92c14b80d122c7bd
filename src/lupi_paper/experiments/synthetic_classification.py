"""Synthetic classification: a representation learned with privileged information, with classes.

y = 1 where the sigmoid of the score exceeds ½; the score is (1 − a) sin 2πx + a v + ε with x ~ U(−2, 2). φ is frozen, a
logistic regression is fitted on φ(x), and its decisions are compared with those of the oracle, 1[sin 2πx > 0].

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 2.2 and the appendix on data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import sem
from sklearn.linear_model import LogisticRegression

from lupi.likelihoods import Bernoulli, Gaussian, Likelihood
from lupi_paper.experiments import synthetic
from lupi_paper.experiments.synthetic import Floats, Variant
from lupi_paper.findings import COLOURS, Findings, render_report
from lupi_paper.settings import check_settings

PUBLISHED = {"no PI": 0.910, "PI": 0.967}
"""Share of x for which the classifier agrees with the oracle."""
SPAN = (-2.0, 2.0)
GRID = synthetic.make_grid(SPAN)
LOSSES: dict[str, Likelihood] = {"cross-entropy": Bernoulli(), "squared error": Gaussian()}


@dataclass(frozen=True)
class Settings(synthetic.Protocol):
    """Data, training and probe."""

    n: int = 20_000
    noise: float = 0.4
    long: int = 50
    loss: str = "cross-entropy"
    c: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, {}, positive=["c"], choices={"loss": LOSSES})


SENSITIVITY: dict[str, dict[str, Any]] = {
    "squared error": {"loss": "squared error"},
    "torch's initialization": {"initialization": "torch"},
    "batch 128": {"batch_size": 128},
    "learning rate 3e-3": {"learning_rate": 3e-3},
}
"""Choices that the paper does not state, changed one at a time."""


def decide(x: Floats) -> Floats:
    """Return the decision of the oracle, 1[sin 2πx > 0]."""
    return np.asarray(np.sin(2 * np.pi * x) > 0, dtype=np.float64)


def train(settings: Settings, variant: Variant, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Learn φ, fit the probes, and return agreement and probabilities of every seed."""
    samples = synthetic.draw_samples(settings.n, settings.noise, seeds, SPAN)
    shape = (-1, 1) if settings.loss == "cross-entropy" else (-1,)
    targets = [(sample.y > 0).astype(np.float64).reshape(shape) for sample in samples]
    trunks = synthetic.learn_representations(variant, samples, targets, LOSSES[settings.loss], settings, seeds)
    probe, found = LogisticRegression(C=settings.c, max_iter=2000), []
    for trunk, sample in zip(trunks, samples, strict=True):
        curve = synthetic.fit_probe(probe, trunk, sample, sample.y > 0, GRID)
        found.append({"agreement": ((curve > 0.5) == decide(GRID)).mean(), "curve": curve})
    return found


def run(settings: Settings, *, progress: bool) -> Findings:
    """Learn with PI, without, and with the controls."""
    arms = synthetic.list_arms(settings, SENSITIVITY)
    table, curves = synthetic.train_variants(train, arms, settings, progress=progress)

    def draw_truth(axis: Any) -> None:
        axis.fill_between(GRID, decide(GRID), step="mid", color="#f3e8ff", label="oracle: class 1")
        axis.axhline(0.5, color=COLOURS["truth"], lw=0.8, ls=":")

    share = {name: 100 * values for name, values in synthetic.by_variant(table, "agreement").items()}
    figures = {
        "fits": synthetic.fits_figure(curves, GRID, draw_truth, "probability of class 1", xlim=SPAN, ylim=(0, 1.25)),
        "agreement": synthetic.strips_figure(share, settings.long, "agreement with the oracle, % of x", "linear"),
    }
    return Findings(table, report(share, settings), figures)


def report(share: dict[str, Floats], settings: Settings) -> str:
    """Write the report."""

    def compare(first: str, second: str) -> str:
        """Format a difference, paired by seed, with its standard error."""
        found = share[first] - share[second]
        return f"{found.mean():+.1f} ± {sem(found):.1f}"

    gain = share["PI"] - share["no PI"]

    return render_report(
        "synthetic_classification",
        settings=settings,
        variants=synthetic.VARIANTS,
        changes=[f"{settings.long} epochs", *SENSITIVITY],
        share=share,
        compare=compare,
        gain={"mean": gain.mean(), "error": sem(gain)},
        published=PUBLISHED if settings.is_published else {},
    )

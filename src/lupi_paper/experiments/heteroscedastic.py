"""Heteroscedastic noise: why marginalizing makes the noise depend on x, and a head that learns it.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), appendix B: M annotators, each with homoscedastic noise,
p(y | x, a = m) = N(μ_m(x), 1). The paper prints no numbers here, but a formula of the optimal variance that is wrong.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor, nn

from lupi.compare import Arm, run_arms, to_frame
from lupi.data import Annotations
from lupi.likelihoods import Gaussian
from lupi.methods import Method, NoPI, build
from lupi.nn import MLP, Parts, heteroscedastic_head, over_examples
from lupi.settings import Settings as Training
from lupi.training import fit
from lupi_paper.findings import COLOURS, Findings, make_figure, render_report
from lupi_paper.settings import check_settings, seed_range

Floats = NDArray[np.float64]

SPREAD = 3.0
"""Largest deviation of an annotator's mean at x = 1; at x = 0 all agree."""
GRID = (np.arange(200) + 0.5) / 200
"""Points at which learned mean and variance are compared with the truth."""
FEATURES = 64


@dataclass(frozen=True)
class Settings:
    """Annotators, data and training."""

    seed: int = 0
    seeds: int = 3
    annotators: int = 5
    annotations: int = 10_000
    epochs: int = 20
    batch_size: int = 128

    def __post_init__(self) -> None:
        least = {"seed": 0, "seeds": 1, "annotators": 2, "annotations": 1, "epochs": 1, "batch_size": 1}
        check_settings(self, least)


def annotator_means(x: Floats, annotators: int) -> Floats:
    """Return μ_m(x) = sin 2πx + 3 s_m x, s_m evenly from −1 to 1, [x, annotators]."""
    signal: Floats = np.sin(2 * np.pi * x)[:, None]
    return signal + SPREAD * x[:, None] * np.linspace(-1, 1, annotators)


def optimal_gaussian(means: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the Gaussian nearest to a mixture of N(μ_m, 1): the moments of the mixture.

    μ* = mean(μ_m) and σ*² = 1 + mean(μ_m²) − mean(μ_m)².
    """
    mean = means.mean(-1)
    return mean, 1 + (means**2).mean(-1) - mean**2


def printed_variance(means: Floats) -> Floats:
    """Return the variance that the paper prints: (M − mean(μ_m)) + mean(μ_m²)."""
    return np.asarray(means.shape[-1] - means.mean(-1) + (means**2).mean(-1))


def cross_entropy(mean: Floats, variance: Floats, means: Floats) -> Floats:
    """Return E −log N(y; mean, variance) for y from the mixture of N(μ_m, 1), by Gauss-Hermite quadrature."""
    node, weight = np.polynomial.hermite_e.hermegauss(8)
    y = means[..., None] + node
    squared = ((y - mean[:, None, None]) ** 2 @ weight).mean(-1) / weight.sum()
    return np.asarray(0.5 * (np.log(2 * np.pi * variance) + squared / variance))


def numerical_gaussian(means: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of the nearest Gaussian by numerical minimization of the cross-entropy."""

    def loss(parameters: Floats, own: Floats) -> float:
        return float(cross_entropy(parameters[:1], np.exp(parameters[1:]), own[None])[0])

    found = [minimize(loss, np.zeros(2), args=(own,), tol=1e-10, method="Nelder-Mead").x for own in means]
    mean, log_variance = np.array(found).T
    return mean, np.exp(log_variance)


def run(settings: Settings, *, progress: bool) -> Findings:
    """Compare the two formulas, and train heads with fixed and with learned variance."""
    means = annotator_means(GRID, settings.annotators)
    arms = [Arm(name=name, train=partial(train, make, settings)) for name, make in METHODS.items()]
    found = run_arms(arms, seed_range(settings), seeds_at_once=1, progress=progress)
    learned = {(run.arm, run.seed): (run.values["mean"], run.values["variance"]) for run in found}
    best_mean, best_variance = optimal_gaussian(means)
    known = [
        {"what": "printed variance", **compute_errors(best_mean, printed_variance(means), means)},
        {"what": "optimum", **compute_errors(best_mean, best_variance, means)},
    ]
    table = to_frame(found).rename(columns={"method": "what"}).sort_values("seed", kind="stable")
    table = pd.concat([table, pd.DataFrame(known)], ignore_index=True)
    figures = {"heteroscedastic": gaussians_figure(means, learned, settings.seed)}
    return Findings(table, report(settings, table, means), figures)


def make_heteroscedastic(parts: Parts) -> Method:
    """Make No PI with a head that predicts mean and variance."""
    head = heteroscedastic_head(parts.features, 1, parts.likelihood)
    return NoPI(parts.trunk(), head, likelihood=parts.likelihood)


METHODS: dict[str, Callable[[Parts], Method]] = {
    "no-pi, variance 1": partial(build, "no-pi"),
    "no-pi, heteroscedastic": make_heteroscedastic,
    "het-tram": partial(build, "het-tram"),
}


def draw_annotations(settings: Settings, seed: int) -> Annotations:
    """Draw examples x ~ U(0, 1), each with an annotator and a label; a is the annotator, one-hot."""
    rng = np.random.default_rng(seed)
    n = settings.annotations
    x, a = rng.uniform(size=n), rng.integers(settings.annotators, size=n)
    y = annotator_means(x, settings.annotators)[np.arange(n), a] + rng.normal(size=n)
    one_hot = np.eye(settings.annotators)[a]
    return Annotations(standardize(x), torch.arange(n), torch.from_numpy(one_hot).float(), torch.from_numpy(y).float())


def standardize(x: Floats) -> Tensor:
    """Return the inputs of the network: x with mean 0 and standard deviation 1."""
    return torch.from_numpy((x - 0.5) * math.sqrt(12)).float()[:, None]


def train(make: Callable[[Parts], Method], settings: Settings, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Train a method, and return its errors and the mean and variance that it predicts on the grid."""
    parts = Parts(
        lambda: MLP(1, (FEATURES, FEATURES), activation=nn.Tanh),
        features=FEATURES,
        privileged=settings.annotators,
        outputs=1,
        likelihood=Gaussian(),
    )
    training = Training(epochs=settings.epochs, batch_size=settings.batch_size, learning_rate=3e-3, schedule="cosine")
    found = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            method = make(parts)
        fit(method, draw_annotations(settings, seed), training, seed=seed)
        output = over_examples(method.predictor(), standardize(GRID)).double().numpy()
        mean = output[:, 0]
        variance = output[:, 1] if output.shape[1] == 2 else np.ones_like(mean)
        errors = compute_errors(mean, variance, annotator_means(GRID, settings.annotators))
        found.append({**errors, "mean": mean, "variance": variance})
    return found


def compute_errors(mean: Floats, variance: Floats, means: Floats) -> dict[str, float]:
    """Compare a Gaussian with the optimum: root mean squared errors over x, and nats lost."""
    best_mean, best_variance = optimal_gaussian(means)
    least = cross_entropy(best_mean, best_variance, means)
    return {
        "rmse_mean": float(np.sqrt(np.mean((mean - best_mean) ** 2))),
        "rmse_variance": float(np.sqrt(np.mean((variance - best_variance) ** 2))),
        "nats_lost": float(np.mean(cross_entropy(mean, variance, means) - least)),
    }


def report(settings: Settings, table: pd.DataFrame, means: Floats) -> str:
    """Write the report."""
    places = [int(share * (len(GRID) - 1)) for share in (0, 0.25, 0.5, 0.75, 1)]
    own = means[places]
    columns = (GRID[places], optimal_gaussian(own)[1], numerical_gaussian(own)[1], printed_variance(own))
    return render_report(
        "heteroscedastic",
        settings=settings,
        spread=SPREAD,
        variances=list(zip(*columns, strict=True)),
        errors=dict(iter(table.groupby("what", sort=False))),
    )


def gaussians_figure(means: Floats, learned: dict[tuple[str, int], tuple[Floats, Floats]], first: int) -> Figure:
    """Draw learned mean and variance against the truth."""
    best = optimal_gaussian(means)
    colours = dict(zip(METHODS, (COLOURS["control"], COLOURS["no-pi"], COLOURS["pi"]), strict=True))

    def draw(axes: Sequence[Any]) -> None:
        left, right = axes
        left.plot(GRID, means, color=COLOURS["truth"], alpha=0.2, lw=1)
        for axis, part, name in ((left, 0, "mean"), (right, 1, "variance")):
            for (what, seed), values in learned.items():
                label = what if seed == first else None
                axis.plot(GRID, values[part], color=colours[what], lw=1, alpha=0.8, label=label)
            axis.plot(GRID, best[part], "--", color=COLOURS["truth"], lw=2, label="optimum")
            axis.set(xlabel="x", ylabel=name)
        right.plot(GRID, printed_variance(means), ":", color=COLOURS["other"], lw=2, label="as printed in the paper")
        right.set_ylim(bottom=0)
        for axis, title in ((left, "mean; the annotators' means in grey"), (right, "variance")):
            axis.set_title(title, loc="left", fontsize="medium")
            axis.legend(fontsize="small")

    return make_figure(draw, 2, figsize=(10.5, 4.2))

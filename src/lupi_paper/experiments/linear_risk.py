"""When privileged information helps a linear model: closed-form risks, simulations and the paper's conditions.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), the appendix "Risk analysis". The paper prints no numbers here:
the closed forms are compared with simulations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.lines import Line2D

from lupi_paper.findings import COLOURS, Findings, make_figure, markdown_table, render_report
from lupi_paper.progress import show_progress
from lupi_paper.settings import check_distinct, check_number, check_settings
from lupi_paper.theory.risk import BLOCK, ESTIMATORS, PROPOSITIONS, Estimate, LinearModel, conditions, risks, simulate

ERRORS = 3
"""Standard errors by which closed form and simulation may differ, and that a difference must exceed to have a sign."""
BEYOND = 0.0027
"""Probability that a standard normal number lies beyond them."""


@dataclass(frozen=True)
class Settings:
    """A grid of linear models."""

    seed: int = 0
    n: int = 40
    d: int = 4
    m: int = 1
    sigma: float = 1.0
    pi_variance: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0)
    overlap: tuple[float, ...] = (0.0, 0.5, 0.9, 0.99, 1.0)
    draws: int = 20_000
    repeats: int = 10
    expectation_draws: int = 20_000

    def __post_init__(self) -> None:
        least = {"seed": 0, "d": 1, "m": 1, "draws": 2, "repeats": 2, "expectation_draws": 2 * BLOCK}
        check_settings(self, least, positive=["sigma", "pi_variance"])
        if self.m > self.d:
            raise ValueError(f"Expected `m` to be at most d = {self.d}, but got {self.m}.")
        check_number("n", self.n, self.d + self.m + 4, whole=True)
        if not self.overlap:
            raise ValueError("Expected `overlap` to be one number or more, but got none.")
        for overlap in self.overlap:
            check_number("overlap", overlap, maximum=1)
        check_distinct("overlap", self.overlap)


def run(settings: Settings, *, progress: bool) -> Findings:
    """Compute and simulate the risks at every point of the grid, and for one model that shows an erratum."""
    cells = len(settings.overlap) * len(settings.pi_variance)
    *seeds, design, last = np.random.SeedSequence(settings.seed).spawn(cells + 2)
    models = [("grid", *found) for found in make_models(settings, design)]
    wrong = make_counterexample()
    models.append(("counterexample", 0.0, float(wrong.pi_variance.mean()), wrong))
    rows: list[dict[str, Any]] = []
    for (name, overlap, variance, model), seed in zip(
        show_progress(models, "linear risk", show=progress), [*seeds, last], strict=True
    ):
        place = {"model": name, "overlap": overlap, "pi_variance": variance}
        rows += [place | row for row in measure(model, settings, seed)]
    table = pd.DataFrame(rows)
    figures = {
        "saved-risk": make_figure(lambda axes: draw_saved(table, axes), columns=2, figsize=(9.6, 4.2)),
        "agreement": make_figure(lambda axes: draw_agreement(table, axes[0])),
    }
    return Findings(table, report(table, settings), figures)


def make_models(settings: Settings, seed: np.random.SeedSequence) -> Iterator[tuple[float, float, LinearModel]]:
    """Make the models of the grid: one design, μ(X) rotated out of the span of X, and Σ(x) ∝ (½ + x₁²)I."""
    n, d, m = settings.n, settings.d, settings.m
    rng = np.random.default_rng(seed)
    X, w, extra = rng.normal(size=(n, d)), rng.normal(size=d), rng.normal(size=(n, m))
    basis = np.linalg.qr(np.hstack([X, extra]))[0]
    inside, outside = basis[:, :m], basis[:, d:]
    spread = 0.5 + X[:, 0] ** 2
    spread /= spread.mean()
    for overlap in settings.overlap:
        mu = np.sqrt(n) * (np.sqrt(overlap) * inside + np.sqrt(1 - overlap) * outside)
        for variance in settings.pi_variance:
            covariance = variance * spread[:, None, None] * np.eye(m)
            v = np.full(m, 1 / np.sqrt(m))
            yield overlap, variance, LinearModel(X, mu=mu, covariance=covariance, v=v, sigma=settings.sigma, w=w)


def make_counterexample() -> LinearModel:
    """Make a model for which the printed sufficient condition holds although PI hurts.

    X is the first unit vector and μ(X) the second; A varies along X only. So A_x⊥ = μ(X), and PI hurts because
    ‖μ(X)v*‖² = 36 is less than σ² = 64, although 36 is more than 2n = 20, as the printed condition requires.
    """
    unit = np.eye(10)
    return LinearModel(
        unit[:, :1], mu=unit[:, 1:2], covariance=9 * unit[:, :1, None], v=np.array([6.0]), sigma=8.0, w=np.ones(1)
    )


def measure(model: LinearModel, settings: Settings, seed: np.random.SeedSequence) -> Iterator[dict[str, Any]]:
    """Yield the rows of one model: risks beside measured risks, conditions beside measured differences."""
    expectation, simulation = seed.spawn(2)
    closed = risks(model, draws=settings.expectation_draws, seed=expectation)
    tested = conditions(model, draws=settings.expectation_draws, seed=expectation)
    measured = simulate(model, draws=settings.draws, repeats=settings.repeats, seed=simulation)
    for name in ESTIMATORS:
        yield make_row("risk", name, closed[name], measured.risks[name])
    for name in PROPOSITIONS:
        for kind, margin in tested[name]._asdict().items():
            yield make_row(kind, name, margin, measured.differences[name])
    # ‖(I − Π_x)μ(X)v*‖² > σ²m, because ‖E L‖² ≤ d + m
    sharper = Estimate(model.outside - model.sigma**2 * model.m / model.n)
    yield make_row("sharper", "marginalized", sharper, measured.differences["marginalized"])


def make_row(kind: str, name: str, value: Estimate, measured: Estimate) -> dict[str, Any]:
    """Make a row; `apart` is the distance in standard errors, where both values should be equal."""
    error = float(np.hypot(value.error, measured.error))
    return {
        "kind": kind,
        "name": name,
        "value": value.value,
        "error": value.error,
        "measured": measured.value,
        "measured_error": measured.error,
        "apart": (measured.value - value.value) / error if kind in ("risk", "exact") else np.nan,
    }


def count_checks(table: pd.DataFrame) -> dict[str, int]:
    """Count how often simulations agree with the theory.

    Each condition has a row per cell. A measured difference has a sign where it exceeds three standard errors. An
    exact condition must have that sign. A sufficient condition is refuted only where it holds and PI hurts.
    """
    sign = np.sign(table["measured"]).where(table["measured"].abs() > ERRORS * table["measured_error"], 0)
    exact, says = table["kind"] == "exact", table["value"] > 0
    counts = {
        "risks": int((table["kind"] == "risk").sum()),
        "risks agree": int(((table["kind"] == "risk") & (table["apart"].abs() <= ERRORS)).sum()),
        "differences": int(exact.sum()),
        "differences agree": int((exact & (table["apart"].abs() <= ERRORS)).sum()),
        "signs": int((exact & (sign != 0)).sum()),
        "signs agree": int((exact & (sign == np.sign(table["value"]))).sum()),
        "helps": int((exact & (sign > 0)).sum()),
        "hurts": int((exact & (sign < 0)).sum()),
    }
    for kind in ("sufficient", "printed", "sharper"):
        chosen = (table["kind"] == kind) & says
        counts |= {f"{kind} holds": int(chosen.sum()), f"{kind} refuted": int((chosen & (sign < 0)).sum())}
    return counts


def report(table: pd.DataFrame, settings: Settings) -> str:
    """Write the report."""
    cells = table[table["model"] == "grid"]
    both = count_checks(cells)
    wrong = table[(table["model"] == "counterexample") & (table["name"] == "imputed")].set_index("kind")
    with_pi = cells[(cells["kind"] == "risk") & (cells["name"] == "marginalized-pi")]
    reach = with_pi.groupby("overlap", as_index=False)["value"].agg(["min", "max"])
    return render_report(
        "linear_risk",
        settings=settings,
        both=both,
        counts={name: count_checks(cells[cells["name"] == name]) for name in PROPOSITIONS},
        beyond=BEYOND * both["risks"],
        largest=cells["apart"].abs().max(),
        differences={name: difference_table(cells, name) for name in PROPOSITIONS},
        widest=reach.iloc[int((reach["max"] - reach["min"]).argmax())],
        wrong=wrong.to_dict("index"),
    )


def difference_table(cells: pd.DataFrame, name: str) -> str:
    """Make the table of measured differences, overlap by PI variance, bold where the sufficient condition holds."""
    rows = cells[(cells["kind"] == "sufficient") & (cells["name"] == name)]
    texts = rows["measured"].map("{:+.4f}".format) + " ± " + rows["measured_error"].map("{:.4f}".format)
    rows = rows.assign(text=texts.where(rows["value"] <= 0, "**" + texts + "**"))
    wide = rows.pivot(index="overlap", columns="pi_variance", values="text")
    wide.columns = [f"PI variance {variance:g}" for variance in wide.columns]
    wide.insert(0, "overlap", [f"{overlap:g}" for overlap in wide.index])
    return markdown_table(wide)


def draw_saved(table: pd.DataFrame, axes: Sequence[Any]) -> None:
    """Draw the share of the risk without PI that PI saves: closed forms as lines, simulations as points."""
    cells = table[table["model"] == "grid"]
    overlaps = sorted(cells["overlap"].unique())
    titles = {"imputed": "PI with mean imputation", "marginalized": "PI marginalized"}
    for ax, (name, (without, _)) in zip(axes, PROPOSITIONS.items(), strict=True):
        risk = cells[(cells["kind"] == "risk") & (cells["name"] == without)].set_index(["overlap", "pi_variance"])
        rows = cells[cells["name"] == name].set_index(["overlap", "pi_variance"])
        exact, holds = rows[rows["kind"] == "exact"], rows[rows["kind"] == "sufficient"]["value"] > 0
        share = exact[["value", "measured", "measured_error"]].div(risk["value"], axis=0) * 100
        ax.axhline(0, color=COLOURS["truth"], linewidth=1)
        for i, overlap in enumerate(overlaps):
            colour = colormaps["viridis"](0.9 * i / max(1, len(overlaps) - 1))
            line, filled = share.loc[overlap], holds.loc[overlap]
            ax.plot(line.index, line["value"], color=colour, label=f"{overlap:g}")
            for points, face in ((line[filled], colour), (line[~filled], "white")):
                reach = ERRORS * points["measured_error"]
                ax.errorbar(points.index, points["measured"], reach, fmt="o", color=colour, mfc=face, capsize=3)
        ax.set(xscale="log", title=titles[name], xlabel="PI variance, mean of v*ᵀΣ(x)v*")
    axes[0].set_ylabel("risk saved by PI, % of the risk without PI")
    axes[1].sharey(axes[0])
    handles, labels = axes[0].get_legend_handles_labels()
    axes[0].figure.legend(handles, labels, title="overlap", loc="outside right upper")
    grey = COLOURS["no-pi"]
    meanings = [Line2D([], [], color=grey, label="closed form")]
    for face, label in ((grey, "measured ± 3 s.e.,\nsufficient\ncondition holds"), ("white", "… does not hold")):
        meanings.append(Line2D([], [], color=grey, marker="o", linestyle="", markerfacecolor=face, label=label))
    axes[0].figure.legend(handles=meanings, loc="outside right lower")


def draw_agreement(table: pd.DataFrame, ax: Any) -> None:
    """Draw the distance between simulated and closed-form risk for every cell."""
    rows = table[(table["model"] == "grid") & (table["kind"] == "risk")]
    for i, name in enumerate(ESTIMATORS):
        apart = rows[rows["name"] == name]["apart"].to_numpy()
        places = i + np.linspace(-0.35, 0.35, len(apart))
        ax.plot(places, apart, "o", markersize=4, color=COLOURS["no-pi" if name.endswith("no-pi") else "pi"])
    for bound in (-ERRORS, ERRORS):
        ax.axhline(bound, color=COLOURS["control"], linestyle="--", linewidth=1)
    ax.axhline(0, color=COLOURS["truth"], linewidth=1)
    ax.set_xticks(range(len(ESTIMATORS)), ["no PI", "PI, mean\nimputed", "no PI,\nmarginalized", "PI,\nmarginalized"])
    ax.set_ylabel("simulated − closed form, in standard errors")
    ax.grid(axis="x", visible=False)

"""Tables and figures of results next to published numbers, and tests of the paper's claims by paired differences."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from lupi.compare import Difference, difference
from lupi.methods import kind
from lupi_paper.cases import Case
from lupi_paper.findings import COLOURS, draw_strips, format_mean, make_figure, markdown_table

LEVEL = 0.05
"""A difference is significant if its p-value is smaller, without correction for the number of claims."""


class Published(NamedTuple):
    """A row of the paper's table: means and standard deviations, accuracies in per cent."""

    nll: float
    nll_sd: float
    accuracy: float
    accuracy_sd: float


def results_table(
    runs: pd.DataFrame,
    cases: Sequence[Case],
    published: Mapping[str, Published] | None = None,
    *,
    accuracy_digits: int = 1,
) -> str:
    """Format mean ± standard deviation over the seeds of every case, beside the paper's numbers."""
    lines = []
    for case in cases:
        own = runs[runs["method"] == case.name]
        line = {"method": case.title, "NLL": format_mean(own["nll"], 3)}
        line["accuracy, %"] = format_mean(100 * own["accuracy"], accuracy_digits)
        if published is not None:
            nll = accuracy = ""
            if row := published.get(case.name):
                nll = f"{row.nll:.3f} ± {row.nll_sd:.3f}"
                accuracy = f"{row.accuracy:.{accuracy_digits}f} ± {row.accuracy_sd:.{accuracy_digits}f}"
            line |= {"NLL in the paper": nll, "accuracy in the paper, %": accuracy}
        lines.append(line)
    return markdown_table(lines)


class Claim(NamedTuple):
    """A claim about two rows: `method` is better than `other` or, if `par`, as good."""

    method: str
    other: str
    par: bool = False


def check_claim(nll: Difference, accuracy: Difference, *, par: bool) -> str:
    """Say whether a row is better than another in NLL (lower) and accuracy (higher) or, where `par`, as good."""
    better = {"NLL": nll.mean < 0, "accuracy": accuracy.mean > 0}
    significant = [name for name, found in (("NLL", nll), ("accuracy", accuracy)) if found.p_value < LEVEL]
    both = " and ".join(significant)
    sides = {name: f"{'better' if better[name] else 'worse'} in {name}" for name in better}
    if par:
        return f"no: significantly {' and '.join(sides[name] for name in significant)}" if significant else "yes"
    if all(better.values()):
        return f"yes, significantly in {both}" if significant else "yes, but not significantly"
    if not any(better.values()):
        return f"no, significantly worse in {both}" if significant else "no, but not significantly"
    return ", ".join(side + ("" if name in significant else " (not significantly)") for name, side in sides.items())


def format_differences(runs: pd.DataFrame, method: str, other: str, accuracy_digits: int = 1) -> tuple[str, str]:
    """Format the differences of two rows in NLL and in points of accuracy, paired by seed, with 95 % intervals."""
    texts = []
    for metric, scale, digits in (("nll", 1, 3), ("accuracy", 100, accuracy_digits)):
        found = difference(runs, method, other, metric)
        mean, low, high = (f"{scale * value:+.{digits}f}" for value in (found.mean, *found.interval()))
        texts.append(f"{mean} [{low}, {high}]".replace("-", "−"))
    return texts[0], texts[1]


def make_comparer(runs: pd.DataFrame, accuracy_digits: int = 1) -> Callable[[str, str], str]:
    """Return a function for templates that describes the differences of two rows."""

    def compare(method: str, other: str) -> str:
        nll, accuracy = format_differences(runs, method, other, accuracy_digits)
        return f"{nll} in NLL, {accuracy} points of accuracy"

    return compare


def claims_table(
    runs: pd.DataFrame,
    cases: Sequence[Case],
    claims: Sequence[Claim],
    published: Mapping[str, Published] | None = None,
    *,
    accuracy_digits: int = 1,
    heading: str = "the paper",
) -> str:
    """Format claims about pairs of cases: differences paired by seed, with 95 % intervals, and whether they hold.

    Claims about other cases are left out.
    """
    titles = {case.name: case.title for case in cases}
    lines = []
    for method, other, par in claims:
        if not {method, other} <= titles.keys():
            continue
        nll, accuracy = format_differences(runs, method, other, accuracy_digits)
        line = {
            heading: f"{titles[method]} {'on par with' if par else 'above'} {titles[other]}",
            "difference in NLL": nll,
            "in accuracy, points": accuracy,
            "here": check_claim(*(difference(runs, method, other, metric) for metric in ("nll", "accuracy")), par=par),
        }
        if published is not None:
            line["differences in the paper"] = ""
            if {method, other} <= published.keys():
                one, two = published[method], published[other]
                change = f"{one.nll - two.nll:+.3f}, {one.accuracy - two.accuracy:+.{accuracy_digits}f}"
                line["differences in the paper"] = change.replace("-", "−")
        lines.append(line)
    return markdown_table(lines)


def find_role(case: Case) -> str:
    """Return the role of a case, which has a colour in figures."""
    if case.name.startswith("two-step-no-pi") or not kind(case.method).uses_privileged:
        return "no-pi"
    return "pi" if "tram" in case.method else "control"


def strips_figure(
    runs: pd.DataFrame, cases: Sequence[Case], panels: Mapping[str, str], levels: Mapping[str, float] | None = None
) -> Figure:
    """Draw the scores of every seed and case."""

    def draw(axes: Sequence[Any]) -> None:
        for axis, (metric, label) in zip(axes, panels.items(), strict=True):
            shown = 100 * runs[metric] if metric == "accuracy" else runs[metric]
            rows = [(re.sub(r" \(.*\)", "", case.title), shown[runs["method"] == case.name], case) for case in cases]
            draw_strips(axis, [(title, values, COLOURS[find_role(case)]) for title, values, case in rows], label)
            axis.tick_params(labelleft=axis is axes[0])
        for (title, value), colour in zip((levels or {}).items(), ("other", "truth"), strict=False):
            axes[0].axvline(value, ls="--", lw=1, color=COLOURS[colour], label=title)
        for role, title in (("no-pi", "without PI"), ("pi", "TRAM and its variants"), ("control", "others with PI")):
            axes[0].plot([], [], "o", ms=4, color=COLOURS[role], label=title)
        axes[0].figure.legend(loc="outside upper center", ncols=5, fontsize=8)

    return make_figure(draw, len(panels), figsize=(4.8 * len(panels), 1 + 0.26 * len(cases)))

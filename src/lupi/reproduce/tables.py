"""Tables of results beside published numbers, and the paper's claims checked by paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from lupi.compare.statistics import Difference, difference
from lupi.reproduce.cases import Case
from lupi.reproduce.findings import format_mean, markdown_table

TITLES = {
    "no-pi": "No PI",
    "zero-imputation": "Zero imputation",
    "mean-imputation": "Mean imputation",
    "full-marginalization": "Full marginalization",
    "heteroscedastic-dropout": "Heteroscedastic dropout (Lambert et al.)",
    "tram": "TRAM",
    "two-step-tram": "Two-step TRAM",
    "het-tram": "Het-TRAM",
    "distillation": "Distillation, no PI",
    "generalized-distillation": "Generalized distillation (Lopez-Paz et al.)",
    "distilled-tram": "Distilled-TRAM",
    "miml-fcn-plus": "MIML-FCN+",
    "tram-plus-plus": "TRAM++",
    "pi-dual": "Pi-DUAL",
    "pi-transition": "PI-transition",
}
"""Titles of methods in tables; the paper has two-step TRAM only in an ablation."""
LEVEL = 0.05
"""A difference is significant if its p is smaller, without correction for the number of claims."""


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
    """Format mean ± standard deviation over the seeds of every case, beside the paper's numbers.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> runs = pd.DataFrame({"method": ["tram"] * 2, "seed": [0, 1], "nll": [1.0, 1.2], "accuracy": [0.6, 0.7]})
    >>> print(results_table(runs, [SimpleNamespace(name="tram", title="TRAM")]))
    | method | NLL | accuracy, % |
    |---|---|---|
    | TRAM | 1.100 ± 0.141 | 65.0 ± 7.1 |
    """
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
    """A claim about two rows: `method` is better than `other` or, where `par`, as good."""

    method: str
    other: str
    par: bool = False


def check_claim(nll: Difference, accuracy: Difference, *, par: bool) -> str:
    """Say whether a row is better than another in NLL (lower) and accuracy (higher) or, where `par`, as good.

    Examples
    --------
    >>> check_claim(Difference(-0.1, 0.01, 19), Difference(0.01, 0.02, 19), par=False)
    'yes, significantly in NLL'
    """
    better = {"NLL": nll.mean < 0, "accuracy": accuracy.mean > 0}
    significant = [name for name, found in (("NLL", nll), ("accuracy", accuracy)) if found.p < LEVEL]
    both = " and ".join(significant)
    sides = {name: f"{'better' if better[name] else 'worse'} in {name}" for name in better}
    if par:
        return f"no: significantly {' and '.join(sides[name] for name in significant)}" if significant else "yes"
    if all(better.values()):
        return f"yes, significantly in {both}" if significant else "yes, but not significantly"
    if not any(better.values()):
        return f"no, significantly worse in {both}" if significant else "no, but not significantly"
    return ", ".join(side + ("" if name in significant else " (not significantly)") for name, side in sides.items())


class Differences(NamedTuple):
    """The differences of two rows in NLL and accuracy, paired by seed."""

    nll: Difference
    accuracy: Difference

    @classmethod
    def between(cls, runs: pd.DataFrame, method: str, other: str) -> Differences:
        """Return the differences of `method` to `other`."""
        return cls(*(difference(runs, method, other, metric) for metric in cls._fields))

    def format(self, accuracy_digits: int = 1) -> tuple[str, str]:
        """Format both with their 95 % intervals, the accuracy in points.

        Examples
        --------
        >>> Differences(Difference(-0.1, 0.01, 19), Difference(0.02, 0.01, 19)).format()
        ('−0.100 [−0.121, −0.079]', '+2.0 [−0.1, +4.1]')
        """

        def show(found: Difference, scale: int, digits: int) -> str:
            middle, low, high = (f"{scale * value:+.{digits}f}" for value in (found.mean, *found.interval()))
            return f"{middle} [{low}, {high}]".replace("-", "−")

        return show(self.nll, 1, 3), show(self.accuracy, 100, accuracy_digits)


def compare_in(runs: pd.DataFrame, accuracy_digits: int = 1) -> Callable[[str, str], str]:
    """Return a function for templates that describes the differences of two rows."""

    def compare(method: str, other: str) -> str:
        nll, accuracy = Differences.between(runs, method, other).format(accuracy_digits)
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
        found = Differences.between(runs, method, other)
        nll, accuracy = found.format(accuracy_digits)
        line = {
            heading: f"{titles[method]} {'on par with' if par else 'above'} {titles[other]}",
            "difference in NLL": nll,
            "in accuracy, points": accuracy,
            "here": check_claim(*found, par=par),
        }
        if published is not None:
            line["differences in the paper"] = ""
            if {method, other} <= published.keys():
                one, two = published[method], published[other]
                change = f"{one.nll - two.nll:+.3f}, {one.accuracy - two.accuracy:+.{accuracy_digits}f}"
                line["differences in the paper"] = change.replace("-", "−")
        lines.append(line)
    return markdown_table(lines)

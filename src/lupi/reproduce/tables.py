"""Tables of results beside published numbers, and the paper's claims checked by paired differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from lupi.compare.statistics import Difference, difference
from lupi.reproduce.cases import Case
from lupi.reproduce.findings import markdown_table

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
METRICS = ("nll", "accuracy")
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
    nll_digits: int = 3,
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

    def show(mean: float, sd: float, digits: int) -> str:
        return f"{mean:.{digits}f} ± {sd:.{digits}f}"

    lines = []
    for case in cases:
        own = runs[runs["method"] == case.name]
        percent = 100 * own["accuracy"]
        line = {
            "method": case.title,
            "NLL": show(own["nll"].mean(), own["nll"].std(), nll_digits),
            "accuracy, %": show(percent.mean(), percent.std(), accuracy_digits),
        }
        if published is not None:
            row = published.get(case.name)
            line["NLL in the paper"] = show(row.nll, row.nll_sd, nll_digits) if row else ""
            line["accuracy in the paper, %"] = show(row.accuracy, row.accuracy_sd, accuracy_digits) if row else ""
        lines.append(line)
    return markdown_table(pd.DataFrame(lines))


class Claim(NamedTuple):
    """A claim about two rows: `method` is better than `other` or, where `par`, as good."""

    method: str
    other: str
    par: bool = False

    def describe(self, titles: Mapping[str, str]) -> str:
        """Return the claim in words, with the titles of the rows."""
        return f"{titles[self.method]} {'on par with' if self.par else 'above'} {titles[self.other]}"

    def check(self, runs: pd.DataFrame) -> Check:
        """Check the claim by the runs."""
        return check_claim(*differences(runs, self.method, self.other), par=self.par)


class Check(NamedTuple):
    """Whether a claim holds, whether a difference that it claims is significant, and both in words."""

    text: str
    holds: bool = False
    significant: bool = False


def check_claim(nll: Difference, accuracy: Difference, *, par: bool) -> Check:
    """Check whether a row is better than another in NLL (lower) and accuracy (higher) or, where `par`, as good.

    Examples
    --------
    >>> check_claim(Difference(-0.1, 0.01, 19), Difference(0.01, 0.02, 19), par=False).text
    'yes, significantly in NLL'
    """
    better = {"NLL": nll.mean < 0, "accuracy": accuracy.mean > 0}
    significant = [name for name, found in (("NLL", nll), ("accuracy", accuracy)) if found.p < LEVEL]
    both = " and ".join(significant)
    if par:
        sides = [f"{'better' if better[name] else 'worse'} in {name}" for name in significant]
        return Check(f"no: significantly {' and '.join(sides)}") if significant else Check("yes", holds=True)
    if all(better.values()):
        text = f"yes, significantly in {both}" if significant else "yes, but not significantly"
        return Check(text, holds=True, significant=bool(significant))
    if not any(better.values()):
        return Check(f"no, significantly worse in {both}" if significant else "no, but not significantly")
    sides = [
        f"{'better' if better[name] else 'worse'} in {name}{'' if name in significant else ' (not significantly)'}"
        for name in better
    ]
    return Check(", ".join(sides))


def differences(runs: pd.DataFrame, method: str, other: str) -> tuple[Difference, Difference]:
    """Return the differences of two cases in NLL and accuracy, paired by seed."""
    nll, accuracy = (difference(runs, method, other, metric) for metric in METRICS)
    return nll, accuracy


def format_interval(found: Difference, scale: float, digits: int) -> str:
    """Format a difference with its 95 % interval."""
    low, high = found.interval()
    numbers = [f"{scale * value:+.{digits}f}" for value in (found.mean, low, high)]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]".replace("-", "−")


def describe_differences(
    nll: Difference, accuracy: Difference, *, nll_digits: int = 3, accuracy_digits: int = 1
) -> str:
    """Describe differences in NLL and accuracy with their intervals.

    Examples
    --------
    >>> describe_differences(Difference(-0.1, 0.01, 19), Difference(0.02, 0.01, 19))
    '−0.100 [−0.121, −0.079] in NLL, +2.0 [−0.1, +4.1] points of accuracy'
    """
    accuracies = format_interval(accuracy, 100, accuracy_digits)
    return f"{format_interval(nll, 1, nll_digits)} in NLL, {accuracies} points of accuracy"


def claims_table(
    runs: pd.DataFrame,
    cases: Sequence[Case],
    claims: Sequence[Claim],
    published: Mapping[str, Published] | None = None,
    *,
    nll_digits: int = 3,
    accuracy_digits: int = 1,
    heading: str = "the paper",
) -> str:
    """Format claims about pairs of rows: differences paired by seed, with 95 % intervals, and whether they hold."""
    titles = {case.name: case.title for case in cases}
    lines = []
    for claim in claims:
        nll, accuracy = differences(runs, claim.method, claim.other)
        line = {
            heading: claim.describe(titles),
            "difference in NLL": format_interval(nll, 1, nll_digits),
            "in accuracy, points": format_interval(accuracy, 100, accuracy_digits),
            "here": claim.check(runs).text,
        }
        if published is not None:
            line["differences in the paper"] = ""
            if claim.method in published and claim.other in published:
                one, other = published[claim.method], published[claim.other]
                change = f"{one.nll - other.nll:+.{nll_digits}f}, {one.accuracy - other.accuracy:+.{accuracy_digits}f}"
                line["differences in the paper"] = change.replace("-", "−")
        lines.append(line)
    return markdown_table(pd.DataFrame(lines))

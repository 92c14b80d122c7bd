"""The report on relabelled images: its rows, the paper's numbers and claims, and its tables."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from lupi_paper.cases import Case
from lupi_paper.experiments.annotators import EACH, MALICIOUS, WIDTHS, Labels
from lupi_paper.experiments.relabelled_data import Images
from lupi_paper.findings import render_report
from lupi_paper.tables import Claim, Published, claims_table, make_comparer, results_table

MAIN = (
    *("no-pi", "zero-imputation", "mean-imputation", "heteroscedastic-dropout", "full-marginalization", "tram"),
    *("het-tram", "distillation", "generalized-distillation", "distilled-tram"),
)
"""The rows of the paper's table."""
LATER = ("label-posterior", "auto")
"""Methods that the paper's table does not have."""
SHORT = ("no-pi", "tram", "het-tram")
"""Methods that are also trained for a third of the epochs, to see whether a network overfits."""
TABLES = {
    "One step against two": ("no-pi", "two-step-no-pi", "tram", "two-step-tram"),
    "A quarter of the capacity": ("no-pi", "tram", "no-pi-quarter", "tram-quarter"),
    "Less privileged information": ("no-pi", "tram-reduced", "tram"),
}
"""The rows of the ablations."""
CLAIMS = {
    "": (
        Claim("tram", "no-pi"),
        Claim("tram", "full-marginalization", par=True),
        Claim("het-tram", "tram"),
        Claim("het-tram", "full-marginalization"),
        Claim("no-pi", "zero-imputation"),
        Claim("no-pi", "mean-imputation"),
        Claim("distilled-tram", "distillation"),
        Claim("distilled-tram", "generalized-distillation"),
    ),
    "One step against two": (Claim("two-step-tram", "tram", par=True), Claim("two-step-tram", "two-step-no-pi")),
    "Less privileged information": (Claim("tram", "tram-reduced"), Claim("tram-reduced", "no-pi")),
}
LATER_CLAIMS = tuple(Claim(name, other) for name in LATER for other in ("no-pi", "tram"))
"""What one would hope, which the paper does not have."""
PUBLISHED = {
    "no-pi": Published(1.264, 0.007, 71.7, 0.2),
    "zero-imputation": Published(1.895, 0.008, 63.5, 0.2),
    "mean-imputation": Published(1.619, 0.007, 65.1, 0.3),
    "heteroscedastic-dropout": Published(1.264, 0.006, 71.8, 0.1),
    "full-marginalization": Published(1.217, 0.004, 72.6, 0.2),
    "tram": Published(1.225, 0.006, 72.5, 0.2),
    "het-tram": Published(1.207, 0.008, 72.8, 0.2),
    "distillation": Published(1.207, 0.004, 72.6, 0.2),
    "generalized-distillation": Published(1.216, 0.003, 72.7, 0.2),
    "distilled-tram": Published(1.154, 0.004, 73.8, 0.2),
    "two-step-tram": Published(1.226, 0.002, 72.7, 0.2),
    "two-step-no-pi": Published(1.265, 0.008, 71.7, 0.3),
    "no-pi-quarter": Published(1.717, 0.717, 62.1, 0.3),
    "tram-quarter": Published(1.720, 0.415, 62.4, 0.2),
    "tram-reduced": Published(1.246, 0.004, 72.0, 0.2),
}
"""ImageNet with ResNet-50, ten seeds."""
PAPER = (*MAIN, "two-step-tram", "two-step-no-pi", "no-pi-quarter", "tram-quarter", "tram-reduced")
"""The rows of the paper, with its ablations."""
CASES = (*PAPER, *LATER, *(f"{name}-short" for name in SHORT))
"""All rows."""


def report(runs: pd.DataFrame, cases: Mapping[str, Case], images: Images, labels: Labels, settings: Any) -> str:
    """Write the report."""
    main, later, short = (pick(cases, names) for names in (MAIN, LATER, [f"{name}-short" for name in SHORT]))
    ablations = {}
    for title, names in TABLES.items():
        if set(names) <= cases.keys():
            rows = pick(cases, names)
            claims = claims_table(runs, rows, CLAIMS.get(title, ()), PUBLISHED)
            ablations[title] = f"{results_table(runs, rows, PUBLISHED)}\n\n{claims}"
    relabelled = labels.relabelled
    return render_report(
        "relabelled_images",
        settings=settings,
        cases=cases,
        relabelled=relabelled,
        malicious=(relabelled.privileged["annotator"] == MALICIOUS).mean(),
        right=(relabelled.label == images.true[relabelled.row]).mean(),
        labels=labels,
        learned=images.learned,
        widths=[settings.annotators_width * factor for factor in WIDTHS],
        each=EACH,
        files=not isinstance(images.x, Tensor),
        sizes=[count_parameters(cases[name]) if name in cases else 0 for name in ("tram", "tram-quarter")],
        het_tram=cases.get("het-tram"),
        l2=next(iter(cases.values())).training.l2,
        tested=len(images.y_test),
        classes=images.classes,
        guess=math.log(images.classes),
        worst=runs.groupby("method")["nll"].mean().max(),
        results=results_table(runs, [*main, *later], PUBLISHED),
        claims=claims_table(runs, main, CLAIMS[""], PUBLISHED),
        later=claims_table(runs, [*main, *later], LATER_CLAIMS, heading="statement"),
        ablations=ablations,
        short=results_table(runs, [*pick(cases, SHORT), *short]) if short else "",
        compare=make_comparer(runs),
    )


def pick(cases: Mapping[str, Case], names: Sequence[str]) -> list[Case]:
    """Return the cases with the given names that exist."""
    return [cases[name] for name in names if name in cases]


def count_parameters(case: Case) -> float:
    """Return the number of parameters of φ in millions."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return sum(value.numel() for value in case.parts.trunk().parameters()) / 1e6

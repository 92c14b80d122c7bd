"""The demo: a comparison on handwritten digits with simulated annotators."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd

from lupi import methods as known
from lupi._internal.files import read_object
from lupi.compare import Comparison, compare_methods
from lupi.datasets import load_digits_annotated
from lupi.metrics import METRICS

SHOWN = ("tram", "auto")
"""Methods that the demo shows by default."""
DESCRIPTION = """\
Learn handwritten digits from labels of which {wrong:.0f} % are wrong: {labels} per digit, by 16 models of different
quality or, one time in ten, at random. Privileged information (PI) says which model gave the label, and how sure it
was; it is known in training only. Tested on the true labels of {test} other digits, with {seeds} seeds.
"""
LEGEND = """\
no-pi is plain training; with early stopping it ends when the loss on held-out labels no longer falls. Five averaged
networks cost five times as much to serve.
Accuracy is the share of right answers. NLL, the negative log-likelihood, is low if the true digit gets a high
probability: 0 is perfect, and a blind guess among ten digits has 2.30.
▲ significantly better than the best row without PI   ▼ significantly worse   ★ best
"""
INTERVALS = (
    "Intervals cover {seeds} seeds, each with training digits, labels, test digits and initial weights of its own."
)
CAUTION = "No PI overfits the noisy labels when it trains long: part of a gain may be less overfitting."


def compare_digits(
    methods: Sequence[str], seeds: int, jobs: int = 1, *, annotations: int = 1, epochs: int = 50, progress: bool = False
) -> Comparison:
    """Run the comparison."""
    make_task = partial(load_digits_annotated, annotations)
    found = compare_methods(
        make_task, methods, range(seeds), parameters={"epochs": epochs}, jobs=jobs, progress=progress
    )
    digits = load_digits_annotated(annotations)
    description = DESCRIPTION.format(
        wrong=100 * (digits.y_train != digits.gold_train).mean(),
        labels="one label" if annotations == 1 else f"{annotations} labels",
        test=len(digits.y_test),
        seeds=seeds,
    )
    about = {"demo": "digits", "methods": list(methods), "seeds": seeds, "annotations": annotations, "epochs": epochs}
    return replace(found, notes=[description, INTERVALS.format(seeds=seeds), CAUTION], about=about)


def is_demo(folder: Path) -> bool:
    """Return whether a folder holds results of the demo."""
    about = read_object(folder / "results.json").get("about")
    return isinstance(about, dict) and "demo" in about


def format_summary(summary: pd.DataFrame) -> str:
    """Format a summary as text: ▲ and ▼ mark significant differences from the best baseline, ★ the best of a column."""
    width = max(24, *(len(name) + 2 for name in summary.index))
    lines = [f"{'method':{width}}{'PI':5}{'accuracy (higher is better)':>29}{'NLL (lower is better)':>25}"]
    for name, row in summary.iterrows():
        uses = "yes" if known.kind(str(name).partition(" [")[0]).uses_privileged else "no"
        accuracy = f"{100 * row['accuracy']:.1f} % {_mark(summary, str(name), 'accuracy'):2}"
        nll = f"{row['nll']:.2f} {_mark(summary, str(name), 'nll'):2}"
        lines.append(f"{name:{width}}{uses:5}{accuracy:>21}{nll:>27}".rstrip())
    return "\n".join(lines)


def _mark(summary: pd.DataFrame, name: str, metric: str) -> str:
    """Return the marks of a method's score."""
    known_metric, values = METRICS[metric], summary[metric]
    low, high = (float(summary[f"{metric}_{end}"][name]) for end in ("low", "high"))
    better, worse = (low > 0, high < 0) if known_metric.higher_is_better else (high < 0, low > 0)
    best = values[name] == (values.max() if known_metric.higher_is_better else values.min())
    return "▲" * better + "▼" * worse + "★" * bool(best)

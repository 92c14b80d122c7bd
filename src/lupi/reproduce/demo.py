"""The embedded comparison: all methods on handwritten digits that simulated annotators labelled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pandas as pd

from lupi.compare.engine import BASELINE, compare, summarize
from lupi.compare.page import comparison_page
from lupi.compare.verdict import verdict
from lupi.datasets import load_digits_annotated
from lupi.methods import kind
from lupi.report import Page

TITLE = """\
Handwritten digits, 1000 to train on, each labelled {times} by one of 16 models of different quality or, one time in
ten, at random. Privileged information: which model, and the probability it gave to its label. Tested on {test} other
digits with their true labels, after {epochs} epochs. Mean ± standard deviation over {seeds} seeds; difference to No PI,
paired by seed, with its standard error.
"""

CAUTION = "No PI overfits the noisy labels when it trains long: part of a gain may be that a method overfits less."


def compare_digits(
    methods: Sequence[str], seeds: int, jobs: int, *, annotations: int = 1, epochs: int = 50
) -> tuple[str, pd.DataFrame, Page]:
    """Run the comparison, and return it as a table to print, as one row per run, and as a report.

    Parameters
    ----------
    methods : sequence of str
        Names of methods; No PI is added, since all are compared with it.
    seeds : int
        Number of seeds: of labels, initial weights and batches.
    jobs : int
        Runs at a time.
    annotations : int
        Labels per digit.
    epochs : int
        Epochs of training.
    """
    chosen = list(dict.fromkeys([BASELINE, *methods]))
    make_task = partial(load_digits_annotated, annotations)
    runs = compare(make_task, chosen, range(seeds), parameters={"epochs": epochs}, jobs=jobs, progress=True)
    title = TITLE.format(
        times="once" if annotations == 1 else f"{annotations} times",
        test=len(load_digits_annotated().y_test),
        epochs=epochs,
        seeds=seeds,
    )
    summary = summarize(runs)
    with_pi = [name for name in chosen if kind(name).uses_privileged]
    page = comparison_page(runs, summary, verdict(runs, with_pi, "nll"), notes=[title, CAUTION])
    return title + "\n" + format_table(summary), runs, page


def format_table(summary: pd.DataFrame) -> str:
    """Write a summary as lines of text.

    Examples
    --------
    >>> from lupi.compare.engine import summarize
    >>> runs = pd.DataFrame({"method": ["no-pi", "no-pi", "tram", "tram"], "seed": [0, 1, 0, 1],
    ...                      "nll": [1.0, 2.0, 0.5, 1.0], "accuracy": [0.5, 0.6, 0.6, 0.7], "seconds": [1.0] * 4})
    >>> print(format_table(summarize(runs)))  # doctest: +NORMALIZE_WHITESPACE
    method                           NLL  difference           accuracy %    difference      s
    no-pi                    1.500±0.707                       55.0±7.1                    1.0
    tram                     0.750±0.354  -0.750±0.250         65.0±7.1    +10.0±0.0       1.0
    """
    lines = [f"{'method':24}{'NLL':>12}{'difference':>16}{'accuracy %':>14}{'difference':>14}{'s':>7}"]
    for name, row in summary.iterrows():
        nll, accuracy = (
            f"{row['nll']:.3f}±{row['nll_sd']:.3f}",
            f"{100 * row['accuracy']:.1f}±{100 * row['accuracy_sd']:.1f}",
        )
        nll_gain = accuracy_gain = ""
        if name != BASELINE:
            nll_gain = f"{row['nll_difference']:+.3f}±{row['nll_error']:.3f}"
            accuracy_gain = f"{100 * row['accuracy_difference']:+.1f}±{100 * row['accuracy_error']:.1f}"
        lines.append(f"{name:24}{nll:>12}{nll_gain:>16}{accuracy:>14}{accuracy_gain:>14}{row['seconds']:>7.1f}")
    return "\n".join(lines)

"""The embedded comparison: all methods on handwritten digits with labels of simulated annotators."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from lupi.compare import Comparison, compare_methods
from lupi.compare.statistics import BASELINE
from lupi.datasets import load_digits_annotated

DESCRIPTION = """\
Handwritten digits: 1000 training digits, each labelled {times} by one of 16 models of different quality or, one time
in ten, at random. Privileged information: which model gave the label, and with which probability. Tested on the true
labels of {test} other digits, after {epochs} epochs. Mean ± standard deviation over {seeds} seeds; difference from No
PI, paired by seed, with its standard error.
"""
CAUTION = "No PI overfits the noisy labels when it trains long: part of a gain may be less overfitting."


def compare_digits(
    methods: Sequence[str], seeds: int, jobs: int = 1, *, annotations: int = 1, epochs: int = 50, progress: bool = False
) -> Comparison:
    """Run the comparison.

    Parameters
    ----------
    methods : sequence of str
        Names of methods. No PI is always included.
    seeds : int
        Number of seeds: of labels, initial weights and batches.
    jobs : int
        Methods to train at a time; -1 is one per core.
    annotations : int
        Labels per digit.
    epochs : int
        Epochs of training.
    progress : bool
        Whether to show progress.

    Returns
    -------
    Comparison
        The results; the first note describes the data.

    Examples
    --------
    >>> found = compare_digits(["tram"], seeds=2, epochs=1)
    >>> print(format_digits(found).splitlines()[-1][:4])
    tram
    """
    make_task = partial(load_digits_annotated, annotations)
    found = compare_methods(
        make_task, methods, range(seeds), parameters={"epochs": epochs}, jobs=jobs, progress=progress
    )
    description = DESCRIPTION.format(
        times="once" if annotations == 1 else f"{annotations} times",
        test=len(load_digits_annotated().y_test),
        epochs=epochs,
        seeds=seeds,
    )
    return replace(found, notes=[description, CAUTION])


def format_digits(found: Comparison) -> str:
    """Return the description of the data and a table of results."""
    return f"{found.notes[0]}\n{format_summary(found.summary)}"


def format_summary(summary: pd.DataFrame) -> str:
    """Format a summary as text, with standard errors of the differences.

    Examples
    --------
    >>> from lupi.compare import summarize
    >>> runs = pd.DataFrame({"method": ["no-pi", "no-pi", "tram", "tram"], "seed": [0, 1, 0, 1],
    ...                      "nll": [1.0, 2.0, 0.5, 1.0], "accuracy": [0.5, 0.6, 0.6, 0.7], "seconds": [1.0] * 4})
    >>> print(format_summary(summarize(runs)))  # doctest: +NORMALIZE_WHITESPACE
    method                           NLL  difference           accuracy %    difference      s
    no-pi                    1.500±0.707                       55.0±7.1                    1.0
    tram                     0.750±0.354  -0.750±0.250         65.0±7.1    +10.0±0.0       1.0
    """
    lines = [f"{'method':24}{'NLL':>12}{'difference':>16}{'accuracy %':>14}{'difference':>14}{'s':>7}"]
    for name, row in summary.iterrows():
        nll = f"{row['nll']:.3f}±{row['nll_sd']:.3f}"
        accuracy = f"{100 * row['accuracy']:.1f}±{100 * row['accuracy_sd']:.1f}"
        nll_gain = accuracy_gain = ""
        if name != BASELINE:
            nll_gain = f"{row['nll_difference']:+.3f}±{row['nll_error']:.3f}"
            accuracy_gain = f"{100 * row['accuracy_difference']:+.1f}±{100 * row['accuracy_error']:.1f}"
        lines.append(f"{name:24}{nll:>12}{nll_gain:>16}{accuracy:>14}{accuracy_gain:>14}{row['seconds']:>7.1f}")
    return "\n".join(lines)

"""Estimate how long a comparison takes by a few short training runs, and reduce it to fit a time budget."""

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import NamedTuple

import joblib

from lupi._internal.parallel import Cluster

PROBE_ROWS, PROBE_STEPS = 200, 6
"""Number of annotations of a probe, and its minimum number of steps per epoch."""
QUICK = 20_000
"""Annotations × epochs × runs below which everything takes less than a minute, so that probes are not worth it."""
FEWEST_RUNS, FEWEST_ROWS = 3, 500
"""Minimum number of runs and annotations in any budget; results with fewer would be too uncertain."""


class Probe(NamedTuple):
    """A short training run, from which the time of others is estimated.

    Parameters
    ----------
    train : callable
        Trains for a given number of epochs.
    times : float
        Number of times that every run trains this. It is a fraction if the probe trains the networks of several runs.
    """

    train: Callable[[int], object]
    times: float = 1.0


class Estimate(NamedTuple):
    """The estimated time of one run of all arms in one process.

    Parameters
    ----------
    fixed : float
        Seconds that do not depend on the number of annotations.
    per_annotation : float
        Seconds per annotation.
    workers : int
        Number of processes that share the runs.
    """

    fixed: float
    per_annotation: float
    workers: int = 1

    def seconds(self, runs: int, rows: int) -> float:
        """Return the seconds for a number of runs on a number of annotations.

        Examples
        --------
        >>> Estimate(fixed=1.0, per_annotation=0.01, workers=2).seconds(10, 500)
        30.0
        """
        return runs * (self.fixed + self.per_annotation * rows) / self.workers


def count_workers(jobs: int, cluster: Cluster | None = None) -> int:
    """Return how many networks are trained in parallel."""
    return int(joblib.effective_n_jobs(jobs)) if cluster is None else cluster.workers


def probe_size(rows: int, batch_size: int) -> int:
    """Return the number of annotations of a probe, so that its batches are as large as those of the whole table.

    Examples
    --------
    >>> probe_size(10_000, 32), probe_size(10_000, 500), probe_size(100, 32)
    (200, 3000, 100)
    """
    return min(rows, max(PROBE_ROWS, PROBE_STEPS * batch_size))


def measure(probes: Sequence[Probe], *, epochs: int, rows: int, workers: int) -> Estimate | None:
    """Estimate the time of training by probes of one and of three epochs; return None if they fail.

    Parameters
    ----------
    probes : sequence of Probe
        Short training runs.
    epochs : int
        Number of epochs of the full training runs.
    rows : int
        Number of annotations of the probes.
    workers : int
        Number of processes that will train.

    Examples
    --------
    >>> found = measure([Probe(lambda epochs: time.sleep(0.02 * epochs), times=2)], epochs=50, rows=10, workers=1)
    >>> 1.5 < found.seconds(1, 10) < 3
    True
    """
    fixed = each = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            probes[0].train(1)  # warm up: the first steps of a process import modules
            for probe in probes:
                one, three = (_time(probe.train, number) for number in (1, 3))
                epoch = max(0.0, three - one) / 2
                fixed += probe.times * max(0.0, one - epoch)
                each += probe.times * epoch * epochs / rows
        except (ValueError, FloatingPointError):  # a small sample may lack classes or examples
            return None
    return Estimate(fixed, each, workers)


def require(estimate: Estimate | None) -> Estimate:
    """Return the estimate; raise an error if there is none."""
    if estimate is None:
        raise ValueError("Expected `minutes` for a table of which a small part can be trained on; pass `sample`.")
    return estimate


def _time(train: Callable[[int], object], epochs: int) -> float:
    start = time.perf_counter()
    train(epochs)
    return time.perf_counter() - start


def fit_budget(
    estimate: Estimate, minutes: float, *, runs: int, rows: int, fewest_runs: int = FEWEST_RUNS
) -> tuple[int, int]:
    """Return the number of runs and annotations that fit a budget. Runs are reduced first, then annotations.

    Parameters
    ----------
    estimate : Estimate
        Result of `measure`.
    minutes : float
        The budget.
    runs, rows : int
        The requested number of runs and annotations.
    fewest_runs : int
        Minimum number of runs. There are also at least `FEWEST_ROWS` annotations, so the result may exceed the budget.

    Examples
    --------
    >>> hour = Estimate(fixed=0, per_annotation=0.36)  # ten runs on 1000 annotations
    >>> [fit_budget(hour, minutes, runs=10, rows=1000) for minutes in (60, 31, 12, 1)]
    [(10, 1000), (5, 1000), (3, 666), (3, 500)]
    """
    seconds, fewest = 60 * minutes, min(runs, fewest_runs)
    fitting = math.floor(seconds / max(estimate.seconds(1, rows), 1e-9) + 1e-9)
    if fitting >= fewest:
        return min(runs, fitting), rows
    most = (seconds * estimate.workers / fewest - estimate.fixed) / max(estimate.per_annotation, 1e-12)
    return fewest, min(rows, max(FEWEST_ROWS, int(most)))


def describe_seconds(seconds: float) -> str:
    """Describe roughly how long something takes.

    Examples
    --------
    >>> [describe_seconds(seconds) for seconds in (5, 80, 600, 10_000)]
    ['less than a minute', 'about 1 minute', 'about 10 minutes', 'about 2.8 hours']
    """
    if seconds < 60:
        return "less than a minute"
    if (minutes := round(seconds / 60)) < 90:
        return f"about {minutes} minute{'s' if minutes > 1 else ''}"
    return f"about {seconds / 3600:.1f} hours"


def describe_reduction(minutes: float, parts: Sequence[str], seconds: float) -> str:
    """Describe what was reduced to fit a budget, and whether it still takes longer.

    Examples
    --------
    >>> describe_reduction(5, ["3 of 10 seeds", "a sample"], 900)
    'Budget of 5 minutes: 3 of 10 seeds and a sample; this takes about 15 minutes, the least that is informative.'
    """
    text = f"Budget of {minutes:g} minutes: {' and '.join(parts) or 'nothing was reduced'}"
    if seconds > 60 * minutes:
        text += f"; this takes {describe_seconds(seconds)}, the least that is informative"
    return f"{text}."


def describe_work(trainings: int, rows: int, seconds: float | None, workers: int) -> str:
    """Describe how many networks are trained, and roughly how long that takes.

    Examples
    --------
    >>> describe_work(90, 10_000, 500.0, 2)
    'train 90 times with 10,000 annotations: about 8 minutes on 2 processes, less where training stops early'
    >>> describe_work(90, 10_000, None, 1)
    'train 90 times with 10,000 annotations: the sample was too small to estimate how long this takes'
    """
    text = f"train {trainings:,} times with {rows:,} annotations: "
    if seconds is None:
        return text + "the sample was too small to estimate how long this takes"
    where = f" on {workers} processes" if workers > 1 else ""
    return text + describe_seconds(seconds) + where + ("" if seconds < 60 else ", less where training stops early")

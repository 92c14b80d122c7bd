"""Compare methods: every method with every seed on the same data, and paired differences to No PI."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import joblib
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from lupi._internal.devices import one_thread
from lupi._internal.progress import Steps
from lupi.compare.statistics import ONLY_RUNS, Uncertainty, difference
from lupi.estimators import PrivilegedClassifier, fit_together
from lupi.estimators.base import PrivilegedEstimator

BASELINE = "no-pi"
METRICS = ("nll", "accuracy")
SEEDS_AT_ONCE = 20
"""Seeds that train together; a fixed number, since noise in training depends on it, and the results should not."""


class Task(Protocol):
    """Annotations to train on, and a test set with true labels."""

    @property
    def X_train(self) -> Any:  # noqa: N802
        """Inputs, one row per annotation."""

    @property
    def y_train(self) -> Any:
        """Noisy labels."""

    @property
    def privileged(self) -> Any:
        """Privileged information."""

    @property
    def example(self) -> Any:
        """Ids of examples."""

    @property
    def X_test(self) -> Any:  # noqa: N802
        """Inputs, one row per example."""

    @property
    def y_test(self) -> Any:
        """True labels."""


def compare(
    make_task: Callable[[int], Task],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    parameters: Mapping[str, Any] | None = None,
    jobs: int = 1,
    progress: bool = False,
) -> pd.DataFrame:
    """Train every method with every seed and score it on the test set.

    Parameters
    ----------
    make_task : callable
        From a seed to the data; for one seed all methods get the same data.
    methods : sequence of str
        Names of methods.
    seeds : sequence of int
        Seeds of data, initial weights and batches.
    parameters : mapping, optional
        Parameters of `PrivilegedClassifier`, the same for all methods.
    jobs : int
        Methods at a time, through joblib; the seeds of a method train together.
    progress : bool
        Show progress.

    Returns
    -------
    DataFrame
        One row per method and seed: nll, accuracy, seconds.

    Examples
    --------
    >>> from lupi.datasets import load_digits_annotated
    >>> make_task = lambda seed: load_digits_annotated(random_state=seed)
    >>> runs = compare(make_task, ["no-pi", "tram"], [0, 1], parameters={"epochs": 1})
    >>> summarize(runs).index.tolist()
    ['no-pi', 'tram']
    """
    tasks = {seed: make_task(seed) for seed in seeds}
    groups = [tuple(seeds[start : start + SEEDS_AT_ONCE]) for start in range(0, len(seeds), SEEDS_AT_ONCE)]
    work = [(method, group) for group in groups for method in methods]
    runs = (
        joblib.delayed(run)([tasks[seed] for seed in group], method, group, dict(parameters or {}))
        for method, group in work
    )
    rows: list[dict[str, Any]] = []
    with Steps("compare", len(methods) * len(seeds), show=progress) as steps:
        for done in joblib.Parallel(n_jobs=jobs, return_as="generator")(runs):
            steps.advance(len(done), done[-1]["method"])
            rows += done
    return pd.DataFrame(rows).sort_values("seed", kind="stable", ignore_index=True)


def run(tasks: Sequence[Task], method: str, seeds: Sequence[int], parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """Train one method with several seeds, together where that is possible, and score it."""
    models = [PrivilegedClassifier(method, random_state=seed, **parameters) for seed in seeds]
    sets = [
        {"X": task.X_train, "y": task.y_train, "privileged": task.privileged, "example": task.example} for task in tasks
    ]
    with one_thread():
        seconds = train_together(models, sets)
        rows = []
        for model, task, seed in zip(models, tasks, seeds, strict=True):
            p = model.predict_proba(task.X_test)
            rows.append(
                {
                    "method": method,
                    "seed": seed,
                    "nll": float(log_loss(task.y_test, p, labels=model.classes_)),
                    "accuracy": float(np.mean(model.classes_[p.argmax(1)] == np.asarray(task.y_test))),
                    "seconds": seconds,
                }
            )
    return rows


def train_together(models: Sequence[PrivilegedEstimator], sets: Sequence[Mapping[str, Any]]) -> float:
    """Train the seeds of a method, and return the seconds that each took."""
    begin = time.perf_counter()
    fit_together(models, sets)
    return (time.perf_counter() - begin) / len(models)


def summarize(
    runs: pd.DataFrame, metrics: Sequence[str] = METRICS, uncertainty: Uncertainty = ONLY_RUNS
) -> pd.DataFrame:
    """Mean and standard deviation over seeds, and the paired difference to No PI with its error and 95 % interval.

    Parameters
    ----------
    runs : DataFrame
        One row per method and seed.
    metrics : sequence of str
        Columns of runs.
    uncertainty : Uncertainty
        What adds to the error of differences beside how they vary over seeds.

    Returns
    -------
    DataFrame
        One row per method: for each metric its mean, and with `_sd`, `_difference`, `_error`, `_low`, `_high` and `_p`
        what the names say; seconds.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": ["no-pi", "no-pi", "tram", "tram"], "seed": [0, 1, 0, 1],
    ...                      "nll": [1.0, 2.0, 0.5, 1.0], "accuracy": [0.5, 0.5, 0.5, 0.5], "seconds": [1.0] * 4})
    >>> summarize(runs).loc["tram", ["nll_difference", "nll_error"]].tolist()
    [-0.75, 0.25]
    """
    rows = {}
    for name, own in runs.groupby("method", sort=False):
        row: dict[str, float] = {}
        for metric in metrics:
            row |= {metric: own[metric].mean(), f"{metric}_sd": own[metric].std()}
            gain = difference(runs, str(name), BASELINE, metric, uncertainty)
            low, high = gain.interval()
            own_facts = {"difference": gain.mean, "error": gain.error, "low": low, "high": high, "p": gain.p}
            row |= {f"{metric}_{what}": value for what, value in own_facts.items()}
        rows[name] = row | {"seconds": own["seconds"].mean()}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("method")

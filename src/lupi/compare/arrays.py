"""Compare methods on arrays, with other data for every seed if need be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
import pandas as pd

from lupi._internal.devices import one_thread
from lupi.compare.arms import fit_estimators
from lupi.compare.engine import Arm, run_arms, to_frame
from lupi.compare.results import Comparison
from lupi.compare.statistics import BASELINE, summarize
from lupi.compare.verdict import write_verdict
from lupi.estimators import PrivilegedClassifier
from lupi.methods import kind
from lupi.metrics import METRICS, evaluate

SEEDS_AT_ONCE = 20


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


def compare_methods(
    make_task: Callable[[int], Task],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    parameters: Mapping[str, Any] | None = None,
    seeds_at_once: int = SEEDS_AT_ONCE,
    jobs: int = 1,
    progress: bool = False,
) -> Comparison:
    """Train every method with every seed, score it on the test set, and draw conclusions.

    Parameters
    ----------
    make_task : callable
        From a seed to the data; all methods get the same data for one seed.
    methods : sequence of str
        Names of methods. No PI is always included.
    seeds : sequence of int
        Seeds of data, initial weights and batches.
    parameters : mapping, optional
        Parameters of `PrivilegedClassifier`, the same for all methods.
    seeds_at_once : int
        Seeds that train together. Noise in training depends on it.
    jobs : int
        Groups of seeds to train at a time, through joblib.
    progress : bool
        Whether to show progress.

    Examples
    --------
    >>> from lupi.datasets import load_digits_annotated
    >>> make_task = lambda seed: load_digits_annotated(random_state=seed)
    >>> found = compare_methods(make_task, ["tram"], [0, 1], parameters={"epochs": 1})
    >>> found.summary.index.tolist(), found.metrics
    (['no-pi', 'tram'], ('nll', 'accuracy', 'brier', 'ece'))
    """
    tasks = {seed: make_task(seed) for seed in seeds}
    chosen = list(dict.fromkeys([BASELINE, *methods]))
    arms = [Arm(name=name, train=partial(train_method, name, tasks, dict(parameters or {}))) for name in chosen]
    runs = to_frame(run_arms(arms, seeds, seeds_at_once=seeds_at_once, jobs=jobs, progress=progress))
    runs.insert(1, "control", value=False)
    metrics = tuple(name for name in METRICS if name in runs)
    with_pi = [name for name in chosen if kind(name).uses_privileged]
    return Comparison(
        runs=runs,
        summary=summarize(runs, metrics),
        verdict=write_verdict(runs, with_pi, metrics[0]),
        metrics=metrics,
    )


def train_method(
    method: str, tasks: Mapping[int, Task], parameters: Mapping[str, Any], seeds: Sequence[int]
) -> list[dict[str, float]]:
    """Train a method with a group of seeds, together if possible, and score it."""
    models = [PrivilegedClassifier(method, random_state=seed, **parameters) for seed in seeds]
    own = [tasks[seed] for seed in seeds]
    sets = [
        {"X": task.X_train, "y": task.y_train, "privileged": task.privileged, "example": task.example} for task in own
    ]
    with one_thread():
        seconds = fit_estimators(models, sets)
        found = []
        for model, task in zip(models, own, strict=True):
            codes = pd.Index(model.classes_).get_indexer(pd.Index(np.asarray(task.y_test)))
            if (codes < 0).any():
                label = np.asarray(task.y_test)[codes.argmin()]
                raise ValueError(f"Expected `y_test` to hold labels of the training set, but got {label!r}.")
            scores = evaluate(codes, model.predict_proba(task.X_test))
            found.append({**{name: score.value for name, score in scores.items()}, "seconds": seconds})
    return found

"""Compare methods on arrays, with the same or different data for every seed."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lupi._internal.devices import one_thread
from lupi.compare.engine import Arm, run_arms
from lupi.compare.results import Comparison, conclude
from lupi.compare.statistics import BASELINE
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor, fit_together
from lupi.estimators.scoring import predict_test
from lupi.methods import kind
from lupi.metrics import Grades, Normal, Posterior, Score, evaluate

EARLY, PATIENCE = "early stopping", 5
"""Name of the baseline No PI with early stopping on held-out noisy labels, and its patience in epochs."""

SETTINGS: dict[str, dict[str, Any]] = {
    EARLY: {"patience": PATIENCE},
    "5 averaged": {"method": "stack", "method_options": {"methods": [BASELINE], "folds": 5}},
}
"""Other ways to train No PI, which are separate baselines, and their estimator parameters."""


SAME_DATA = (
    "Seeds redraw initial weights and batches, not the data: intervals cover neither other training labels nor other "
    "test examples."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """Annotations to train on, and a test set to score on.

    Parameters
    ----------
    X_train, y_train : array or DataFrame
        Inputs and noisy labels, one row per annotation.
    privileged : array or DataFrame
        Privileged information, one row per annotation.
    X_test, y_test : array or DataFrame
        Inputs and true labels, one row per example; `y_test` is a `lupi.metrics.Posterior` if true labels are
        uncertain.
    example : array, optional
        Example ids. Annotations with equal ids are labels of the same example.
    sample_weight : array, optional
        Weight of each annotation in training.
    gold : array, optional
        The true label of each annotation's example, −1 where it is unknown.
    """

    X_train: Any
    y_train: Any
    privileged: Any
    X_test: Any
    y_test: Any
    example: Any = None
    sample_weight: Any = None
    gold: Any = None


def compare_methods(
    make_task: Callable[[int], Any],
    methods: Sequence[str],
    seeds: Sequence[int],
    *,
    parameters: Mapping[str, Any] | None = None,
    seeds_at_once: int = 20,
    jobs: int = 1,
    progress: bool = False,
) -> Comparison:
    """Train every method with every seed, score it on the test set, and draw conclusions.

    Parameters
    ----------
    make_task : callable
        Maps a seed to a `Task`, or to an object with the same attributes. For each seed, all methods get the same data.
    methods : sequence of str
        Names of methods. The variants of No PI are always included.
    seeds : sequence of int
        Seeds for data, initial weights and batches.
    parameters : mapping, optional
        Parameters of `PrivilegedClassifier`, the same for all methods.
    seeds_at_once : int
        Number of seeds to train together. Noise in training depends on it.
    jobs : int
        Number of groups of seeds to train in parallel, with joblib.
    progress : bool
        Whether to show progress.

    Examples
    --------
    >>> from lupi.datasets import load_digits_annotated
    >>> make_task = lambda seed: load_digits_annotated(random_state=seed)
    >>> found = compare_methods(make_task, ["tram"], [0, 1], parameters={"epochs": 1})
    >>> found.summary.index.tolist()
    ['no-pi', 'no-pi [early stopping]', 'no-pi [5 averaged]', 'tram']
    """
    tasks = {seed: make_task(seed) for seed in seeds}
    common = {"method": BASELINE, **(parameters or {})}
    blind = {BASELINE: common} | {f"{BASELINE} [{change}]": {**common, **how} for change, how in SETTINGS.items()}
    rows = blind | {name: {**common, "method": name} for name in methods}
    arms = [Arm(name=row, train=partial(train_method, tasks, how)) for row, how in rows.items()]
    runs = run_arms(arms, seeds, seeds_at_once=seeds_at_once, jobs=jobs, progress=progress)
    baselines = [*blind, *filter(is_baseline, methods)]
    compared = [row for row in rows if row not in baselines]
    first, *others = (np.asarray(task.y_train) for task in tasks.values())
    notes = [SAME_DATA] if all(np.array_equal(labels, first) for labels in others) else []
    return conclude(runs, compared, baselines=list(dict.fromkeys(baselines)), notes=notes)


def is_baseline(method: str) -> bool:
    """Return whether a method is a baseline without privileged information."""
    return kind(method).aggregates or not kind(method).uses_privileged


def train_method(tasks: Mapping[int, Any], parameters: Mapping[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Train a method with a group of seeds, together if possible, and score it."""
    models = [PrivilegedClassifier(**parameters, random_state=seed) for seed in seeds]
    chosen = [tasks[seed] for seed in seeds]
    optional = ("example", "sample_weight", "gold")
    sets = [
        {"X": task.X_train, "y": task.y_train, "privileged": task.privileged}
        | {name: getattr(task, name, None) for name in optional}
        for task in chosen
    ]
    with one_thread():
        begin = time.perf_counter()
        fit_together(models, sets)
        seconds = (time.perf_counter() - begin) / len(models)
        found = [score(model, task.X_test, task.y_test, seconds) for model, task in zip(models, chosen, strict=True)]
    return [result.values() for result in found]


class Result(NamedTuple):
    """The predictions of a fitted estimator on a test set, their scores, and the seconds of training."""

    y: NDArray[Any] | Posterior
    prediction: NDArray[np.float64] | Normal
    scores: dict[str, Score]
    seconds: float

    def values(self) -> dict[str, Any]:
        """Return the numbers of the run by name."""
        return {name: score.value for name, score in self.scores.items()} | {"seconds": self.seconds}


def score(model: PrivilegedClassifier | PrivilegedRegressor, X: Any, y: Any, seconds: float) -> Result:
    """Score a fitted estimator on a test set."""
    y, prediction = predict_test(model, X, y)
    graded = isinstance(model, PrivilegedClassifier) and model._target.ordinal
    return Result(y, prediction, evaluate(y, Grades(np.asarray(prediction)) if graded else prediction), seconds)

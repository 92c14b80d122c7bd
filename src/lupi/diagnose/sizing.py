"""Estimate how long a diagnosis takes, and how large a sample fits a time budget."""

from dataclasses import replace

from lupi._internal.devices import one_thread
from lupi._internal.progress import show_line
from lupi.compare.budget import (
    QUICK,
    Estimate,
    Probe,
    describe_reduction,
    describe_work,
    fit_budget,
    measure,
    probe_size,
    require,
)
from lupi.diagnose.columns import WIDER
from lupi.diagnose.predictions import predict_out_of_fold
from lupi.diagnose.problem import TRAINING, Problem
from lupi.tabular.folds import take_rows
from lupi.tabular.sampling import sample_rows


def count_networks(problem: Problem) -> dict[str, int]:
    """Return how many networks are trained per fold: plain ones, wider ones, and those that rank labels.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> problem = Problem(np.zeros((60, 1)), np.arange(60) % 2, pd.DataFrame({"who": 0, "when": np.arange(60)}))
    >>> count_networks(problem)
    {'plain': 5, 'wide': 1, 'judging': 1}
    """
    columns = len(problem.privileged.columns)
    judged = not problem.real and problem.y.ndim == 1
    judging = judged * ((problem.probabilities is None) + (problem.gold is not None))
    return {"plain": 1 + columns + (columns > 1) + 1, "wide": 1, "judging": judging}


def estimate_problem(problem: Problem, workers: int) -> Estimate | None:
    """Train the networks of a diagnosis for a few steps on a small sample, and estimate the total time."""
    rows = sample_rows(problem.group, probe_size(len(problem.y), problem.batch_size), problem.seed)
    small = replace(
        problem,
        X=take_rows(problem.X, rows),
        y=problem.y[rows],
        privileged=problem.privileged.iloc[rows],
        example=problem.group[rows],
        annotator=None,
        gold=None,
        probabilities=None,
        weight=None if problem.weight is None else problem.weight[rows],
    )
    columns, given = [str(name) for name in problem.privileged], {"batch_size": problem.batch_size}

    def losses(epochs: int, width: int = 1) -> object:
        return replace(small, parameters={**given, **problem.parameters, "epochs": epochs}).losses(columns, width=width)

    def predict(epochs: int) -> object:
        training = {**problem.judging_parameters(), "epochs": epochs}
        with one_thread():
            return predict_out_of_fold(
                small.X,
                small.target_codes,
                privileged=small.privileged,
                example=small.group,
                method=problem.method,
                folds=problem.folds,
                parameters={**training, "numbers": small.encoding(columns)},
            )

    count = count_networks(problem)
    probes = [Probe(losses, count["plain"]), Probe(lambda epochs: losses(epochs, WIDER), count["wide"])]
    if count["judging"]:
        probes.append(Probe(predict, count["judging"]))
    return measure(probes, epochs=count_epochs(problem), rows=len(rows), workers=workers)


def count_epochs(problem: Problem) -> int:
    """Return the maximum number of epochs of a training run."""
    return int({**TRAINING, **problem.parameters}["epochs"])


def fit_sample(problem: Problem, minutes: float, estimate: Estimate | None) -> tuple[int, str]:
    """Return how many annotations can be diagnosed in a number of minutes, and a sentence that says so."""
    rows, estimate = len(problem.y), require(estimate)
    _, size = fit_budget(estimate, minutes, runs=1, rows=rows)
    parts = [f"a sample of {size:,} of {rows:,} annotations"] if size < rows else []
    return size, describe_reduction(minutes, parts, estimate.seconds(1, size))


def show_work(problem: Problem, estimate: Estimate | None, workers: int) -> None:
    """Print how many networks will be trained and roughly how long that takes."""
    rows = len(problem.y)
    seconds: float | None = 0.0
    if rows * problem.folds * count_epochs(problem) > QUICK:
        estimate = estimate or estimate_problem(problem, workers)
        seconds = None if estimate is None else estimate.seconds(1, rows)
    trainings = problem.folds * sum(count_networks(problem).values())
    show_line(describe_work(trainings, rows, seconds, workers))

"""The arms of a comparison on a table: methods, the baseline without privileged information (PI), and controls.

Every method with PI has three controls: the same method with zeros, with the values of other annotations, and with
random values in place of PI. What they gain does not come from the content of PI. No PI has one control, early
stopping on held-out noisy labels, because much of a gain on noisy labels can be less overfitting.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lupi import methods as known
from lupi.compare.arrays import Task, fit_and_score
from lupi.compare.plan import Plan
from lupi.compare.statistics import BASELINE
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
from lupi.likelihoods import Categorical, Gaussian
from lupi.metrics import reliability
from lupi.tabular.dataset import TableDataset
from lupi.tabular.features import encode_columns, fit_encoders
from lupi.tabular.folds import Rows

ZEROS, SHUFFLED, RANDOM, EARLY = "PI zeros", "PI shuffled", "PI random", "early stopping"
PATIENCE = 5
"""Epochs without a lower held-out loss after which the early-stopping control stops."""
SUMS = ["count", "confidence", "correct"]
"""Columns of a reliability table that are summed over runs."""


class Variant(NamedTuple):
    """A method, or a control of it."""

    method: str
    control: str = ""

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.method} [{self.control}]" if self.control else self.method

    @property
    def uses_privileged(self) -> bool:
        """Whether the method learns from privileged information."""
        return known.kind(self.method).uses_privileged


def list_variants(plan: Plan, task: str) -> list[Variant]:
    """List No PI, the methods of a plan and their controls.

    Examples
    --------
    >>> from pathlib import Path
    >>> from lupi.tabular import TableSpec
    >>> spec = TableSpec(table=Path("table.csv"), target=["label"], privileged=["annotator"])
    >>> plan = Plan(spec=spec, methods=["tram"], controls=True)
    >>> [variant.name for variant in list_variants(plan, "classification")][:4]
    ['no-pi', 'tram', 'no-pi [early stopping]', 'tram [PI zeros]']
    """
    likelihood = Gaussian if task == "regression" else Categorical
    possible = [name for name in known.names() if likelihood in known.kind(name).likelihoods]
    for name in plan.methods:
        if name not in possible:
            raise ValueError(f"Expected `methods` for a target of real numbers, but {name!r} is for classes.")
    chosen = [Variant(name) for name in dict.fromkeys([BASELINE, *(plan.methods or possible)])]
    if not plan.controls:
        return chosen
    with_pi = [variant.method for variant in chosen if variant.uses_privileged]
    controls = [Variant(method, control) for method in with_pi for control in (ZEROS, SHUFFLED, RANDOM)]
    return [*chosen, Variant(BASELINE, EARLY), *controls]


def make_privileged(
    variant: Variant, real: pd.DataFrame, kinds: Mapping[str, str], seed: int
) -> tuple[pd.DataFrame | None, Any]:
    """Return the privileged information that a variant trains with, and how its numbers are encoded.

    Shuffled values are whole rows of other annotations. Random values are drawn independently: categories uniformly
    among their values, numbers uniformly between 0 and 1.
    """
    rng = np.random.default_rng([seed, len(real)])
    numbers = {name: "category" if kind == "category" else "quantile" for name, kind in kinds.items()}
    if not variant.uses_privileged:
        return None, "quantile"
    if variant.control == ZEROS:
        return pd.DataFrame({"nothing": np.zeros(len(real))}), {"nothing": "standardize"}
    if variant.control == SHUFFLED:
        return real.iloc[rng.permutation(len(real))].reset_index(drop=True), numbers
    if variant.control == RANDOM:
        for name, kind in kinds.items():
            values = np.asarray(real[name].dropna().unique())
            if len(values):
                drawn = rng.choice(values, len(real)) if kind == "category" else rng.random(len(real))
                real = real.assign(**{name: drawn})
    return real, numbers


# -------------------------------------------------------------------------------- training


def make_tasks(data: TableDataset, splits: Sequence[tuple[Rows, Rows]]) -> list[Task]:
    """Take the rows of each split; with a test table all splits are equal, and their rows are taken once."""
    if data.test is not None:
        return [make_task(data, *splits[0])] * len(splits)
    return [make_task(data, *split) for split in splits]


def make_task(data: TableDataset, train_rows: Rows, test_rows: Rows) -> Task:
    """Take the rows of a split; encoders are fitted on the training rows only."""
    train, test = data.train.take(train_rows), (data.test or data.train).take(test_rows)
    encoders = fit_encoders(train.X, data.unencoded)
    return Task(
        X_train=encode_columns(train.X, encoders),
        y_train=train.y,
        privileged=data.privileged.iloc[train_rows].reset_index(drop=True),
        example=train.example,
        X_test=encode_columns(test.X, encoders),
        y_test=test.y,
    )


def train_variant(
    variant: Variant, plan: Plan, data: TableDataset, splits: Sequence[tuple[Rows, Rows]], seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Train a variant with a group of seeds, together if possible, and score it.

    Returns
    -------
    list of dict
        The metrics and seconds of each run, and for the group as a whole, in its first dict: the warnings, the
        contributions of the test rows summed over the runs (`rows_…`) and the sums of the reliability diagram (`bins`).
    """
    make = PrivilegedRegressor if data.task == "regression" else PrivilegedClassifier
    parameters = {**plan.settings, "patience": PATIENCE if variant.control == EARLY else None, "device": plan.device}
    models, tasks = [], []
    for task, seed in zip(make_tasks(data, [splits[seed] for seed in seeds]), seeds, strict=True):
        privileged, numbers = make_privileged(variant, task.privileged, data.schema.privileged, seed)
        annotator = data.annotator if privileged is not None and data.annotator in privileged else None
        options = {"numbers": numbers, "annotator": annotator, "random_state": seed}
        models.append(make(variant.method, **options, **parameters))
        tasks.append(task._replace(privileged=privileged))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            results = fit_and_score(models, tasks)
        except (ValueError, FloatingPointError) as error:
            raise ValueError(f"Expected {variant.name} to train, but got: {error}") from error
    found = [result.values() for result in results]
    found[0]["warnings"] = np.array(sorted({str(warning.message) for warning in caught}), dtype=str)
    if data.test is not None:
        for metric in results[0].scores:
            rows = [score.rows for result in results if (score := result.scores[metric]).rows is not None]
            if rows:
                found[0][f"rows_{metric}"] = np.sum(rows, axis=0)
    if data.task != "regression":
        tables = [reliability(result.y, np.asarray(result.prediction)) for result in results]
        found[0]["bins"] = np.sum([table[SUMS].to_numpy(float) for table in tables], axis=0)
    return found

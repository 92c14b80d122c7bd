"""The arms of a comparison on a table: methods with privileged information (PI), baselines without it, and controls.

The baselines are the alternatives to using PI: No PI; No PI with early stopping on held-out noisy labels, because much
of a gain on noisy labels can come from less overfitting; the recalibrated average of five No PI networks; and, if
examples have several labels, No PI on aggregated labels. With controls, every method with PI is also trained with
zeros, shuffled values and random values instead of PI. A gain of a control cannot come from the content of PI.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lupi import methods as known
from lupi._internal.arrays import Floats
from lupi.compare.arrays import SETTINGS, Task, fit_and_score, is_baseline
from lupi.compare.consensus import first_rows, take_gold
from lupi.compare.plan import ALL, Plan
from lupi.compare.statistics import BASELINE
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
from lupi.likelihoods import Categorical, Gaussian
from lupi.metrics import Posterior, reliability
from lupi.tabular.columns import estimator_kinds, privileged_encoding
from lupi.tabular.dataset import TableDataset
from lupi.tabular.encoding import MissingValuesWarning
from lupi.tabular.features import encode_columns, fit_encoders
from lupi.tabular.folds import Rows
from lupi.tabular.values import as_text

DEFAULT = ("tram", "pi-transition", "pi-dual", "mean-imputation", "label-posterior", "auto")
"""Methods to compare by default, if they are registered and support the target."""
ZEROS, SHUFFLED, RANDOM = CONTROLS = ("PI zeros", "PI shuffled", "PI random")
SUMS = ["count", "confidence", "correct"]
"""Columns of a reliability table to sum over runs."""


class Variant(NamedTuple):
    """A method, possibly with other training settings (`SETTINGS`) or replaced privileged information (`CONTROLS`)."""

    method: str
    change: str = ""

    @property
    def name(self) -> str:
        """The name in tables."""
        return f"{self.method} [{self.change}]" if self.change else self.method

    @property
    def is_control(self) -> bool:
        """Whether the privileged information is replaced."""
        return self.change in CONTROLS

    @property
    def is_baseline(self) -> bool:
        """Whether this is a baseline without privileged information."""
        return is_baseline(self.method)

    @property
    def uses_privileged(self) -> bool:
        """Whether the method learns from privileged information, including the annotators."""
        return known.kind(self.method).uses_privileged


def list_variants(plan: Plan, task: str, *, several: bool = False) -> list[Variant]:
    """List the baselines without privileged information, the methods of a plan and their controls."""
    likelihood = Gaussian if task == "regression" else Categorical
    possible = [name for name in known.names() if likelihood in known.kind(name).likelihoods]
    usual = [name for name in DEFAULT if name in possible]
    requested = possible if ALL in plan.methods else plan.methods or usual
    for name in requested:
        if name not in possible:
            raise ValueError(f"Expected `methods` for a target of real numbers, but {name!r} is for classes.")
    aggregated = [name for name in possible if several and known.kind(name).aggregates]
    changes = [change for change, how in SETTINGS.items() if how.get("method", BASELINE) in possible]
    alone = [Variant(BASELINE), *(Variant(BASELINE, change) for change in changes), *map(Variant, aggregated)]
    chosen = list(dict.fromkeys([*alone, *map(Variant, requested)]))
    with_pi = [variant.method for variant in chosen if plan.controls and not variant.is_baseline]
    return [*chosen, *(Variant(method, control) for method in with_pi for control in CONTROLS)]


def make_privileged(
    variant: Variant, real: pd.DataFrame, kinds: Mapping[str, str], seed: int
) -> tuple[pd.DataFrame | None, Any]:
    """Return the privileged information for training a variant, and the encoding of its numbers.

    Shuffling permutes whole rows. Random values are drawn independently: categories uniformly from their values, and
    numbers uniformly between 0 and 1.
    """
    rng = np.random.default_rng([seed, len(real)])
    numbers = privileged_encoding(kinds)
    if not variant.uses_privileged:
        return None, "quantile"
    if variant.change == ZEROS:
        return pd.DataFrame({"nothing": np.zeros(len(real))}), {"nothing": "standardize"}
    if variant.change == SHUFFLED:
        return real.iloc[rng.permutation(len(real))].reset_index(drop=True), numbers
    if variant.change == RANDOM:
        for name, kind in kinds.items():
            known = real[name].dropna()
            values = known.to_numpy() if kind == "vector" else np.asarray(known.unique())
            if len(values):
                drawn = rng.random(len(real)) if kind == "number" else rng.choice(values, len(real))
                real = real.assign(**{name: drawn})
    return real, numbers


# -------------------------------------------------------------------------------- training


def make_tasks(
    data: TableDataset, splits: Sequence[tuple[Rows, Rows]], truth: Sequence[Floats] | None = None
) -> list[Task]:
    """Make the task of each split. With a test table all splits are equal, and one task is made for all."""
    if data.test is not None:
        return [make_task(data, *splits[0])] * len(splits)
    if truth is None:
        return [make_task(data, *split) for split in splits]
    tasks = []
    for (train, test), own in zip(splits, truth, strict=True):
        task = make_task(data, train, test[first_rows(data.train.example[test])])
        tasks.append(replace(task, y_test=Posterior(own)))
    return tasks


def make_task(data: TableDataset, train_rows: Rows, test_rows: Rows) -> Task:
    """Make the task of a split; encoders are fitted on the training rows only."""
    train, test = data.train.take(train_rows), (data.test or data.train).take(test_rows)
    encoders = fit_encoders(train.X, data.unencoded)
    return Task(
        X_train=encode_columns(train.X, encoders),
        y_train=train.y if train.soft is None else train.soft,
        privileged=data.privileged.iloc[train_rows].reset_index(drop=True),
        example=train.example,
        X_test=encode_columns(test.X, encoders),
        y_test=test.y if test.soft is None else Posterior(test.soft),
        sample_weight=train.weight,
        gold=take_gold(data, train_rows, np.unique(train.y)),
    )


def choose_trust(
    variant: Variant, plan: Plan, privileged: pd.DataFrame | None, annotator: str | None
) -> dict[str, float] | None:
    """Return the trust in the annotators of a training set, for methods with a model of the annotators."""
    if not known.kind(variant.method).models_annotators or privileged is None or annotator is None:
        return None
    names = {as_text(name) for name in privileged[annotator].dropna().unique()}
    return {name: value for name, value in plan.spec.trust.items() if name in names} or None


def train_variant(
    variant: Variant,
    plan: Plan,
    data: TableDataset,
    splits: Sequence[tuple[Rows, Rows]],
    truth: Mapping[int, Floats] | None,
    seeds: Sequence[int],
) -> list[dict[str, Any]]:
    """Train a variant with a group of seeds, together if possible, and score it."""
    make = PrivilegedRegressor if data.task == "regression" else PrivilegedClassifier
    parameters = {"method": variant.method, **plan.settings, **SETTINGS.get(variant.change, {}), "device": plan.device}
    if data.train.soft is not None:
        parameters["soft"] = True
    models, tasks = [], []
    own = None if truth is None else [truth[seed] for seed in seeds]
    for task, seed in zip(make_tasks(data, [splits[seed] for seed in seeds], own), seeds, strict=True):
        privileged, numbers = make_privileged(variant, task.privileged, data.schema.privileged, seed)
        annotator = data.annotator if privileged is not None and data.annotator in privileged else None
        options = {"numbers": numbers, "annotator": annotator, "random_state": seed}
        options["kind"] = estimator_kinds(data.schema.inputs)
        options["trust"] = choose_trust(variant, plan, privileged, annotator)
        models.append(make(**options, **parameters))
        tasks.append(replace(task, privileged=privileged))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if data.test is None:
            warnings.simplefilter("ignore", MissingValuesWarning)
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

"""The arms of a comparison on a table: methods with privileged information (PI), baselines without it, and controls.

The baselines are the alternatives to using PI: No PI; No PI with early stopping on held-out noisy labels, because much
of a gain on noisy labels can come from less overfitting; the average of five No PI networks; and, if
examples have several labels, No PI on aggregated labels. With controls, every method with PI is also trained with
zeros, shuffled values and random values instead of PI. A gain of a control cannot come from the content of PI.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lupi import methods as known
from lupi._internal.devices import one_thread
from lupi.compare.arrays import SETTINGS, Result, is_baseline, score
from lupi.compare.held_out import first_rows
from lupi.compare.plan import ALL, Plan, Setup
from lupi.compare.statistics import BASELINE
from lupi.estimators import PrivilegedClassifier
from lupi.estimators.table_estimator import TableEstimator, fit_tables
from lupi.likelihoods import Categorical, Gaussian
from lupi.metrics import SUMS, Posterior, reliability
from lupi.tabular.encoding import MissingValuesWarning
from lupi.tabular.grouping import Rows
from lupi.tabular.table_data import TableData

DEFAULT = ("tram", "pi-transition", "pi-dual", "mean-imputation", "label-posterior", "auto")
"""Methods to compare by default, if they are registered and support the target."""
ZEROS, SHUFFLED, RANDOM = CONTROLS = ("PI zeros", "PI shuffled", "PI random")


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


def list_variants(plan: Plan, task: str, *, several: bool = False) -> list[Variant]:
    """List the baselines without privileged information, the methods of a plan and their controls."""
    likelihood = Gaussian if task == "regression" else Categorical
    possible = [
        name
        for name in known.names()
        if likelihood in known.kind(name).likelihoods
        and not (plan.of_labels and not known.kind(name).can_predict_labels())
    ]
    usual = [name for name in DEFAULT if name in possible]
    requested = possible if ALL in plan.methods else plan.methods or usual
    for name in requested:
        if name not in possible:
            what = "that predict labels" if plan.of_labels else "for a target of real numbers"
            raise ValueError(f"Expected `methods` {what}, but got {name!r}.")
    aggregated = [name for name in possible if several and known.kind(name).aggregates]
    changes = [change for change, how in SETTINGS.items() if how.get("method", BASELINE) in possible]
    alone = [Variant(BASELINE), *(Variant(BASELINE, change) for change in changes), *map(Variant, aggregated)]
    chosen = list(dict.fromkeys([*alone, *map(Variant, requested)]))
    with_pi = [variant.method for variant in chosen if plan.controls and not variant.is_baseline]
    return [*chosen, *(Variant(method, control) for method in with_pi for control in CONTROLS)]


def change_privileged(variant: Variant, data: TableData, seed: int) -> TableData:
    """Return the rows to train a variant on: without privileged information, with it, or with that of a control.

    Shuffling permutes whole rows. Random values are drawn independently: categories uniformly from their values, and
    numbers uniformly between 0 and 1.
    """
    if not known.kind(variant.method).uses_privileged:
        return replace(data, schema=replace(data.schema, privileged={}))
    real, kinds = data.privileged, data.schema.privileged
    assert isinstance(real, pd.DataFrame)
    rng = np.random.default_rng([seed, len(real)])
    if variant.change == ZEROS:
        return data.with_privileged(pd.DataFrame({"nothing": np.zeros(len(real))}), {"nothing": "standardized"})
    if variant.change == SHUFFLED:
        return data.with_privileged(real.iloc[rng.permutation(len(real))], kinds)
    if variant.change == RANDOM:
        for name, kind in kinds.items():
            seen = real[name].dropna()
            values = seen.to_numpy() if kind == "vector" else np.asarray(seen.unique())
            if len(values):
                drawn = rng.random(len(real)) if kind in ("number", "standardized") else rng.choice(values, len(real))
                real = real.assign(**{name: drawn})
        return data.with_privileged(real, kinds)
    return data


# -------------------------------------------------------------------------------- training


def train_variant(variant: Variant, setup: Setup, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Train a variant with a group of seeds, together if possible, and score it."""
    data, test, splits, truth = setup.data, setup.test, setup.splits, setup.truth or {}
    common = {**setup.plan.settings, **SETTINGS.get(variant.change, {}), "device": setup.plan.device}
    method = common.pop("method", variant.method)
    rows = [change_privileged(variant, data.take(splits[seed][0]), seed) for seed in seeds]
    models = [
        TableEstimator(one.schema, method, {**common, "random_state": seed})
        for one, seed in zip(rows, seeds, strict=True)
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if test is None:
            warnings.simplefilter("ignore", MissingValuesWarning)
        try:
            with one_thread():
                begin = time.perf_counter()
                fit_tables(models, rows)
                seconds = (time.perf_counter() - begin) / len(models)
                results = [
                    score_table(model, test or data, splits[seed][1], truth.get(seed), seconds)
                    for model, seed in zip(models, seeds, strict=True)
                ]
        except (ValueError, FloatingPointError) as error:
            raise ValueError(f"Expected {variant.name} to train, but got: {error}") from error
    found = [result.values() for result in results]
    found[0]["warnings"] = np.array(sorted({str(warning.message) for warning in caught}), dtype=str)
    if test is not None:
        for metric in results[0].scores:
            per_row = [score.rows for result in results if (score := result.scores[metric]).rows is not None]
            if per_row:
                found[0][f"rows_{metric}"] = np.sum(per_row, axis=0)
    if data.schema.task != "regression":
        tables = [reliability(result.y, np.asarray(result.prediction)) for result in results]
        found[0]["bins"] = np.sum([table[SUMS].to_numpy(float) for table in tables], axis=0)
    return found


def score_table(model: TableEstimator, data: TableData, rows: Rows, truth: Posterior | None, seconds: float) -> Result:
    """Score a model on rows of a table or, if their true labels are uncertain, on the first row of each example."""
    held_out = data.take(rows if truth is None else rows[first_rows(data.group[rows])])
    y: Any = held_out.labels
    if data.schema.soft and truth is None:
        truth = Posterior(np.asarray(y, dtype=np.float64))
    if truth is not None:  # its columns are all classes, some of which the training rows may lack
        assert isinstance(model.estimator, PrivilegedClassifier)
        columns = pd.Index(data.classes).get_indexer(pd.Index(model.estimator.classes_))
        y = Posterior(truth.p[:, columns], None if truth.evidence is None else truth.evidence[:, columns])
    return score(model.estimator, held_out.inputs, y, seconds)

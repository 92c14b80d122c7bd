"""The arms of a comparison on a table: methods, the baseline without privileged information (PI), and controls.

Every method with PI has three controls: the same method with zeros, with the values of other annotations, and with
random values in place of PI. What they gain does not come from the content of PI. No PI has one control, early
stopping on held-out noisy labels, because much of a gain on noisy labels can be less overfitting.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi import methods as known
from lupi._internal.devices import one_thread
from lupi.compare.plan import Plan, Split
from lupi.compare.statistics import BASELINE
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor, fit_together
from lupi.estimators.base import PrivilegedEstimator
from lupi.likelihoods import Categorical, Gaussian
from lupi.metrics import Normal, evaluate, reliability
from lupi.tabular.dataset import TableDataset, TableRows
from lupi.tabular.features import encode_columns, fit_encoders

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


class TrainTest(NamedTuple):
    """Training rows with their privileged information, and test rows; texts are encoded."""

    train: TableRows
    privileged: pd.DataFrame
    test: TableRows


def take_split(data: TableDataset, split: Split) -> TrainTest:
    """Take the rows of a split; encoders are fitted on the training rows only."""
    train, test = data.train.take(split.train), (data.test or data.train).take(split.test)
    encoders = fit_encoders(train.X, {name: data.schema.inputs[name] for name in data.encoded})
    train, test = (TableRows(encode_columns(part.X, encoders), part.y, part.example) for part in (train, test))
    return TrainTest(train, data.privileged.iloc[split.train].reset_index(drop=True), test)


def take_splits(data: TableDataset, splits: Sequence[Split]) -> list[TrainTest]:
    """Take the rows of several splits; with a test table they are all the same, and taken once."""
    if data.test is not None:
        return [take_split(data, splits[0])] * len(splits)
    return [take_split(data, split) for split in splits]


def train_variant(
    variant: Variant, plan: Plan, data: TableDataset, splits: Sequence[Split], seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Train a variant with a group of seeds, together if possible, and score it.

    Returns
    -------
    list of dict
        The metrics and seconds of each run, and for the group as a whole, in its first dict: the warnings, the
        contributions of the test rows summed over the runs (`rows_…`) and the sums of the reliability diagram (`bins`).
    """
    parts = take_splits(data, [splits[seed] for seed in seeds])
    make = PrivilegedRegressor if data.task == "regression" else PrivilegedClassifier
    parameters = {**plan.settings, "patience": PATIENCE if variant.control == EARLY else None, "device": plan.device}
    models, sets = [], []
    for part, seed in zip(parts, seeds, strict=True):
        privileged, numbers = make_privileged(variant, part.privileged, data.schema.privileged, seed)
        models.append(make(variant.method, numbers=numbers, random_state=seed, **parameters))
        sets.append({"X": part.train.X, "y": part.train.y, "privileged": privileged, "example": part.train.example})
    with one_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            seconds = fit_estimators(models, sets)
            predictions = [
                predict_rows(model, part.test.X, len(data.classes)) for model, part in zip(models, parts, strict=True)
            ]
        except (ValueError, FloatingPointError) as error:
            raise ValueError(f"Expected {variant.name} to train, but got: {error}") from error
    scores = [evaluate(part.test.y, prediction) for part, prediction in zip(parts, predictions, strict=True)]
    found: list[dict[str, Any]] = [
        {**{metric: score.value for metric, score in own.items()}, "seconds": seconds} for own in scores
    ]
    found[0]["warnings"] = np.array(sorted({str(warning.message) for warning in caught}), dtype=str)
    if data.test is not None:
        for metric in scores[0]:
            rows = [score.rows for own in scores if (score := own[metric]).rows is not None]
            if rows:
                found[0][f"rows_{metric}"] = np.sum(np.stack(rows), axis=0)
    if data.task != "regression":
        tables = [reliability(part.test.y, np.asarray(p)) for part, p in zip(parts, predictions, strict=True)]
        found[0]["bins"] = np.sum([table[SUMS].to_numpy(float) for table in tables], axis=0)
    return found


def fit_estimators(models: Sequence[PrivilegedEstimator], sets: Sequence[Mapping[str, Any]]) -> float:
    """Fit estimators that differ in seed and data, together if possible, and return the seconds per estimator."""
    begin = time.perf_counter()
    fit_together(models, sets)
    return (time.perf_counter() - begin) / len(models)


def predict_rows(model: PrivilegedEstimator, X: pd.DataFrame, classes: int) -> NDArray[np.float64] | Normal:
    """Predict the probabilities of all classes, or normal distributions."""
    if isinstance(model, PrivilegedRegressor):
        output = model._outputs(X).double().numpy()
        variance = output[:, 1] * model.y_scale_**2 if output.shape[1] == 2 else None
        return Normal(model.predict(X), variance)
    assert isinstance(model, PrivilegedClassifier)
    p = model.predict_proba(X)
    if model.multi_label_:
        return p
    full = np.zeros((len(p), classes))
    full[:, model.classes_] = p  # the training rows may lack a rare class
    return full

"""The consensus of held-out labels, which replaces true labels where there is no test table.

On noisy labels, a method that predicts the true label looks worse than one that predicts the noise. Methods are
therefore scored on the true label of each held-out example if it is known, and otherwise on its posterior P(z | x,
labels), given the labels, their annotators and the prediction of a model (`lupi.crowd.infer`). Scores are expectations
under this posterior. If the posterior is correct, their mean equals the mean score on true labels, for every method
that was not trained on held-out examples. The posterior must depend on x: if z were inferred from the labels alone,
what a method predicts from x would not count where the labels leave z open.

The model is one No PI network with early stopping per split, trained on the training rows of the split with a separate
seed. It is not an arm of the comparison, so no prediction is scored on itself, and all arms are scored on the same
posterior. Where the labels leave z open, the posterior follows No PI, including its mistakes, so it may favour
baselines like No PI. docs/results/consensus.md measures how well it ranks methods.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lupi._internal.arrays import Floats
from lupi._internal.devices import one_thread
from lupi.compare.arrays import PATIENCE
from lupi.compare.plan import Plan
from lupi.compare.statistics import BASELINE
from lupi.crowd import infer
from lupi.crowd.trusted import read_trust
from lupi.estimators import PrivilegedClassifier, fit_together
from lupi.tabular.columns import estimator_kinds
from lupi.tabular.dataset import TableDataset
from lupi.tabular.encoding import MissingValuesWarning
from lupi.tabular.features import encode_columns, fit_encoders
from lupi.tabular.folds import Rows
from lupi.tabular.spec import TableSpec
from lupi.tabular.targets import code_gold

SEED = 1_000_000
"""Added to the seeds of the comparison, so that the model of the consensus differs from all arms."""


def uses_consensus(data: TableDataset) -> bool:
    """Return whether methods are scored on the consensus of held-out labels."""
    return data.test is None and data.task == "classification"


def first_rows(example: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of the first row of each example, in order of appearance."""
    return np.sort(np.unique(example, return_index=True)[1])


def take_gold(data: TableDataset, rows: Rows, classes: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the true classes of the given rows, −1 where they are unknown or not among `classes`."""
    if data.gold is None:
        return None
    codes = np.nan_to_num(code_gold(data.gold, data.classes), nan=-1).astype(np.int64)[rows]
    return np.where(np.isin(codes, classes), codes, -1)


def check_trust(spec: TableSpec, data: TableDataset) -> None:
    """Check the names and values of the trust in annotators before any training."""
    if spec.trust and data.annotators is not None:
        read_trust(spec.trust, np.unique(data.annotators.astype(str)))


def take_trust(trust: Mapping[str, float], annotators: NDArray[Any] | None) -> dict[str, float] | None:
    """Return the trust in the given annotators only, since a part of a table may lack some annotators."""
    if annotators is None:
        return None
    names = set(annotators.tolist())
    return {name: value for name, value in trust.items() if name in names} or None


def infer_consensus(
    plan: Plan, data: TableDataset, splits: Sequence[tuple[Rows, Rows]], seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Infer the true labels of held-out examples for a group of seeds."""
    parameters = {**plan.settings, "patience": PATIENCE, "device": plan.device, "soft": data.train.soft is not None}
    parameters["kind"] = estimator_kinds(data.schema.inputs)
    models = [PrivilegedClassifier(BASELINE, random_state=SEED + seed, **parameters) for seed in seeds]
    sets, held_out = [], []
    for train, test in (splits[seed] for seed in seeds):
        rows = data.train.take(train)
        encoders = fit_encoders(rows.X, data.unencoded)
        y = rows.y if rows.soft is None else rows.soft
        X = encode_columns(rows.X, encoders)
        gold = take_gold(data, train, np.unique(rows.y))
        sets.append({"X": X, "y": y, "example": rows.example, "sample_weight": rows.weight, "gold": gold})
        held_out.append(encode_columns(data.train.take(test).X, encoders))
    with one_thread(), warnings.catch_warnings(action="ignore", category=MissingValuesWarning):
        fit_together(models, sets)
        predictions = [model.predict_proba(X) for model, X in zip(models, held_out, strict=True)]
    found = []
    for model, seed, p in zip(models, seeds, predictions, strict=True):
        test = splits[seed][1]
        rows, who = data.train.take(test), None if data.annotators is None else data.annotators[test]
        label = np.searchsorted(model.classes_, rows.y)
        gold = take_gold(data, test, model.classes_)
        gold = None if gold is None else np.where(gold < 0, -1, np.searchsorted(model.classes_, gold))
        trust = take_trust(plan.spec.trust, who)
        truth: Floats = np.zeros((len(np.unique(rows.example)), len(data.classes)))
        found_truth = infer(p, label, example=rows.example, annotator=who, gold=gold, trust=trust)
        truth[:, model.classes_] = found_truth.truth
        found.append({"truth": truth})
    return found

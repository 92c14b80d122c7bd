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
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi._internal.arrays import Floats
from lupi._internal.devices import one_thread
from lupi.compare.arrays import PATIENCE
from lupi.compare.plan import Plan
from lupi.compare.statistics import BASELINE
from lupi.crowd import infer
from lupi.crowd.grades import infer_grades
from lupi.estimators import PrivilegedClassifier
from lupi.estimators.table_estimator import TableEstimator, fit_tables
from lupi.tabular.encoding import MissingValuesWarning
from lupi.tabular.grouping import Rows
from lupi.tabular.table_data import TableData

SEED = 1_000_000
"""Added to the seeds of the comparison, so that the model of the consensus differs from all arms."""


def uses_consensus(data: TableData, test: TableData | None) -> bool:
    """Return whether methods are scored on the consensus of held-out labels."""
    return test is None and data.schema.task == "classification" and not data.schema.several


def first_rows(example: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of the first row of each example, in order of appearance."""
    return np.sort(np.unique(example, return_index=True)[1])


def infer_consensus(
    plan: Plan, data: TableData, splits: Sequence[tuple[Rows, Rows]], seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Infer the true labels of held-out examples for a group of seeds."""
    settings = {**plan.settings, "patience": PATIENCE, "device": plan.device}
    models = [TableEstimator(data.schema, BASELINE, {**settings, "random_state": SEED + seed}) for seed in seeds]
    held_out = [data.take(splits[seed][1]) for seed in seeds]
    with one_thread(), warnings.catch_warnings(action="ignore", category=MissingValuesWarning):
        fit_tables(models, [data.take(splits[seed][0]) for seed in seeds])
        predictions = [model.estimator._predict(rows.inputs) for model, rows in zip(models, held_out, strict=True)]
    found = []
    for model, rows, p in zip(models, held_out, predictions, strict=True):
        assert isinstance(model.estimator, PrivilegedClassifier)
        known = pd.Index(data.classes).get_indexer(pd.Index(model.estimator.classes_))
        place = np.full(len(data.classes) + 1, -1)  # −1, an unknown true label, is the last
        place[known] = np.arange(len(known))
        truth: Floats = np.zeros((rows.examples, len(data.classes)))
        labels = infer(
            p,
            place[rows.y],
            example=rows.group,
            annotator=rows.annotators,
            gold=None if rows.true_labels is None else place[rows.true_labels],
            trust=rows.trusted or None,
        )
        grades = infer_grades(labels.votes, labels.p) if data.schema.ordinal else labels
        truth[:, known] = grades.truth
        found.append({"truth": truth})
    return found

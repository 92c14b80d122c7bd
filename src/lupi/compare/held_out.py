"""Score methods on held-out labels, where there is no test table with true labels.

On noisy labels, a method that predicts the true label looks worse than one that predicts the noise. Held-out labels are
therefore scored through a model of the annotators (`lupi.crowd.infer`), the same for all methods:

- NLL is that of the labels of an example, −log Σ_z p(z | x) P(labels | z), for the prediction p of a method. If
  P(labels | z) is right, its mean is lowest for the true p(z | x) (Patrini et al., "Making deep neural networks robust
  to label noise", CVPR 2017).
- Accuracy, and everything else, is corrected for noise. With r_i the posterior of the true label from the labels of an
  example alone and M[z, k] = E[r_i[k] | z], c_i = r_i M⁻¹ has the mean 1[z = k]: Σ_i c_i[decision] / n estimates the
  accuracy without bias, whatever the decisions (Natarajan et al., "Learning with noisy labels", NIPS 2013). If the
  posteriors are calibrated, M[z, k] = Σ_i r_i[z] r_i[k] / Σ_i r_i[z]. Entries of c_i may be negative.

The model of the annotators is fitted to all labels. Its prior is the class frequencies and, for held-out examples, the
prediction of a No PI network that is not part of the comparison: with one label per example, nothing else could tell
how good an annotator is. No score depends on that prediction otherwise.

If the true label of a held-out example is known, scores are computed on it.
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
from lupi.compare.plan import Setup
from lupi.compare.statistics import BASELINE
from lupi.crowd import infer
from lupi.crowd.grades import infer_grades
from lupi.crowd.likelihood import softmax
from lupi.estimators import PrivilegedClassifier
from lupi.estimators.table_estimator import TableEstimator, fit_tables
from lupi.tabular.encoding import MissingValuesWarning

SEED_OFFSET = 1_000_000
"""Added to the seeds of the comparison, so that the No PI network differs from all arms."""
MIN_SINGULAR_VALUE = 0.01
"""Singular values of M below this share of the largest count as zero: the labels do not tell such classes apart."""


def first_rows(example: NDArray[Any]) -> NDArray[np.int64]:
    """Return the position of the first row of each example, in order of appearance."""
    return np.sort(np.unique(example, return_index=True)[1])


def weigh_truths(setup: Setup, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Return what the labels of held-out examples say about their true labels, for a group of seeds.

    "evidence" is log P(labels | z) and "truth" is c_i, [held-out examples, classes].
    """
    data, splits = setup.data, setup.splits
    settings = {**setup.plan.settings, "patience": PATIENCE, "device": setup.plan.device}
    models = [TableEstimator(data.schema, BASELINE, {**settings, "random_state": SEED_OFFSET + seed}) for seed in seeds]
    with one_thread(), warnings.catch_warnings(action="ignore", category=MissingValuesWarning):
        fit_tables(models, [data.take(splits[seed][0]) for seed in seeds])
        predictions = [
            model.estimator._predict(data.take(splits[seed][1]).inputs)
            for model, seed in zip(models, seeds, strict=True)
        ]
    found = []
    for model, seed, p in zip(models, seeds, predictions, strict=True):
        assert isinstance(model.estimator, PrivilegedClassifier)
        known = pd.Index(data.classes).get_indexer(pd.Index(model.estimator.classes_))
        place = pd.Index(known)
        train, held_out = splits[seed]
        rows = data.take(np.concatenate([held_out, train]))  # held-out examples are numbered first
        count = len(np.unique(data.group[held_out]))
        y = place.get_indexer(pd.Index(rows.y))
        share = np.bincount(y, minlength=len(known)) / len(y)
        gold = None if rows.true_labels is None else place.get_indexer(pd.Index(rows.true_labels))
        labels = infer(
            np.vstack([p, np.tile(share, (len(train), 1))]),
            y,
            example=rows.group,
            annotator=rows.annotators,
            gold=gold,
            trust=rows.trusted or None,
        )
        fitted = infer_grades(labels.votes, labels.p) if data.schema.ordinal else labels
        of_example = None if labels.votes.gold is None else labels.votes.gold[:count]
        own, truth = correct_for_noise(fitted.evidence[:count], fitted.truth[:count].mean(0), of_example)
        evidence = np.full((count, len(data.classes)), -np.inf)
        every = np.zeros_like(evidence)
        evidence[:, known], every[:, known] = own, truth
        found.append({"truth": every, "evidence": evidence})
    return found


def correct_for_noise(evidence: Floats, share: Floats, gold: NDArray[np.int64] | None = None) -> tuple[Floats, Floats]:
    """Return the evidence and c_i; where the true label is known, both are certain.

    Parameters
    ----------
    evidence : array, [examples, classes]
        log P(labels | z).
    share : array, [classes]
        The frequency of each true label.
    gold : array of int, [examples], optional
        The true labels, −1 where they are unknown.
    """
    posterior = softmax(np.log(share.clip(np.finfo(float).tiny)) + evidence)
    known = np.zeros(len(evidence), bool) if gold is None else gold >= 0
    some = posterior[~known]
    moment = some.T @ some / np.maximum(some.sum(0), np.finfo(float).tiny)[:, None]
    truth = posterior @ np.linalg.pinv(moment, rcond=MIN_SINGULAR_VALUE)
    if gold is not None:
        truth[known] = np.eye(len(share))[gold[known]]
        evidence = evidence.copy()
        evidence[known] = np.where(truth[known] > 0, 0.0, -np.inf)
    return evidence, truth

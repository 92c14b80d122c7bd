"""Rank labels by how likely they are wrong, without true labels, and score the ranking by true labels.

A label is suspicious if the model, which was not trained on its example, and the other labels of the example speak
against it, where each annotator counts as much as they are reliable; see `lupi.crowd.infer`. Two simple rankings serve
as baselines. Majority vote: the share of the example's labels that differ. No PI: the probability that a model without
privileged information, trained on other examples, gives the label.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import roc_auc_score

from lupi.crowd import Inference, Votes, count_labels

Floats = NDArray[np.float64]

SCORES = ["of", "estimate", "score", "value", "count"]
"""Columns of a table of scores."""


def rank_labels(found: Inference, classes: Any = None) -> pd.DataFrame:
    """Return a table of labels, the most suspicious first.

    Parameters
    ----------
    found : Inference
        From `lupi.crowd.infer`.
    classes : array, optional
        Names of the classes; by default their numbers.

    Returns
    -------
    DataFrame
        row, the position of the label in the data; given, the label; likely, the most probable label; wrong, the
        probability that the label is wrong.

    Examples
    --------
    >>> from lupi.crowd import infer
    >>> p = np.array([[0.9, 0.1]] * 4 + [[0.2, 0.8]] * 4)
    >>> table = rank_labels(infer(p, [0, 0, 1, 0, 1, 1, 1, 1]), ["no", "yes"])
    >>> table[["row", "given"]].head(1)
       row given
    0    2   yes
    """
    v = found.votes
    names = np.arange(v.classes) if classes is None else np.asarray(classes)
    if names.shape != (v.classes,):
        raise ValueError(f"Expected `classes` to be {v.classes} names, but got shape {list(names.shape)}.")
    table = pd.DataFrame(
        {
            "row": np.arange(len(v.label)),
            "given": names[v.label],
            "likely": names[found.truth.argmax(1)[v.example]],
            "wrong": found.wrong,
        }
    )
    return table.sort_values("wrong", ascending=False, kind="stable", ignore_index=True)


def score_labels(votes: Votes, gold: ArrayLike, suspicion: Floats, no_pi: Floats) -> pd.DataFrame:
    """Score rankings of labels by the area under the ROC curve, where wrong labels should come first.

    Parameters
    ----------
    votes : Votes
        The labels.
    gold : array
        True label of each row, as a class number; rows with NaN are not scored.
    suspicion : array
        The ranking to score, larger for labels that are more likely wrong.
    no_pi : array
        Probability of each label according to No PI.

    Examples
    --------
    >>> row = np.arange(4)
    >>> votes = Votes(example=row, annotator=0 * row, label=row % 2, examples=4, annotators=1, classes=2)
    >>> suspicion = np.array([0.1, 0.2, 0.3, 0.9])
    >>> score_labels(votes, [0, 1, 0, 0], suspicion, 1 - suspicion)["value"].tolist()
    [1.0, 0.5, 1.0]
    """
    known, wrong = find_errors(votes, gold)
    both = 0 < wrong.sum() < len(wrong)
    share = count_labels(votes)[votes.example, votes.label] / np.bincount(votes.example)[votes.example]
    rankings = {"suspicion": suspicion, "majority vote": 1 - share, "No PI alone": 1 - no_pi}
    rows = [
        ("labels", name, "AUROC", float(roc_auc_score(wrong, values[known])) if both else np.nan, int(known.sum()))
        for name, values in rankings.items()
    ]
    return pd.DataFrame(rows, columns=SCORES)


def find_errors(votes: Votes, gold: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which rows have a true label, and which of these labels are wrong."""
    true = np.asarray(gold, dtype=np.float64)
    known = ~np.isnan(true)
    return known, true[known] != votes.label[known]

"""How good rankings of annotators and labels are, by true labels, beside two simple ones.

Majority vote: how often an annotator, or a label, is with most labels of the example. No PI alone: what probability a
model without privileged information, trained on other examples, gives to the label.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from lupi.crowd.reliability import Votes

Floats = NDArray[np.float64]

FEW_LABELS = 5
"""An annotator with fewer labels has hardly a share of right ones to be ranked by."""
COLUMNS = ["of", "estimate", "score", "value", "count"]


def score_labels(votes: Votes, gold: ArrayLike, suspicion: Floats, no_pi: Floats) -> pd.DataFrame:
    """Score rankings of labels by the area under the ROC curve: chance is 0.5, and 1 has all wrong labels first.

    Parameters
    ----------
    votes : Votes
        The labels.
    gold : array
        The true label beside each, as a number; a missing one, NaN, is not scored.
    suspicion : array
        The ranking, larger where a label is more likely wrong.
    no_pi : array
        Probability of each label by No PI.

    Examples
    --------
    >>> row = np.arange(4)
    >>> votes = Votes(row, 0 * row, np.array([0, 1, 0, 1]), 4, 1, 2)
    >>> suspicion = np.array([0.1, 0.2, 0.3, 0.9])
    >>> score_labels(votes, [0, 1, 0, 0], suspicion, 1 - suspicion)["value"].tolist()
    [1.0, 0.5, 1.0]
    """
    known, wrong = wrong_labels(votes, gold)
    both = 0 < wrong.sum() < len(wrong)
    share = given(votes)[votes.example, votes.label] / np.bincount(votes.example)[votes.example]
    rankings = {"suspicion": suspicion, "majority vote": 1 - share, "No PI alone": 1 - no_pi}
    rows = [
        ("labels", name, "AUROC", float(roc_auc_score(wrong, values[known])) if both else np.nan, int(known.sum()))
        for name, values in rankings.items()
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def score_annotators(votes: Votes, gold: ArrayLike, table: pd.DataFrame, no_pi: Floats) -> pd.DataFrame:
    """Score rankings of annotators by Spearman's correlation with the share of their labels that is right.

    Parameters
    ----------
    votes, gold, no_pi
        As for `score_labels`.
    table : DataFrame
        support and reliability of each annotator, in the order of their numbers.

    Examples
    --------
    >>> row = np.arange(6)
    >>> votes = Votes(row // 3, row % 3, np.array([0, 0, 1, 1, 0, 0]), 2, 3, 2)
    >>> table = pd.DataFrame({"support": [0.9, 0.5, 0.1], "reliability": [0.8, 0.7, 0.6]})
    >>> no_pi = np.array([0.9, 0.6, 0.1, 0.9, 0.4, 0.1])
    >>> score_annotators(votes, [0, 0, 0, 1, 1, 1], table, no_pi)["value"].tolist()[:4]
    [1.0, 1.0, 0.0, 1.0]
    """
    known, wrong = wrong_labels(votes, gold)
    seen = np.bincount(votes.annotator[known], minlength=votes.annotators)
    true = 1 - np.bincount(votes.annotator[known], wrong, votes.annotators) / np.maximum(seen, 1)
    most = given(votes).argmax(1)[votes.example] == votes.label
    rankings = {
        "support": table["support"].to_numpy(),
        "reliability": table["reliability"].to_numpy(),
        "majority vote": of_annotator(votes, most),
        "No PI alone": of_annotator(votes, no_pi),
    }
    rows = []
    for score, least in (("Spearman", 1), (f"Spearman, {FEW_LABELS} labels or more", FEW_LABELS)):
        use = seen >= least
        for name, values in rankings.items():
            rows.append(("annotators", name, score, rank_correlation(values[use], true[use]), int(use.sum())))
    return pd.DataFrame(rows, columns=COLUMNS)


def wrong_labels(votes: Votes, gold: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows have a true label, and which of these are wrong."""
    true = np.asarray(gold, dtype=np.float64)
    known = ~np.isnan(true)
    return known, true[known] != votes.label[known]


def given(votes: Votes) -> Floats:
    """How often each label is given, [examples, classes]."""
    counts = np.zeros((votes.examples, votes.classes))
    np.add.at(counts, (votes.example, votes.label), 1)
    return counts


def of_annotator(votes: Votes, values: NDArray[Any]) -> Floats:
    """Mean over each annotator's labels."""
    total = np.bincount(votes.annotator, minlength=votes.annotators)
    return np.asarray(np.bincount(votes.annotator, values, votes.annotators) / total)


def rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's correlation; NaN where one side has no order.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 5.0]))
    1.0
    """
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return round(float(spearmanr(one, other)[0]), 12)

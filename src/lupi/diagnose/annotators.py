"""Rank annotators by how reliable they are, without true labels, and score the ranking by true labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import spearmanr

from lupi.crowd import Inference, Votes, majority_vote, summarize_annotators
from lupi.diagnose.labels import SCORES, find_errors

Floats = NDArray[np.float64]

FEW_LABELS = 5
"""The share of correct labels of an annotator with fewer labels is hardly a ranking."""


def rank_annotators(found: Inference) -> pd.DataFrame:
    """Return a table of annotators, the least supported first, with the columns of `summarize_annotators`.

    Parameters
    ----------
    found : Inference
        From `lupi.crowd.infer`.

    Examples
    --------
    >>> from lupi.crowd import infer
    >>> p = np.tile([[0.8, 0.2], [0.2, 0.8]], (20, 1)).repeat(3, axis=0)
    >>> given = np.tile([0, 0, 1, 1, 1, 0], 20)
    >>> found = infer(p, given, example=np.arange(40).repeat(3), annotator=["Ann", "Bob", "Cem"] * 40)
    >>> rank_annotators(found)[["annotator", "labels", "agreement", "flagged"]].head(1)
      annotator  labels  agreement  flagged
    0       Cem      40        0.0     True
    """
    table = pd.DataFrame(summarize_annotators(found))
    return table.sort_values(["support", "reliability", "labels"], kind="stable", ignore_index=True)


def score_annotators(votes: Votes, gold: ArrayLike, table: pd.DataFrame, no_pi: Floats) -> pd.DataFrame:
    """Score rankings of annotators by Spearman's correlation with the share of their labels that is correct.

    Parameters
    ----------
    votes, gold, no_pi
        As for `lupi.diagnose.labels.score_labels`.
    table : DataFrame
        support and reliability of each annotator, in the order of their numbers.

    Examples
    --------
    >>> row = np.arange(6)
    >>> label = np.array([0, 0, 1, 1, 0, 0])
    >>> votes = Votes(example=row // 3, annotator=row % 3, label=label, examples=2, annotators=3, classes=2)
    >>> table = pd.DataFrame({"support": [0.9, 0.5, 0.1], "reliability": [0.8, 0.7, 0.6]})
    >>> no_pi = np.array([0.9, 0.6, 0.1, 0.9, 0.4, 0.1])
    >>> score_annotators(votes, [0, 0, 0, 1, 1, 1], table, no_pi)["value"].tolist()[:4]
    [1.0, 1.0, 0.0, 1.0]
    """
    known, wrong = find_errors(votes, gold)
    seen = np.bincount(votes.annotator[known], minlength=votes.annotators)
    true = 1 - np.bincount(votes.annotator[known], wrong, votes.annotators) / np.maximum(seen, 1)
    rankings = {
        "support": table["support"].to_numpy(),
        "reliability": table["reliability"].to_numpy(),
        "majority vote": votes.mean_by_annotator(majority_vote(votes)[votes.example] == votes.label),
        "No PI alone": votes.mean_by_annotator(no_pi),
    }
    rows = []
    for score, fewest in (("Spearman", 1), (f"Spearman, {FEW_LABELS} labels or more", FEW_LABELS)):
        use = seen >= fewest
        for name, values in rankings.items():
            rows.append(("annotators", name, score, rank_correlation(values[use], true[use]), int(use.sum())))
    return pd.DataFrame(rows, columns=SCORES)


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's correlation, or NaN if one side has no order.

    Examples
    --------
    >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 5.0]))
    1.0
    """
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return round(float(spearmanr(one, other)[0]), 12)

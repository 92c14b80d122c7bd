"""Rank labels by how likely they are wrong, without true labels, and score rankings against true labels.

A label is suspicious if it contradicts the model, which was not trained on its example, and the other labels of the
example, where reliable annotators count for more (see `lupi.crowd.infer`). Two simple rankings serve as baselines.
Majority vote uses the share of the labels of the example that differ. No PI uses the probability of the label under a
model without privileged information that was trained on other examples.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from lupi._internal.arrays import Floats
from lupi.crowd import Inference, Votes, count_labels

FEW_LABELS = 5
"""With fewer labels, the share of correct labels of an annotator is too noisy for a ranking."""


def rank_labels(inference: Inference, classes: Any = None) -> pd.DataFrame:
    """Return a table of labels, the most suspicious first.

    Parameters
    ----------
    inference : Inference
        Result of `lupi.crowd.infer`.
    classes : array, optional
        Names of the classes; by default their numbers.

    Returns
    -------
    DataFrame
        row: the position of the label in the data; given: the label; likely: the most probable label; wrong: the
        probability that the label is wrong; right: the probability that it is correct, which can serve as a sample
        weight for any model.

    Examples
    --------
    >>> from lupi.crowd import infer
    >>> p = np.array([[0.9, 0.1]] * 4 + [[0.2, 0.8]] * 4)
    >>> table = rank_labels(infer(p, [0, 0, 1, 0, 1, 1, 1, 1]), ["no", "yes"])
    >>> table[["row", "given"]].head(1)
       row given
    0    2   yes
    """
    v = inference.votes
    names = np.arange(v.classes) if classes is None else np.asarray(classes)
    if names.shape != (v.classes,):
        raise ValueError(f"Expected `classes` to be {v.classes} names, but got shape {list(names.shape)}.")
    likely, wrong = names[inference.truth.argmax(1)[v.example]], inference.wrong
    table = pd.DataFrame({"given": names[v.label], "likely": likely, "wrong": wrong, "right": 1 - wrong})
    return (
        table.rename_axis("row").reset_index().sort_values("wrong", ascending=False, kind="stable", ignore_index=True)
    )


def score_rankings(
    votes: Votes, gold: ArrayLike, suspicion: Floats, no_pi: Floats, annotators: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Score rankings of labels and annotators against true labels.

    Rankings of labels are scored by the area under the ROC curve, where wrong labels should come first. Rankings of
    annotators are scored by Spearman's correlation with the share of correct labels.
    """
    true = np.asarray(gold, dtype=np.float64)
    known = ~np.isnan(true)
    wrong = true[known] != votes.label[known]
    counts = count_labels(votes)
    share = (counts / counts.sum(1, keepdims=True))[votes.example, votes.label]
    of_labels = {"suspicion": suspicion, "majority vote": 1 - share, "No PI alone": 1 - no_pi}
    rows: list[tuple[str, str, str, float, int]] = []
    for name, values in of_labels.items():
        auroc = float(roc_auc_score(wrong, values[known])) if 0 < wrong.sum() < len(wrong) else np.nan
        rows.append(("labels", name, "AUROC", auroc, len(wrong)))
    if annotators is not None:
        seen = np.bincount(votes.annotator[known], minlength=votes.annotators)
        correct = 1 - np.bincount(votes.annotator[known], wrong, votes.annotators) / np.maximum(seen, 1)
        of_annotators = {
            "support": annotators["support"].to_numpy(),
            "reliability": annotators["reliability"].to_numpy(),
            "majority vote": votes.mean_by_annotator(counts.argmax(1)[votes.example] == votes.label),
            "No PI alone": votes.mean_by_annotator(no_pi),
        }
        for score, fewest in (("Spearman", 1), (f"Spearman, {FEW_LABELS} labels or more", FEW_LABELS)):
            use = seen >= fewest
            for name, values in of_annotators.items():
                rows.append(("annotators", name, score, rank_correlation(values[use], correct[use]), int(use.sum())))
    return pd.DataFrame(rows, columns=["of", "estimate", "score", "value", "count"])


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's correlation, or NaN if one array is constant."""
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return round(float(spearmanr(one, other)[0]), 12)

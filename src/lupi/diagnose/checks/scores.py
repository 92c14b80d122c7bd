"""How well the rankings of labels and annotators agree with true labels.

Two simple rankings serve as baselines. Majority vote uses the share of the labels of the example that differ. The model
alone uses the probability of the label under the model that was trained on other examples.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from lupi._internal.arrays import Floats
from lupi.crowd import Votes, summarize_annotators
from lupi.crowd.agreement import count_labels
from lupi.diagnose.base import Brief, Check, Finding
from lupi.diagnose.checks.annotators import FEW_LABELS
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table


class Scores(Check):
    """Scores of both rankings against true labels: of, estimate, score, value and count."""

    name = "scores"

    def run(self, problem: Problem) -> Finding | None:
        """Score rankings that were made without the true labels."""
        gold = problem.gold_codes
        if gold is None or not problem.has_classes:
            return None
        blind = problem.blind_inference
        ranked = None if problem.annotator is None else pd.DataFrame(summarize_annotators(blind))
        anchors = problem.inference.votes.gold
        known = 0 if anchors is None else int((anchors >= 0).sum())
        note = (
            f"The true labels of {known:,} of {problem.examples:,} examples anchor what is said about annotators and "
            "labels. No network is trained on them, and the scores are those of rankings that do not know them."
        )
        return describe_scores(score_rankings(blind.votes, gold, blind.wrong, problem.predictions, ranked), [note])


def describe_scores(table: pd.DataFrame, notes: list[str]) -> Finding:
    """Describe the table of scores."""
    text = (
        "The rankings that are scored were made without true labels. AUROC is the probability that a wrong label is "
        f"ranked before a right one. Spearman correlates the ranks of annotators, if they have {FEW_LABELS} "
        "labels or more, with their ranks by the share of correct labels. Majority vote and the model alone are the "
        "baselines."
    )
    shown_table = Table(caption="Scores.", frame=table, formats={"value": ".3f", "count": ",d"}, minor=["of", "count"])
    named = table.assign(what=table["of"] + ", " + table["score"])
    wide = named.pivot_table(index="what", columns="estimate", values="value", sort=False, dropna=False)
    return Finding(
        table=table,
        section=Section(heading="Scores by true labels", text=text, tables=[shown_table]),
        brief=Brief("Scored by true labels", wide.reset_index()),
        numbers={
            str(name): dict(zip(rows["score"], rows["value"], strict=True))
            for name, rows in table.groupby("estimate", sort=False)
        },
        notes=notes,
    )


def score_rankings(
    votes: Votes, gold: ArrayLike, suspicion: Floats, predictions: Floats, annotators: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Score rankings of labels and annotators against true labels.

    Rankings of labels are scored by the area under the ROC curve, where wrong labels should come first. Rankings of
    annotators are scored by Spearman's correlation with the share of correct labels.
    """
    true = np.asarray(gold, dtype=np.float64)
    known = ~np.isnan(true)
    wrong = true[known] != votes.label[known]
    counts = count_labels(votes)
    alone = predictions[np.arange(len(votes.label)), votes.label]
    share = (counts / counts.sum(1, keepdims=True))[votes.example, votes.label]
    of_labels = {"suspicion": suspicion, "majority vote": 1 - share, "model alone": 1 - alone}
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
            "model alone": votes.mean_by_annotator(alone),
        }
        use = seen >= FEW_LABELS
        for name, values in of_annotators.items():
            rows.append(("annotators", name, "Spearman", rank_correlation(values[use], correct[use]), int(use.sum())))
    return pd.DataFrame(rows, columns=["of", "estimate", "score", "value", "count"])


def rank_correlation(one: Floats, other: Floats) -> float:
    """Return Spearman's correlation, or NaN if one array is constant."""
    if len(one) < 3 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return float("nan")
    return round(float(spearmanr(one, other)[0]), 12)

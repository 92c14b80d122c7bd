"""What true labels say: how well rankings agree with them, how accurate annotators are, and how far they err together.

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
from lupi.crowd.agreement import count_labels, wilson_interval
from lupi.crowd.dependence import Dependence, measure_dependence
from lupi.diagnose.base import MOST_ROWS, Brief, Check, Finding
from lupi.diagnose.checks.agreement import FEWEST_SHARED
from lupi.diagnose.checks.annotators import FEW_LABELS
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table

MOST_ANNOTATORS = 1000
"""Maximum number of annotators to compare with each other."""
ALIKE = 0.2
"""Two annotators are named if even the lower limit of the correlation of their errors is above this."""


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


class Judges(Check):
    """The accuracy of each annotator, such as an LLM judge, by true labels, and the dependence of their errors.

    Its table has one row per annotator, the least accurate first. checked: the number of labels with known truth;
    accuracy, low, high: the share of them that is correct, with Wilson's 95 % interval; alike: the annotator whose
    errors go most with theirs; correlation: that of their errors, and shared: the number of examples that both
    labelled. Without true labels, errors that annotators share look correct, so the check does not apply.
    """

    name = "judges"

    def run(self, problem: Problem) -> Finding | None:
        """Measure accuracies and correlations of errors."""
        if problem.annotator is None or not problem.has_classes:
            return None
        votes, names = problem.inference.votes, problem.inference.names
        if votes.gold is None or votes.annotators > MOST_ANNOTATORS or not (votes.gold[votes.example] >= 0).any():
            return None
        truth = np.where(votes.gold[:, None] < 0, np.nan, np.eye(votes.classes)[votes.gold])
        found = measure_dependence(votes, truth)
        table = pd.concat([pd.DataFrame({"annotator": names}), score_annotators(votes, truth)], axis=1)
        if found is not None:
            table = pd.concat([table, find_alike(found, names)], axis=1)
        return describe_judges(table.sort_values(["accuracy", "checked"], kind="stable", ignore_index=True), found)


def score_annotators(votes: Votes, truth: Floats) -> pd.DataFrame:
    """Return the number of checked labels and the share of correct ones of each annotator, with an interval."""
    checked = ~np.isnan(truth[votes.example, 0])
    who, right = votes.annotator[checked], truth[votes.example, votes.label][checked]
    count = np.bincount(who, minlength=votes.annotators)
    accuracy = np.where(count, np.bincount(who, right, votes.annotators) / np.maximum(count, 1), np.nan)
    low, high = wilson_interval(accuracy, np.maximum(count, 1))
    return pd.DataFrame({"checked": count, "accuracy": accuracy, "low": low, "high": high})


def find_alike(found: Dependence, names: "np.ndarray[tuple[int], np.dtype[np.object_]]") -> pd.DataFrame:
    """Return, for each annotator, the one whose errors go most with theirs, by the lower limit of the correlation."""
    enough = found.shared >= FEWEST_SHARED
    limit = np.arctanh(found.pairs.clip(-0.99, 0.99)) - 1.96 / np.sqrt(np.maximum(found.shared - 3, 1))
    limit = np.where(enough, np.tanh(limit), -np.inf)
    best, row = limit.argmax(1), np.arange(len(names))
    known = enough.any(1)
    return pd.DataFrame(
        {
            "alike": np.where(known, np.asarray(names, dtype=object)[best], None),
            "correlation": np.where(known, found.pairs[row, best], np.nan),
            "shared": np.where(known, found.shared[row, best], 0).astype(int),
            "limit": np.where(known, limit[row, best], np.nan),
        }
    )


def describe_judges(table: pd.DataFrame, found: Dependence | None) -> Finding:
    """Describe the table of annotators."""
    sentence, notes, numbers = "", list[str](), dict[str, float]()
    text = "Accuracy is the share of correct labels among those with a known true label, with its 95% interval."
    if found is not None:
        worth, low, high = found.votes
        text += (
            "\nAlike names the annotator whose errors go most with theirs, and the correlation of these errors given "
            "the truth. Annotators who err together, such as models of one family, are not independent votes."
        )
        sentence = (
            f"The {found.size:.3g} labels of an example are worth {worth:.1f} independent ones [{low:.1f}, {high:.1f}]"
            f": by true labels, the mean correlation of errors is {found.mean:.2f}."
        )
        numbers = {"correlation": found.mean, "low": found.low, "high": found.high, "votes": worth}
        if (table["limit"] > ALIKE).any():
            first = table.iloc[int(table["limit"].argmax())]
            both = f"{first['annotator']} and {first['alike']}"
            notes.append(f"{both} err together more than others (correlation {first['correlation']:.2f}).")
        table = table.drop(columns="limit")
    caption, shares = "Annotators by true labels, the least accurate first.", ["accuracy", "low", "high", "correlation"]
    shown_table = Table(
        caption=caption,
        frame=table,
        formats={} if found is None else {"correlation": ".2f"},
        intervals={"accuracy": "z.2f"},
        sorted_by="accuracy",
        minor=["checked"] if found is None else ["checked", "correlation", "shared"],
    )
    return Finding(
        sentence=sentence,
        table=table,
        section=Section(heading="Accuracy and dependence", text=text, tables=[shown_table]),
        brief=Brief(caption[:-1], table.head(MOST_ROWS), dict.fromkeys(shares, 2)),
        numbers=numbers,
        notes=notes,
    )

"""How accurate annotators are by true labels, and how far they err together."""

import numpy as np
import pandas as pd

from lupi._internal.arrays import Floats
from lupi.crowd import Votes
from lupi.crowd.agreement import wilson_interval
from lupi.crowd.dependence import Dependence, measure_dependence
from lupi.diagnose.base import MOST_ROWS, Brief, Check, Finding
from lupi.diagnose.checks.agreement import FEWEST_SHARED
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table

MOST_ANNOTATORS = 1000
"""Maximum number of annotators to compare with each other."""
ALIKE = 0.2
"""Two annotators are named if even the lower limit of the correlation of their errors is above this."""


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

"""Which examples to label next, and what more labels are expected to buy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.crowd import Inference
from lupi.crowd.next_labels import Outlook, expected_accuracy, expected_gains
from lupi.diagnose.base import Check, Finding
from lupi.diagnose.checks.labels import list_first, tabulate_examples
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table
from lupi.report.page import format_intervals

SHARES = (0.0, 0.1, 0.25, 0.5, 1.0)
"""For how many more labels the accuracy is predicted, as shares of the number of examples."""
FEWEST_LABELS = 20
"""Annotators with fewer labels are not proposed for more."""
MOST_SHOWN = 500
"""Maximum number of examples on the page, with their content."""


class Next(Check):
    """Examples in the order in which one more label is expected to tell most.

    Its table has one row per example: the columns of `consensus`; gain: by how many nats one more label of a typical
    annotator is expected to reduce the entropy of its true label; ask: the most reliable annotator who has not labelled
    it, of those with 20 labels or more.
    """

    name = "next"

    def run(self, problem: Problem) -> Finding | None:
        """Rank the examples, and predict what more labels buy."""
        if not problem.has_classes:
            return None
        inference = problem.inference
        gain = expected_gains(inference)
        order = np.argsort(-gain, kind="stable")
        table = tabulate_examples(problem).assign(gain=gain)
        if problem.annotator is not None:
            table["ask"] = choose_annotators(inference)
        counts = sorted({round(share * problem.examples) for share in SHARES})
        outlook = expected_accuracy(inference, order, counts, problem.seed)
        content = pd.DataFrame(index=range(len(table)))
        first = np.unique(problem.group, return_index=True)[1][order[:MOST_SHOWN]]
        if problem.source is not None:
            content = problem.source.read_content(problem.rows[first])
        return describe_next(table.iloc[order].reset_index(drop=True), outlook, content)


def choose_annotators(inference: Inference) -> NDArray[Any]:
    """Return, for each example, the most reliable annotator who has not labelled it; None if there is none."""
    v = inference.votes
    count, right = np.bincount(v.annotator, minlength=v.annotators), v.mean_by_annotator(inference.right)
    ranked = [j for j in np.argsort(-right, kind="stable").tolist() if count[j] >= FEWEST_LABELS]
    seen: list[set[int]] = [set() for _ in range(v.examples)]
    for example, annotator in zip(v.example.tolist(), v.annotator.tolist(), strict=True):
        seen[example].add(annotator)
    names = inference.names.tolist()
    return np.array([next((names[j] for j in ranked if j not in own), None) for own in seen], dtype=object)


def describe_next(table: pd.DataFrame, outlook: Sequence[Outlook], content: pd.DataFrame) -> Finding:
    """Describe what to label next; `content` are inputs of the first examples."""
    now, *later = outlook
    half = later[len(later) // 2]
    sentence = (
        f"Label {list_first(table.iloc[:, 0])} next. One more label for each of the first {half.labels:,} examples is "
        f"expected to raise the accuracy of the consensus from {now.accuracy:.1%} to {half.accuracy:.1%} "
        f"[{half.low:.1%}, {half.high:.1%}]."
    )
    text = (
        "Examples in the order in which one more label, by a typical annotator, is expected to reduce the uncertainty "
        "about the true label most (gain, in nats). Ask names the most reliable annotator who has not labelled the "
        "example.\nThe second table has the expected accuracy of the consensus after one more label for each of the "
        "first examples, with a 95% interval. It is as good as the model of the annotators: errors that all share are "
        "not in it. Labels of annotators who are better than most buy more."
    )
    frame = table.head(MOST_SHOWN).drop(columns=["agreement", "given"])
    names = {name: f"input_{name}" if name in frame else name for name in content}
    frame = pd.concat([frame, content.rename(columns=names)], axis=1)
    first = Table(
        caption="Examples to label next.",
        frame=frame,
        formats={"probability": ".2f", "gain": ".3f"},
        hints={"gain": "nats"},
        sorted_by="-gain",
        minor=["probability", "labels"],
        below=list(names.values()),
    )
    plan = pd.DataFrame(outlook, columns=["more labels", "accuracy", "low", "high"])
    second = Table(
        caption="How many labels are enough.",
        frame=plan[["more labels", "accuracy"]],
        formats={"more labels": ",d"},
        texts={"accuracy": format_intervals(plan["accuracy"], plan["low"], plan["high"], ".1%")},
        hints={"accuracy": "expected [interval]"},
    )
    return Finding(
        sentence=sentence,
        table=table,
        section=Section(heading="What to label next", text=text, tables=[first, second]),
        numbers={
            f"{each.labels} more": {"accuracy": each.accuracy, "low": each.low, "high": each.high} for each in outlook
        },
    )

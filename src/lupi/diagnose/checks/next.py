"""Which examples to label next, and what more labels are expected to buy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.crowd import Inference
from lupi.crowd.curves import extrapolate
from lupi.crowd.next_labels import Outlook, expected_accuracy, expected_gains, typical_annotator, typical_grader
from lupi.diagnose.base import Check, Finding
from lupi.diagnose.checks.labels import list_first, tabulate_examples
from lupi.diagnose.problem import SAMPLES, Problem
from lupi.report import Section, Table

SHARES = (0.0, 0.1, 0.25, 0.5, 1.0)
"""For how many more labels the accuracy is predicted, as shares of the number of examples."""
ENOUGH, LITTLE = 0.9, 0.001
"""The verdict names the fewest labels that buy this share of what most labels buy, if that is this accuracy or more."""
SMALLEST = 1e-7
"""Lower bound of the model's probabilities."""
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
        typical = typical_annotator(inference) if problem.grades is None else typical_grader(inference)
        gain = expected_gains(inference, typical)
        order = np.argsort(-gain, kind="stable")
        table = tabulate_examples(problem).assign(gain=gain)
        if problem.annotator is not None:
            table["ask"] = choose_annotators(inference)
        counts = sorted({round(share * problem.examples) for share in SHARES})
        outlook = expected_accuracy(inference, typical, order, counts, problem.seed)
        content = pd.DataFrame(index=range(len(table)))
        if problem.source is not None:
            first = problem.first_rows[order[:MOST_SHOWN]]
            content = problem.source.read_content(problem.rows[first])
        curves = draw_curves(problem, counts) if problem.has_curve else None
        what = "accuracy" if problem.grades is None else "share of exactly right grades"
        return describe_next(table.iloc[order].reset_index(drop=True), outlook, content, curves, what)


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


def draw_curves(problem: Problem, counts: Sequence[int]) -> pd.DataFrame:
    """Return the expected accuracy and NLL of the model with more labels, of new examples, with intervals.

    Decisions are scored by the posterior of the true label.
    """
    first, truth, scores = problem.first_rows, problem.inference.truth, []
    for p in [*problem.curve, problem.predictions]:
        of_example = np.maximum(p[first], SMALLEST)
        right = truth[np.arange(len(first)), of_example.argmax(1)]
        scores.append(np.stack([1 - right, -(truth * np.log(of_example)).sum(1)]))
    labels = len(problem.y)
    sizes = [share * labels * (problem.folds - 1) / problem.folds for share in (*SAMPLES, 1)]
    error, nll = (
        extrapolate(losses, sizes, problem.fold[first], [labels + count for count in counts])
        for losses in np.stack(scores, 1)
    )
    accuracy = [each._replace(loss=1 - each.loss, low=1 - each.high, high=1 - each.low) for each in error]
    columns = {"accuracy": pd.DataFrame(accuracy), "nll": pd.DataFrame(nll).iloc[:, :3]}
    return pd.concat([each.add_prefix(f"{name}_") for name, each in columns.items()], axis=1).rename(
        columns={f"{name}_loss": name for name in columns}
    )


def describe_next(
    table: pd.DataFrame,
    outlook: Sequence[Outlook],
    content: pd.DataFrame,
    curves: pd.DataFrame | None = None,
    what: str = "accuracy",
) -> Finding:
    """Describe what to label next; `content` are inputs of the first examples, and `curves` those of the model."""
    sentence = describe_plan(outlook, list_first(table.iloc[:, 0]), what)
    text = (
        "Examples in the order in which one more label, by a typical annotator, is expected to reduce the uncertainty "
        "about the true label most (gain, in nats). Ask names the most reliable annotator who has not labelled the "
        "example.\nThe second table has the expected accuracy of the consensus after one more label for each of the "
        "first examples, with a 95% interval. It is as good as the model of the annotators: errors that all share are "
        "not in it. Labels of annotators who are better than most buy more."
    )
    frame = table.head(MOST_SHOWN).drop(columns=["agreement", "given"])
    names = {name: f"input_{name}" if name in frame else name for name in map(str, content)}
    frame = pd.concat([frame, content.rename(columns=names)], axis=1)
    first = Table(
        caption="Examples to label next.",
        frame=frame,
        formats={"probability": ".2f", "gain": ".3f"},
        hints={"gain": "nats"},
        sorted_by="-gain",
        minor=["probability", "labels"],
        below=[*map(str, names.values())],
    )
    if curves is not None:
        last = curves.iloc[-1]
        sentence += (
            f" {outlook[-1].labels:,} more labels, of new examples, are expected to raise the {what} of the model by "
            f"{100 * last['accuracy_gain']:.1f} points [{100 * last['accuracy_gain_low']:.1f}, "
            f"{100 * last['accuracy_gain_high']:.1f}], to {last['accuracy']:.1%}."
        )
        text += (
            "\nThe model is that which judges the labels. Its accuracy and NLL with more labels, of new examples like "
            "these, follow from models that were trained on an eighth, a quarter and half of the examples. The "
            "interval of the gain is narrower than those of the accuracies, whose errors are much the same."
        )
    plan = pd.DataFrame(outlook)
    numbers = pd.concat([plan] if curves is None else [plan, curves.add_prefix("model_")], axis=1)
    return Finding(
        sentence=sentence,
        table=table,
        section=Section(heading="What to label next", text=text, tables=[first, show_plan(outlook, curves)]),
        numbers={f"{row.pop('labels')} more": row for row in numbers.to_dict("records")},
    )


def describe_plan(outlook: Sequence[Outlook], first: str, what: str) -> str:
    """Describe what to label next, and the fewest labels that buy nearly as much as all of the plan."""
    now, *later = outlook
    gains = [each.accuracy - now.accuracy for each in later]
    if max(gains) < LITTLE:
        return (
            "More labels of the same examples would hardly change the consensus. Its expected "
            f"{what} is {now.accuracy:.1%} [{now.low:.1%}, {now.high:.1%}], unless annotators share errors."
        )
    enough = next(each for each, gain in zip(later, gains, strict=True) if gain >= ENOUGH * max(gains))
    return (
        f"Label {first} next. One more label for each of the first {enough.labels:,} examples is expected to raise the "
        f"{what} of the consensus from {now.accuracy:.1%} to {enough.accuracy:.1%} "
        f"[{enough.low:.1%}, {enough.high:.1%}], unless annotators share errors."
        + (" More of them would add little." if enough is not later[-1] else "")
    )


def show_plan(outlook: Sequence[Outlook], curves: pd.DataFrame | None) -> Table:
    """Show what more labels buy for the consensus and the model."""
    plan = pd.DataFrame(outlook, columns=["more labels", "consensus", "low", "high"])
    styles, hints = {"consensus": ".1%"}, {"consensus": "accuracy [interval]"}
    if curves is not None:
        styles |= {"model": ".1%", "model gains": ".1f", "NLL": ".3f"}
        hints |= {"model": "accuracy [interval]", "model gains": "points [interval]", "NLL": "of the model [interval]"}
        for name, column, scale in (("model", "accuracy", 1), ("model gains", "accuracy_gain", 100), ("NLL", "nll", 1)):
            for end in ("", "_low", "_high"):
                plan[f"{name}{end}"] = scale * curves[f"{column}{end}"]
    return Table(
        caption="How many labels are enough.",
        frame=plan,
        formats={"more labels": ",d"},
        intervals=styles,
        hints=hints,
        minor=[] if curves is None else ["NLL"],
    )

"""How reliable each annotator is, which classes they confuse, and who grades too high, too low or at random."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from lupi.crowd import summarize_annotators
from lupi.crowd.tables import tabulate_confusions
from lupi.diagnose.base import MOST_ROWS, Brief, Check, Finding
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table, figures
from lupi.report.page import Detail

FEW_LABELS = 5
"""With fewer labels, the share of correct labels of an annotator is too noisy for a ranking."""
MOST_ANNOTATORS = 20
"""Maximum number of annotators with confusion matrices on the page."""
MOST_CLASSES = 15
"""Maximum number of classes of a confusion matrix on the page."""
FIRST = 3
"""Number of annotators to name in the verdict."""
SMALL = 0.5
"""Annotators with a smaller bias, in grades, are not named."""


class Annotators(Check):
    """The reliability of each annotator.

    Its table has the columns of `lupi.crowd.summarize_annotators`, the flagged and then the least supported annotators
    first. On a scale of nine grades or more, hardly any two labels are equal, and `grades` takes its place.
    """

    name = "annotators"

    def run(self, problem: Problem) -> Finding | None:
        """Rank the annotators by how well their labels are supported."""
        if problem.annotator is None or not problem.has_classes or problem.tolerance > 1:
            return None
        table = pd.DataFrame(summarize_annotators(problem.inference))
        order = ["flagged", "support", "reliability", "labels"]
        table = table.sort_values(order, ascending=[False, True, True, True], kind="stable", ignore_index=True)
        cells, places = find_confusions(problem), pd.Index(problem.classes)
        true, given = (places.get_indexer(cells[name]) for name in ("true", "given"))
        details = show_confusions(table, cells, problem.classes.tolist())
        return describe_annotators(table, details, cells[~problem.near[true, given]], problem.grades is not None)


class Confusion(Check):
    """The cells of the annotators' confusion matrices: annotator, true, given, count and probability."""

    name = "confusion"

    def run(self, problem: Problem) -> Finding | None:
        """Tabulate the confusion matrices."""
        if problem.annotator is None or not problem.has_classes:
            return None
        return Finding(table=find_confusions(problem))


def find_confusions(problem: Problem) -> pd.DataFrame:
    """Return the cells of the annotators' confusion matrices."""
    return tabulate_confusions(problem.inference, problem.inference.names, problem.classes)


def describe_annotators(
    table: pd.DataFrame, details: Sequence[Detail] = (), confusions: pd.DataFrame | None = None, graded: bool = False
) -> Finding:
    """Describe the table of annotators, with confusion matrices of the first ones, and all `confusions`."""
    flagged = table.loc[table["flagged"], "annotator"].tolist()
    who = ", ".join(f"{name}{describe_confusion(confusions, name)}" for name in flagged[:5])
    who += ", …" if len(flagged) > 5 else ""
    sentence = f"{len(flagged) or 'None'} of {len(table)} annotators {'are' if len(flagged) > 1 else 'is'} flagged"
    sentence += " as less reliable than the rest."
    shown = ["annotator", "labels", "agreement", "support", "reliability", "low", "high", "flagged"]
    top = table[table["labels"] >= FEW_LABELS].head(MOST_ROWS)[shown]
    return Finding(
        sentence=sentence + (f" First check the labels of {who}." if flagged else ""),
        table=table,
        section=show_annotators(table, details, graded),
        brief=Brief(
            f"Annotators with {FEW_LABELS} labels or more, the flagged and then the least supported first",
            top.assign(flagged=np.where(top["flagged"], "yes", "")),
            dict.fromkeys(shown, 2),
        ),
        numbers={"count": len(table), "flagged": len(flagged)},
        notes=[
            "Annotators are ranked by `support`, which beat majority vote on two real data sets. The interval is that "
            "of `reliability`, given the model. In simulations it covers 90 % or more. Errors that annotators share, "
            "which their labels cannot show, make reliability too high: from labels alone, by .06 on music genre, "
            "where the interval covered only 81 % of the annotators. True labels correct it."
        ],
    )


def describe_confusion(confusions: pd.DataFrame | None, annotator: Any) -> str:
    """Name the most frequent confusion of an annotator."""
    if confusions is None:
        return ""
    cells = confusions[confusions["annotator"] == annotator]
    if cells.empty:
        return ""
    cell = cells.loc[cells["count"].idxmax()]
    return f" (often {str(cell['given'])!r} for {str(cell['true'])!r})"


def show_annotators(table: pd.DataFrame, details: Sequence[Detail], graded: bool) -> Section:
    """Show how reliable each annotator is."""
    flagged = table["flagged"]
    text = (
        "Reliability is the estimated probability that a label of the annotator is correct, with its "
        "95% interval. It is estimated from the model, the other annotators and any true labels. "
        "Annotators are flagged if even the upper end of their interval is below the mean of all labels.\n"
        "Agreement is the share of an annotator's labels that equal the consensus. Confidence is the mean "
        "probability of the labels according to the model alone. Support is the mean probability of the labels "
        "according to the model and the other labels of the example."
    )
    if graded:
        text += "\nHere only a grade that equals the true one is correct; bias and spread tell how far others are off."
    if details:
        whom = "an annotator" if len(details) == len(table) else f"one of the first {len(details)}"
        text += f"\nBelow the table, open {whom} to see which classes they confuse."
    shares = table.columns.difference(["annotator", "labels", "reliability", "low", "high", "flagged"])
    shown_table = Table(
        caption="Annotators.",
        frame=table.assign(flagged=np.where(flagged, "flagged", "")),
        formats={"labels": ",d", **dict.fromkeys(shares, ".2f")},
        intervals={"reliability": "z.2f"},
        marked=flagged.tolist(),
        minor=["labels", *shares],
    )
    return Section(
        heading="Annotators", text=text, figures=[figures.draw_confidence(table)], tables=[shown_table], details=details
    )


def show_confusions(annotators: pd.DataFrame, confusions: pd.DataFrame, classes: list[Any]) -> list[Detail]:
    """Show the confusion matrices of the least supported annotators, or only the largest cells if classes are many."""
    cells: dict[Any, pd.DataFrame] = dict(iter(confusions.groupby("annotator", sort=False)))
    details = []
    for row in annotators.head(MOST_ANNOTATORS).itertuples(index=False):
        own = cells[row.annotator].drop(columns="annotator")
        if len(classes) > MOST_CLASSES:
            largest = own[own["true"] != own["given"]].sort_values("count", ascending=False, kind="stable")
            caption, formats = "Most frequent confusions.", {"count": ".1f", "probability": ".2f"}
            table = Table(caption=caption, frame=largest.head(MOST_CLASSES), formats=formats)
        else:
            caption = "Probability of each given label, by true label."
            wide = own.pivot_table(index="true", columns="given", values="probability", observed=True)
            wide = wide.reindex(columns=classes).fillna(0.0).reindex(index=classes)  # a dash: never a true label
            wide = wide.set_axis([str(name) for name in classes], axis="columns").rename_axis("true \\ given")
            table = Table(caption=caption, frame=wide.reset_index(), formats={str(name): ".2f" for name in classes})
        who = f"{row.annotator}: {row.labels:,} labels, reliability {row.reliability:.2f}"
        details.append(Detail(who + (", flagged" if row.flagged else ""), table))
    return details


class Grades(Check):
    """The bias and spread of each annotator, in grades: annotator, labels, bias and spread, the largest bias first."""

    name = "grades"

    def run(self, problem: Problem) -> Finding | None:
        """Estimate bias and spread, if the classes are grades of a rating scale."""
        if problem.grades is None or problem.annotator is None:
            return None
        inference, found = problem.inferred
        if found is None:
            return None
        votes = inference.votes
        columns = {"annotator": inference.names, "labels": np.bincount(votes.annotator, minlength=votes.annotators)}
        table = pd.DataFrame({**columns, "bias": found.bias, "spread": found.spread})
        table = table.sort_values("bias", key=np.abs, ascending=False, kind="stable", ignore_index=True)
        first = table[(table["labels"] >= FEW_LABELS) & (table["bias"].abs() >= SMALL)].head(FIRST)
        biases = [
            f"{who} ({abs(bias):.1f} {'higher' if bias > 0 else 'lower'})"
            for who, bias in zip(first["annotator"], first["bias"], strict=True)
        ]
        sentence = "No annotator grades half a grade higher or lower than others would."
        if biases:
            sentence = (
                f"First check the grades of those who grade higher or lower than others would: {', '.join(biases)}."
            )
        return Finding(
            sentence=sentence,
            table=table,
            section=Section(
                heading="Grades",
                text="Bias is by how many grades an annotator is above the estimated true grade on average, and spread "
                "is how far their grades scatter. Habits, which do not depend on the truth, are not part of it.",
            ),
            brief=Brief("Bias and spread in grades", table.head(MOST_ROWS), {"bias": 2, "spread": 2}),
            numbers={"largest_bias": float(table["bias"].iloc[0])},
        )

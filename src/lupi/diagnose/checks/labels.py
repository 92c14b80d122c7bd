"""Which labels are probably wrong, and the most probable label of each example.

A label is suspicious if it contradicts the model, which was not trained on its example, and the other labels of the
example, where reliable annotators count for more (see `lupi.crowd.infer`).
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.crowd import Inference
from lupi.crowd.tables import tabulate_consensus
from lupi.diagnose.base import MOST_ROWS, Brief, Check, Finding
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table, figures

FIRST = 5
"""Number of labels and examples to name in the verdict."""
CERTAIN = 0.8
"""The true label of an example is uncertain if no label is as probable as this."""


class Labels(Check):
    """The probability that each label is wrong.

    Its table has one row per label, the most suspicious first: row, example, annotator, given, likely, the
    probabilities wrong and right, and, if the labels come from a file, the first inputs.
    """

    name = "labels"

    def run(self, problem: Problem) -> Finding:
        """Rank the labels by how likely they are wrong."""
        if not problem.has_classes:
            return Finding(notes=["Annotators and labels can only be ranked for a single target of classes."])
        pictures, content = dict[str, list[str | None]](), pd.DataFrame()
        table = rank_labels(problem.inference, problem.classes, problem.likely, problem.near)
        for name, values in (("annotator", problem.annotator), ("example", problem.ids)):
            if values is not None:
                table.insert(1, name, np.asarray(values)[table["row"]])
        table["row"] = problem.rows[table["row"]]
        if problem.source is not None:
            content = problem.source.read_content(table["row"].to_numpy())
            table, pictures = pd.concat([table, content], axis=1), problem.source.draw_pictures(content)
        notes = []
        if problem.judge != problem.method:
            notes.append("All privileged columns leak the label, so annotators and labels were judged by No PI.")
        if problem.probabilities is not None:
            notes.append("Annotators and labels were judged by the probabilities that were given.")
        return describe_labels(table, pictures, content.columns.astype(str).tolist(), notes, problem.tolerance)


class Consensus(Check):
    """The most probable label of each example: example, label, probability, labels, agreement and given.

    On a rating scale, it is the median grade, and the probability is that of the grades within the tolerance.
    Examples without ids are identified by the row of their first label.
    """

    name = "consensus"

    def run(self, problem: Problem) -> Finding | None:
        """Tabulate the most probable labels."""
        if not problem.has_classes:
            return None
        table = tabulate_examples(problem)
        uncertain = int((table["probability"] < CERTAIN).sum())
        few = f"{uncertain:,} of {len(table):,} examples is uncertain"
        few += f" by more than {count_grades(problem.tolerance)}" if problem.tolerance else ""
        notes, new = [], int((~table["given"]).sum())
        if new and problem.grades is None:  # the median of grades may be one that nobody gave
            some = "For 1 example" if new == 1 else f"For {new:,} examples"
            notes.append(
                f"{some}, the most probable label is one that no annotator gave: the model contradicts all labels. "
                "Look at those with `given` False in consensus.csv before you use them."
            )
        return Finding(
            sentence=f"The true label of {few} (its probability is below {100 * CERTAIN:.0f} %)." if uncertain else "",
            table=table,
            numbers={"uncertain": uncertain, "given by nobody": new},
            notes=notes,
        )


def tabulate_examples(problem: Problem) -> pd.DataFrame:
    """Return the most probable label of each example; without ids, examples are named by the row of a label."""
    ids = problem.rows if problem.ids is None else problem.ids
    table = tabulate_consensus(problem.inference, ids[problem.first_rows], problem.classes, problem.likely)
    table["probability"] = (problem.inference.truth * problem.near[problem.likely]).sum(1)
    return table.rename(columns={"example": "row"}) if problem.ids is None else table


def list_first(values: "pd.Series[Any]") -> str:
    """List the first values of a column after its name."""
    first = [str(value) for value in values.head(FIRST)]
    return f"{values.name}{'s' if len(first) > 1 else ''} {', '.join(first)}"


def rank_labels(
    inference: Inference, classes: NDArray[Any], likely: NDArray[np.int64], near: NDArray[np.bool_]
) -> pd.DataFrame:
    """Return a table of labels, the most suspicious first; `row` is the position of the label in the data."""
    v = inference.votes
    right = (inference.posterior * near[v.label]).sum(1)
    columns = {"given": classes[v.label], "likely": classes[likely[v.example]]}
    table = pd.DataFrame({**columns, "wrong": 1 - right, "right": right})
    return (
        table.rename_axis("row").reset_index().sort_values("wrong", ascending=False, kind="stable", ignore_index=True)
    )


def describe_labels(
    table: pd.DataFrame,
    pictures: Mapping[str, Sequence[str | None]] = MappingProxyType({}),
    content: Sequence[str] = (),
    notes: Sequence[str] = (),
    tolerance: int = 0,
) -> Finding:
    """Describe the table of labels; the first ones may have pictures. A grade is right up to the tolerance."""
    suspicious, total = int((table["wrong"] > 0.5).sum()), len(table)
    top = table.loc[:, :"wrong"].head(MOST_ROWS)  # the content of examples does not fit into a terminal
    wrong = f"off by more than {count_grades(tolerance)}" if tolerance else "wrong"
    sentence = f"{suspicious:,} of {total:,} labels ({100 * suspicious / total:.0f} %) are probably {wrong}."
    if suspicious:
        sentence += f" First check {list_first(table['row'].head(suspicious))}."
    text = (
        "A label is suspicious if it contradicts the model, which was not trained on its example, and the other labels "
        "of the example; reliable annotators count for more. Check the first ones yourself before you change any. "
        "Rows of the table are numbered from 0."
    )
    if tolerance:
        text += (
            f"\nA grade counts as wrong if it is more than {count_grades(tolerance)} from the true one, a quarter of "
            "the scale. Likely is the median grade."
        )
    shown_table = Table(
        caption="Labels, the most suspicious first.",
        frame=table.drop(columns="right", errors="ignore"),
        formats={"wrong": ".3f"},
        hints={"wrong": "probability"},
        sorted_by="-wrong",
        images=pictures,
        minor=[name for name in ("example",) if name in table],
        below=list(content),
    )
    picture = figures.draw_label_errors(table["wrong"].to_numpy(float))
    return Finding(
        sentence=sentence,
        table=table,
        section=Section(heading="Labels", text=text, figures=[picture], tables=[shown_table]),
        brief=Brief("Labels, the most suspicious first", top),
        numbers={"count": total, "look wrong": suspicious, "expected wrong": float(table["wrong"].sum())},
        notes=notes,
    )


def count_grades(number: int) -> str:
    """Return a number of grades in words."""
    return f"{number} grade{'s' if number > 1 else ''}"

"""Who grades too high, too low or at random on a rating scale."""

import numpy as np
import pandas as pd

from lupi.diagnose.base import MOST_ROWS, Brief, Check, Finding
from lupi.diagnose.checks.annotators import FEW_LABELS
from lupi.diagnose.problem import Problem
from lupi.report import Section

FIRST = 3
"""Number of annotators to name in the verdict."""
SMALL = 0.5
"""Annotators with a smaller bias, in grades, are not named."""


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

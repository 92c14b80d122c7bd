"""How often each class is given, and how often it is true."""

import numpy as np
import pandas as pd

from lupi.diagnose.base import Check, Finding
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table


class Balance(Check):
    """The frequency of each class among labels, and its expected frequency among true labels.

    Its table has one row per class. labels, share: the number and share of its labels; examples, true_share: the
    expected number and share of its examples.
    """

    name = "balance"

    def run(self, problem: Problem) -> Finding | None:
        """Count the labels and the expected examples of each class."""
        if not problem.has_classes:
            return None
        labels, examples = np.bincount(problem.codes), problem.inference.truth.sum(0)
        shares = {"share": labels / labels.sum(), "examples": examples, "true_share": examples / examples.sum()}
        table = pd.DataFrame({"class": problem.classes, "labels": labels, **shares})
        text = (
            "The number of labels of each class, and the expected number of examples for which it is the true label. A "
            "class with a larger share of labels than of examples is given too often."
        )
        shown_table = Table(
            caption="Classes.",
            frame=table.rename(columns={"true_share": "share of examples", "share": "share of labels"}),
            formats={"labels": ",d", "examples": ",.1f", "share of labels": ".1%", "share of examples": ".1%"},
            hints={"examples": "expected"},
        )
        return Finding(table=table, section=Section(heading="Classes", text=text, tables=[shown_table]))

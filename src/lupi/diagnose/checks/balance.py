"""How often each class is given, how often it is true, and how often it is recognized."""

import numpy as np
import pandas as pd

from lupi.crowd.rates import FEWEST, tabulate_rates
from lupi.diagnose.base import Check, Finding
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table


class Balance(Check):
    """The frequency of each class among labels, and its expected frequency among true labels.

    Its table has one row per class. labels, share: the number and share of its labels; examples, true_share: the
    expected number and share of its examples; recognized: the expected share of the labels of its examples that name
    it; rate, low, high: if some true labels are known, its share among true
    labels with a 95 % interval, by prediction-powered inference (see `lupi.crowd.estimate_rate`).
    """

    name = "balance"

    def run(self, problem: Problem) -> Finding | None:
        """Count the labels and the expected examples of each class."""
        if not problem.has_classes:
            return None
        votes, truth = problem.inference.votes, problem.inference.truth
        labels, examples, of_labels = np.bincount(problem.codes), truth.sum(0), truth[votes.example]
        named = np.bincount(votes.label, of_labels[np.arange(len(of_labels)), votes.label], votes.classes)
        table = pd.DataFrame(
            {
                "class": problem.classes,
                "labels": labels,
                "share": labels / labels.sum(),
                "examples": examples,
                "true_share": examples / examples.sum(),
                "recognized": named / of_labels.sum(0),
            }
        )
        gold = votes.gold
        known = 0 if gold is None else int((gold >= 0).sum())
        if gold is None or known < FEWEST:
            return describe_balance(table)
        true = np.where(gold[:, None] < 0, np.nan, np.eye(len(problem.classes))[gold])
        rates = tabulate_rates(problem.classes, problem.blind_inference.truth, true)  # predictions must not know truth
        return describe_balance(pd.concat([table, rates[["rate", "low", "high"]]], axis=1), known)


def describe_balance(table: pd.DataFrame, known: int = 0) -> Finding:
    """Describe the table of classes; it has rates if some true labels are `known`."""
    text = (
        "The number of labels of each class, and the expected number of examples for which it is the true label. A "
        "class with a larger share of labels than of examples is given too often. Recognized: the expected share of "
        "the labels of its examples that name it."
    )
    names = {"true_share": "share of examples", "share": "share of labels", "rate": "true rate"}
    sentence, numbers = "", {}
    if known:
        text += (
            f"\nThe true rate is the share of the class in truth, with its 95% interval, from {known:,} true labels "
            "and the estimates for all examples. However wrong the labels are, it holds if the examples with a true "
            "label were drawn at random."
        )
        far = table.astype({"class": str}).iloc[int((table["rate"] - table["share"]).abs().argmax())]
        sentence = (
            f"{far['class']!r} is the truth for {far['rate']:.1%} [{far['low']:.1%}, {far['high']:.1%}] of the "
            f"examples, but {far['share']:.1%} of the labels (if the {known:,} true labels were drawn at random)."
        )
        rates = table[["rate", "low", "high"]].to_dict("records")
        numbers = dict(zip(table["class"].map(str), rates, strict=True))
    shown_table = Table(
        caption="Classes.",
        frame=table.rename(columns=names),
        formats={
            "labels": ",d",
            "examples": ",.1f",
            "share of labels": ".1%",
            "share of examples": ".1%",
            "recognized": ".0%",
        },
        intervals={names["rate"]: ".1%"} if known else {},
        hints={"examples": "expected"},
        minor=["labels", "examples", *([names["true_share"]] if known else [])],
    )
    section = Section(heading="Classes", text=text, tables=[shown_table])
    return Finding(sentence=sentence, table=table, section=section, numbers=numbers)

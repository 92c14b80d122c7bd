"""How far annotators agree with each other, and whether they disagree because some err."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi.crowd.agreement import bootstrap_alpha, krippendorff_alpha, wilson_interval
from lupi.crowd.opinions import compare_with_opinions
from lupi.diagnose.base import MOST_ROWS, Brief, Check, Finding
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table

FEWEST_SHARED = 10
"""Minimum number of examples that two annotators must share to be compared."""
ERRORS = (
    "Disagreement is mostly about annotators: some are right more often than others. So infer the true labels, as "
    "`auto` does."
)
OPINIONS = (
    "Disagreement is mostly about examples: who gives a label says less about it than the other labels of the example "
    "do. If the question is subjective, predict how people would answer: `predicts` = labels."
)
UNCLEAR = "It is open whether disagreement is about annotators who err or about examples without a single answer."


class Agreement(Check):
    """Krippendorff's α of all labels (nominal, ordinal or interval), and Cohen's κ of pairs of annotators.

    Its table has one row per pair of annotators who share at least ten examples, the least agreeing first: one, other,
    examples, agreement, and kappa with its interval from low to high.
    """

    name = "agreement"

    def run(self, problem: Problem) -> Finding | None:
        """Measure the agreement of labels of the same example."""
        if problem.y.ndim > 1:
            return None
        label, level, differences = measure_labels(problem)
        alpha = krippendorff_alpha(label, problem.group, level)
        if np.isnan(alpha):
            return None
        low, high = bootstrap_alpha(label, problem.group, level, problem.seed)
        pairs = None
        if problem.annotator is not None and problem.has_classes:
            pairs = compare_pairs(problem.codes, problem.group, np.asarray(problem.annotator))
        sentence = f"Krippendorff's α of the labels is {alpha:.2f} [{low:.2f}, {high:.2f}]"
        text = (
            f"{sentence}, with its 95% interval: 1 is perfect agreement, 0 is chance. {differences}It does not need "
            "the truth: annotators who make the same mistakes agree."
        )
        tables, brief = [], None
        if pairs is not None and len(pairs):
            text += (
                f"\nκ is Cohen's κ of two annotators who share {FEWEST_SHARED} examples or more. A pair with a low κ "
                "reads the instructions differently. Two labels agree if they are equal."
            )
            caption = "Pairs of annotators, the least agreeing first."
            tables = [
                Table(
                    caption=caption,
                    frame=pairs.rename(columns={"kappa": "κ"}),
                    formats={"agreement": ".2f"},
                    intervals={"κ": "z.2f"},
                    sorted_by="κ",
                    minor=["examples", "agreement"],
                )
            ]
            brief = Brief(caption[:-1], pairs.head(MOST_ROWS), dict.fromkeys(["agreement", "kappa", "low", "high"], 2))
        return Finding(
            table=pairs,
            section=Section(heading="Agreement", text=text, tables=tables),
            brief=brief,
            numbers={"alpha": alpha, "low": low, "high": high},
            notes=[f"{sentence}: 1 is perfect agreement, 0 is chance."],
        )


class Disagreement(Check):
    """Compare how well a true label, or a distribution of opinions, predicts a label from the others of its example."""

    name = "disagreement"

    def run(self, problem: Problem) -> Finding | None:
        """Compare the two, if annotators are known and enough examples have several labels."""
        if not problem.has_classes or problem.grades is not None or problem.annotator is None:
            return None
        gap = compare_with_opinions(problem.blind_inference)
        if gap is None:
            return None
        mean, low, high = gap
        sentence = ERRORS if low > 0 else OPINIONS if high < 0 else UNCLEAR
        text = (
            f"{sentence}\nTwo models predict each label from the others of its example. In one, the example has a "
            "true label, which annotators give more or less often. In the other, it has a share of people who would "
            f"give each answer. The first is better by {mean:.3f} nats per label [{low:.3f}, {high:.3f}]."
        )
        return Finding(
            sentence=OPINIONS if high < 0 else "",
            section=Section(heading="Errors or opinions", text=text),
            numbers={"gain_of_truth": mean, "low": low, "high": high},
        )


def measure_labels(problem: Problem) -> tuple[NDArray[Any], str, str]:
    """Return the labels, their level of measurement, and in words which differences between labels count."""
    if problem.real:
        return problem.y, "interval", "Differences between numbers are squared. "
    if problem.rank is None:
        return problem.codes, "nominal", ""
    return problem.rank[problem.codes], "ordinal", "Grades that are close agree better than grades that are not. "


def compare_pairs(label: NDArray[np.int64], example: NDArray[np.int64], annotator: NDArray[Any]) -> pd.DataFrame:
    """Return Cohen's κ of all pairs of annotators who share enough examples, with an interval.

    The interval is Wilson's of the agreement, given the agreement by chance.
    """
    person, names = pd.factorize(annotator, sort=True)
    frame = pd.DataFrame({"example": example, "person": person, "label": label})
    frame = frame.drop_duplicates(["example", "person"])  # a second label of the same person says little
    both = frame.merge(frame, on="example")
    both = both[both["person_x"] < both["person_y"]]
    pair = ["person_x", "person_y"]
    shared = both.assign(equal=both["label_x"] == both["label_y"]).groupby(pair)["equal"].agg(["size", "mean"])
    shared = shared[shared["size"] >= FEWEST_SHARED]
    counts = [both.groupby([*pair, f"label_{side}"]).size().rename_axis([*pair, "label"]) for side in "xy"]
    product = counts[0].mul(counts[1], fill_value=0).groupby(pair).sum()
    n, agreement = shared["size"].to_numpy(), shared["mean"].to_numpy()
    by_chance = np.minimum(product.reindex(shared.index).to_numpy() / n**2, 1 - 1e-12)
    kappa = np.where(agreement == 1, 1.0, (agreement - by_chance) / (1 - by_chance))
    low, high = (np.maximum(-1, (end - by_chance) / (1 - by_chance)) for end in wilson_interval(agreement, n))
    columns = {"one": names[shared.index.get_level_values(0)], "other": names[shared.index.get_level_values(1)]}
    columns |= {"examples": n, "agreement": agreement, "kappa": kappa, "low": low, "high": np.minimum(1, high)}
    return pd.DataFrame(columns).sort_values("kappa", kind="stable", ignore_index=True)

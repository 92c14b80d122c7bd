"""Whether annotators disagree because some err, or because the question has no single answer."""

from lupi.crowd.opinions import compare_with_opinions
from lupi.diagnose.base import Check, Finding
from lupi.diagnose.problem import Problem
from lupi.report import Section

ERRORS = (
    "Disagreement is mostly about annotators: some are right more often than others. So infer the true labels, as "
    "`auto` does."
)
OPINIONS = (
    "Disagreement is mostly about examples: who gives a label says less about it than the other labels of the example "
    "do. If the question is subjective, predict how people would answer: `predicts` = labels."
)
UNCLEAR = "It is open whether disagreement is about annotators who err or about examples without a single answer."


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

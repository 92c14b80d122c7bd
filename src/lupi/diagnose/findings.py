"""The results of a diagnosis, in numbers and in words."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from lupi.diagnose.information import Information
from lupi.diagnose.leaks import GIVEN
from lupi.report.fragment import format_fragment

TOGETHER, SHUFFLED = "(all together)", "(shuffled)"
"""Names of rows of the table of information that are not columns."""
MOST = 8
"""Number of annotators and labels to show in a notebook."""
FEW_EXAMPLES = 1000
"""With fewer examples, the error of the networks may be as large as the intervals."""
LEAKS = {
    "copy": "gives the label away, as a copy of it would",
    "answer": "predicts the labels better than all inputs together, as true labels or another model's answers would",
    "settles": "determines the label together with the inputs, as a note on whether the label is correct would",
}
"""Descriptions of how a column leaks the label."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis:
    """The results of a diagnosis.

    Parameters
    ----------
    information : DataFrame
        One row per privileged column, one row for all columns together that do not leak, and one row for these columns
        shuffled, which are uninformative. column: the name; estimate, low, high: the information about the label beyond
        the inputs in nats, with its interval; share: its share of the held-out loss; alone: the share of the label
        that the column explains on its own; known: the share of rows whose value also occurs in other examples; leak:
        whether the column leaks the label; how: the kind of leak.
    loss : float
        Held-out loss without privileged information.
    control : Information, optional
        Information in all columns together, compared with the same columns shuffled.
    capacity : dict, optional
        Whether the network is large enough. width, loss: the width of the network and its held-out loss given inputs
        and privileged information; wider, wider_loss: the same for a wider network; gain, low, high: by how much that
        loss is lower, with its interval; too_small, large_enough: the conclusions, of which neither holds if the
        interval leaves it open.
    annotators : DataFrame, optional
        The columns of `lupi.crowd.summarize_annotators`, the least supported annotator first.
    labels : DataFrame, optional
        One row per label, the most suspicious first: row, example, annotator, given, likely, and the probabilities
        wrong and right. If the labels come from a file, the first inputs are included.
    consensus : DataFrame, optional
        The most probable label of each example: example, label, probability, labels and agreement, as in
        `lupi.crowd.Aggregation`. Examples without ids are identified by the row of their first label.
    confusions : DataFrame, optional
        Cells of the annotators' confusion matrices: annotator, true, given, count and probability, as in
        `lupi.crowd.Aggregation`.
    balance : DataFrame, optional
        One row per class. labels, share: the number and share of its labels; examples, true_share: the expected number
        and share of its examples.
    periods : DataFrame, optional
        Up to ten periods, if a privileged column holds times: start, end, labels, and the mean probability right that
        a label is correct, with its interval from low to high.
    alpha : float, optional
        Krippendorff's α of the labels; NaN if no example has two labels.
    scores : DataFrame, optional
        Scores of both rankings against true labels: of, estimate, score, value, count.
    pictures : dict of str to list of str
        Thumbnails of the examples of the first labels as data URLs, by column of `labels`; None where there is no
        image.
    notes : list of str
        Caveats and advice.
    """

    information: pd.DataFrame
    loss: float
    control: Information | None = None
    capacity: dict[str, Any] | None = None
    annotators: pd.DataFrame | None = None
    labels: pd.DataFrame | None = None
    consensus: pd.DataFrame | None = None
    confusions: pd.DataFrame | None = None
    balance: pd.DataFrame | None = None
    periods: pd.DataFrame | None = None
    alpha: float | None = None
    scores: pd.DataFrame | None = None
    pictures: dict[str, list[str | None]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def usable(self) -> list[str]:
        """Privileged columns that do not leak."""
        table = self.information
        return table.loc[~table["leak"] & ~table["column"].isin([TOGETHER, SHUFFLED]), "column"].tolist()

    @property
    def label_counts(self) -> dict[str, float]:
        """The number of labels, the number of suspicious labels, and the expected number of wrong labels."""
        if self.labels is None:
            return {}
        wrong = self.labels["wrong"]
        return {"count": len(wrong), "look wrong": int((wrong > 0.5).sum()), "expected wrong": float(wrong.sum())}

    @property
    def verdict(self) -> str:
        """Whether the privileged information is useful, which annotators to check, and how many labels are wrong."""
        leaks = [repr(name) for name in self.information.loc[self.information["leak"], "column"]]
        remove = f"Remove {', '.join(leaks)}, which {'gives' if len(leaks) == 1 else 'give'} the label away. "
        parts = [(remove if leaks else "") + describe_worth(self)]
        if self.capacity is not None:
            parts.append(describe_capacity(self.capacity))
        if self.annotators is not None:
            flagged = self.annotators.loc[self.annotators["flagged"], "annotator"].astype(str).tolist()
            who = ", ".join(flagged[:5]) + (", …" if len(flagged) > 5 else "")
            part = f"{len(flagged) or 'None'} of {len(self.annotators)} annotators "
            part += f"{'are' if flagged else 'is'} flagged as less reliable than the rest."
            parts.append(part + (f" First check the labels of {who}." if flagged else ""))
        if self.labels is not None:
            wrong, total = self.label_counts["look wrong"], len(self.labels)
            parts.append(f"{wrong:,} of {total:,} labels ({100 * wrong / total:.0f} %) are probably wrong.")
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        """Return the verdict, the tops of the tables and the notes, for notebooks."""
        information = ["column", "estimate", "low", "high", "share", "leak"]
        tables = {"Information about the label beyond the inputs, in nats": self.information[information]}
        if self.annotators is not None:
            shown = ["annotator", "labels", "support", "reliability", "low", "high", "flagged"]
            tables["Annotators, the least supported first"] = self.annotators[shown].head(MOST)
        if self.labels is not None:
            tables["Labels, the most suspicious first"] = self.labels.head(MOST)
        return format_fragment(self.verdict, tables, self.notes)

    def numbers(self) -> pd.DataFrame:
        """Return all numbers except those of single annotators and labels, with columns part, name, quantity, value."""
        parts: dict[tuple[str, str], dict[Any, Any]] = {("information", "(none)"): {"loss": self.loss}}
        for row in self.information.to_dict("records"):
            parts["information", row.pop("column")] = row
        if self.control is not None:
            parts["information", "(beyond shuffled)"] = asdict(self.control)
        if self.capacity is not None:
            widths = {name: self.capacity[name][0] for name in ("width", "wider")}
            parts["capacity", ""] = self.capacity | widths
        if self.annotators is not None:
            flagged = int(self.annotators["flagged"].sum())
            parts["annotators", ""] = {"count": len(self.annotators), "flagged": flagged}
        parts["labels", ""] = self.label_counts | ({} if self.alpha is None else {"alpha": self.alpha})
        rows = [(*part, name, value) for part, values in parts.items() for name, value in values.items()]
        if self.scores is not None:
            scores = self.scores.drop(columns="count").itertuples(index=False)
            rows += [(f"score of {of}", *rest) for of, *rest in scores]
        return pd.DataFrame(rows, columns=["part", "name", "quantity", "value"])


def describe_worth(diagnosis: Diagnosis) -> str:
    """Describe whether the privileged information is useful: more informative than a constant and than noise."""
    control = diagnosis.control
    if control is None:
        return "All privileged columns leak the label, so none is worth having."
    table = diagnosis.information.set_index("column")
    together: Any = table.loc[TOGETHER]
    low, high, share = together["low"], together["high"], together["share"]
    estimate = f"{together['estimate']:.3f} nats [{low:.3f}, {high:.3f}]"
    amount = f"it carries {estimate} of information about the label beyond the inputs"
    if not np.isnan(share):
        amount += f", {100 * share:.0f} % of the held-out loss"
    if low > 0 and control.low > 0:
        usable = table.loc[diagnosis.usable, "estimate"]
        most = f"; most of it is in {usable.idxmax()!r}" if len(usable) > 1 else ""
        return (
            f"This privileged information is worth having: {amount}{most}. `lupi compare` shows whether a method can "
            "turn it into a better model."
        )
    if high <= 0 or control.high <= 0:
        answer = "This privileged information is not worth having"
    elif low > 0:
        answer = "This privileged information may be worth having"
    else:
        answer = "There is no evidence that this privileged information is worth having"
    return f"{answer}: {amount}; the difference from the same columns shuffled is {control}."


def describe_capacity(capacity: dict[str, Any]) -> str:
    """Describe whether the network is large enough, as far as the interval of a wider network's gain tells."""
    if capacity["too_small"]:
        answer = "The network is too small to make full use of the privileged information"
    elif capacity["large_enough"]:
        answer = "The network is large enough: a wider one gains little or nothing"
    else:
        answer = "It is not known whether the network is large enough: a wider one may gain up to {high:.4f}"
    losses = (
        "held-out loss given the privileged information {loss:.4f} at width {width[0]}, {wider_loss:.4f} at "
        "{wider[0]}; gain {gain:.4f} [{low:.4f}, {high:.4f}]"
    )
    return f"{answer} ({losses}).".format(**capacity)


def write_notes(information: pd.DataFrame, examples: int) -> list[str]:
    """Write advice on leaks and ids, and what the intervals do not include."""
    notes = []
    for row in information.to_dict("records"):
        if row["leak"]:
            notes.append(
                f"Column {row['column']!r} {LEAKS[row['how']]}: move it from `privileged` to `ignore`, unless you know "
                "why."
            )
        elif row["known"] < 0.1:
            notes.append(
                f"Column {row['column']!r} has a different value in nearly every example, so it says nothing about "
                "other examples: move it from `privileged` to `ignore`, or give it the kind number if it is a quantity."
            )
        elif row["column"] == TOGETHER and row["share"] >= GIVEN:
            notes.append("The privileged columns together determine the label: check what gives it away.")
    notes.append(
        "The intervals of information include the variation between held-out examples and between trainings, but not "
        f"the error that all networks share; the row {SHUFFLED} indicates how large it is."
    )
    if examples < FEW_EXAMPLES:
        notes.append(f"With only {examples} examples, this error may be as large as the intervals.")
    return notes

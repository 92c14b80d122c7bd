"""Whether privileged columns are informative about the label or leak it."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from lupi.diagnose.base import Brief, Check, Finding
from lupi.diagnose.information import Gain
from lupi.diagnose.leaks import GIVEN
from lupi.diagnose.problem import Problem
from lupi.report import Section, Table, figures

TOGETHER, SHUFFLED = "(all together)", "(shuffled)"
"""Names of rows of the table of information that are not columns."""
FEW_EXAMPLES = 1000
"""With fewer examples, the error of the networks may be as large as the intervals."""
SMALL_GAIN = 0.01
"""A gain of at most this share of the held-out loss is no reason to collect a column."""
LEAKS = {
    "copy": "gives the label away, as a copy of it would",
    "answer": "predicts the labels better than all inputs together, as true labels or another model's answers would",
    "settles": "determines the label together with the inputs, as a note on whether the label is correct would",
}
"""Descriptions of how a column leaks the label."""


class Leaks(Check):
    """Columns that leak the label, which are left out of everything that follows (see `lupi.diagnose.leaks`)."""

    name = "leaks"

    def run(self, problem: Problem) -> Finding:
        """Name the columns that leak, and those that differ in nearly every example."""
        notes = []
        for name, column in problem.columns.items():
            if column.how:
                notes.append(
                    f"Column {name!r} {LEAKS[column.how]}: move it from `privileged` to `ignore`, unless you know why."
                )
            elif column.alone.known < 0.1:
                notes.append(
                    f"Column {name!r} has a different value in nearly every example, so it says nothing about other "
                    "examples: move it from `privileged` to `ignore`, or give it the kind number if it is a quantity."
                )
        leaks = [repr(name) for name, column in problem.columns.items() if column.how]
        remove = f"Remove {', '.join(leaks)}, which {'gives' if len(leaks) == 1 else 'give'} the label away."
        return Finding(sentence=remove if leaks else "", notes=notes)


class Information(Check):
    """The held-out loss of q(y | x) minus that of q(y | x, a), for each privileged column and for all together.

    Its table has one row per privileged column, one row for all columns together that do not leak, and one row for
    these columns shuffled, which are uninformative. column: the name; estimate, low, high: the information about the
    label beyond the inputs in nats, with its interval; share: its share of the held-out loss; alone: the share of the
    label that the column explains on its own; known: the share of rows whose value also occurs in other examples; leak:
    whether the column leaks the label; how: the kind of leak.
    """

    name = "information"

    def run(self, problem: Problem) -> Finding:
        """Measure the information in each column, in all together, and beyond the same columns shuffled."""
        rows = [
            {"column": name, **asdict(column.gain), "share": problem.share(column.gain)}
            | {"alone": column.alone.share, "known": column.alone.known, "leak": bool(column.how), "how": column.how}
            for name, column in problem.columns.items()
        ]
        marginal, control = problem.losses[None], None
        if problem.together is not None:
            conditional, shuffled = problem.together
            blank = {"alone": np.nan, "known": np.nan, "leak": False, "how": ""}
            for name, losses in ((TOGETHER, conditional), (SHUFFLED, shuffled)):
                gain = problem.gain(marginal, losses)
                rows.append({"column": name, **asdict(gain), "share": problem.share(gain), **blank})
            control = problem.gain(shuffled, conditional)
        return describe_information(pd.DataFrame(rows), float(marginal.mean()), control, problem.examples)


def describe_information(table: pd.DataFrame, loss: float, control: Gain | None, examples: int) -> Finding:
    """Describe the table of information; `control` is the information beyond shuffled columns."""
    notes = [
        "The intervals of information include the variation between held-out examples and between trainings, but not "
        f"the error that all networks share; the row {SHUFFLED} indicates how large it is."
    ]
    if (table.loc[table["column"] == TOGETHER, "share"] >= GIVEN).any():
        notes.insert(0, "The privileged columns together determine the label: check what gives it away.")
    if examples < FEW_EXAMPLES:
        notes.append(f"With only {examples} examples, this error may be as large as the intervals.")
    short = table.assign(share=100 * table["share"], alone=100 * table["alone"])
    short = short.rename(columns={"estimate": "nats", "share": "% of loss", "alone": "% alone", "how": "leak?"})
    return Finding(
        sentence=describe_worth(table, loss, control),
        table=table,
        section=show_information(table),
        brief=Brief(
            f"Information about the label beyond the inputs (held-out loss without it {loss:.4f})",
            short[["column", "nats", "low", "high", "% of loss", "% alone", "leak?"]],
            {"nats": 4, "low": 4, "high": 4, "% of loss": 1, "% alone": 1},
        ),
        numbers={
            "(none)": {"loss": loss},
            **{row.pop("column"): row for row in table.to_dict("records")},
            **({} if control is None else {"(beyond shuffled)": asdict(control)}),
        },
        notes=notes,
    )


def show_information(table: pd.DataFrame) -> Section:
    """Show how informative each privileged column is about the label."""
    text = (
        "Information in a column about the label beyond the inputs, in nats, with its 95% interval. "
        "A column with zero information cannot help any method.\n"
        "A column that may leak the label nearly gives it away, as a copy would. Check where it comes from: a "
        "model can learn to copy it instead of learning from the inputs.\n"
        "Share is the part of the held-out loss that the column removes. Alone is the part of the label that it "
        "explains without the inputs. Known is the share of rows whose value also occurs in other examples."
    )
    shares = ["share", "alone", "known"]
    shown = table[["column", "estimate", "low", "high", *shares]].rename(columns={"estimate": "information"})
    shown_table = Table(
        caption="Information in each privileged column.",
        frame=shown.assign(leak=np.where(table["leak"], "may leak the label", "")),
        formats=dict.fromkeys(shares, "z.0%"),
        intervals={"information": "z.3f"},
        hints={"information": "nats [interval]"},
        marked=table["leak"].tolist(),
        minor=shares,
    )
    return Section(
        heading="Privileged columns", text=text, figures=[figures.draw_information(table)], tables=[shown_table]
    )


def describe_worth(information: pd.DataFrame, loss: float, control: Gain | None) -> str:
    """Describe whether the privileged information is useful: more informative than a constant and than noise."""
    if control is None:
        return "All privileged columns leak the label, so none is worth having."
    table = information.set_index("column")
    together: Any = table.loc[TOGETHER]
    low, high, share = together["low"], together["high"], together["share"]
    estimate = f"{together['estimate']:.3f} nats [{low:.3f}, {high:.3f}]"
    amount = f"it carries {estimate} of information about the label beyond the inputs"
    if not np.isnan(share):
        amount += f", {100 * share:z.0f} % of the held-out loss"
    if low > 0 and control.low > 0:
        usable = table.loc[~table["leak"], "estimate"].drop([TOGETHER, SHUFFLED])
        most = f"; most of it is in {usable.idxmax()!r}" if len(usable) > 1 else ""
        return (
            f"This privileged information is worth having: {amount}{most}. `lupi compare` shows whether a method can "
            "turn it into a better model."
        )
    if high <= 0 or control.high <= 0:
        answer = "This privileged information is not worth having"
    elif low > 0:
        answer = "This privileged information may be worth having"
    elif high > (0.0 if np.isnan(share) else SMALL_GAIN * loss):
        answer = "There are too few examples to tell whether this privileged information is worth having"
    else:
        answer = "There is no evidence that this privileged information is worth having"
    return f"{answer}: {amount}; the difference from the same columns shuffled is {control}."

"""Say in words what a diagnosis found."""

from __future__ import annotations

import numpy as np
import pandas as pd

from lupi.diagnose.columns import SHUFFLED, TOGETHER, Capacity, ColumnFindings
from lupi.diagnose.leaks import GIVEN

FEW_EXAMPLES = 1000
"""With fewer examples, the misfit of the networks may matter as much as the interval."""


def write_verdict(
    measured: ColumnFindings, annotators: pd.DataFrame | None = None, labels: pd.DataFrame | None = None
) -> str:
    """Say whether the privileged information is worth having, whom to check and how many labels are wrong."""
    leaks = [repr(name) for name in measured.information.loc[measured.information["leak"], "column"]]
    remove = f"Remove {', '.join(leaks)}, which {'gives' if len(leaks) == 1 else 'give'} the label away. "
    parts = [(remove if leaks else "") + describe_worth(measured)]
    if measured.capacity is not None:
        parts.append(describe_capacity(measured.capacity))
    if annotators is not None:
        flagged = annotators.loc[annotators["flagged"], "annotator"].tolist()
        who = ", ".join(map(str, flagged[:5])) + (", …" if len(flagged) > 5 else "")
        parts.append(
            f"{len(flagged)} of {len(annotators)} annotators are flagged as less reliable than the rest. First check "
            f"the labels of {who}."
            if flagged
            else f"None of {len(annotators)} annotators is flagged as less reliable than the rest."
        )
    if labels is not None:
        wrong = int((labels["wrong"] > 0.5).sum())
        parts.append(f"{wrong:,} of {len(labels):,} labels ({100 * wrong / len(labels):.0f} %) are probably wrong.")
    return "\n\n".join(parts)


def describe_worth(measured: ColumnFindings) -> str:
    """Say whether the privileged information is worth having: it must tell more than a constant and than noise."""
    control = measured.control
    if control is None:
        return "No privileged column is left that could be worth having."
    rows = {row["column"]: row for row in measured.information.to_dict("records")}
    together = rows[TOGETHER]
    share = "" if np.isnan(together["share"]) else f", {100 * together['share']:.0f} % of the held-out loss"
    tells = (
        f"it tells {together['estimate']:.3f} nats [{together['low']:.3f}, {together['high']:.3f}] about the label "
        f"beyond the inputs{share}"
    )
    if together["low"] > 0 and control.low > 0:
        own = {name: rows[name]["estimate"] for name in measured.honest}
        most = f"; most of it is in {max(own, key=own.__getitem__)!r}" if len(own) > 1 else ""
        return (
            f"This privileged information is worth having: {tells}{most}. `lupi compare` shows whether a method can "
            "turn it into a better model."
        )
    if together["low"] > 0 and control.high > 0:
        return (
            f"This privileged information may be worth having: {tells}, but not significantly more than the same "
            f"columns shuffled (difference {control})."
        )
    what = f"{tells}, and {control} more than the same columns shuffled"
    if together["high"] <= 0 or control.high <= 0:
        return f"This privileged information is not worth having: {what}."
    return f"There is no evidence that this privileged information is worth having: {what}."


def describe_capacity(capacity: Capacity) -> str:
    """Say whether the network is large enough."""
    what = (
        "The network is too small to make full use of the privileged information"
        if capacity.too_small
        else "The network is large enough: a wider one is not significantly better"
    )
    return (
        f"{what} (held-out loss given the privileged information {capacity.loss:.4f} at width {capacity.width[0]}, "
        f"{capacity.wider_loss:.4f} at {capacity.wider[0]}; gain {capacity.gain:.4f} "
        f"[{capacity.low:.4f}, {capacity.high:.4f}])."
    )


def describe_leak(column: str, how: str, alone: float) -> str:
    """Say how a column gives the label away and what to do about it.

    Examples
    --------
    >>> describe_leak("gold", "answer", 0.5)
    "Column 'gold' predicts the labels better than all inputs together, as true labels or another model's answers \
would: unless you know why, name it in `ignore`."
    """
    if how == "copy":
        return (
            f"Column {column!r} gives the label away (on its own it explains {100 * alone:.0f} % of it): name it in "
            "`ignore`, since a network that can read the label there need not learn from the inputs."
        )
    as_would = (
        "predicts the labels better than all inputs together, as true labels or another model's answers would"
        if how == "answer"
        else "settles the label together with the inputs, as a note whether the label is correct would"
    )
    return f"Column {column!r} {as_would}: unless you know why, name it in `ignore`."


def write_notes(information: pd.DataFrame, examples: int) -> list[str]:
    """Say what to do about leaks and ids, and what the intervals do not include."""
    notes = []
    for row in information.to_dict("records"):
        if row["leak"]:
            notes.append(describe_leak(row["column"], row["how"], row["alone"]))
        elif row["known"] < 0.1:
            notes.append(
                f"Column {row['column']!r} has a different value in nearly every example, so it says nothing about "
                "other examples: name it in `ignore`, or give it the kind number."
            )
        elif row["column"] == TOGETHER and row["share"] >= GIVEN:
            notes.append("The privileged columns together settle the label: check what gives it away.")
    notes.append(
        "The intervals of information include the variation between held-out examples and between trainings, but not "
        f"what all networks miss; the row {SHUFFLED} indicates how large that is."
    )
    if examples < FEW_EXAMPLES:
        notes.append(f"With {examples} examples, this misfit may be as large as the intervals.")
    return notes

"""The report of a diagnosis: what the privileged columns tell, and which annotators and labels to distrust."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lupi.report import figures
from lupi.report.page import Page, Section, Table, format_intervals

PARTS = {
    "share": "Share is the part of the held-out loss that the column takes away.",
    "alone": "Alone is the part of the label that it explains without the inputs.",
    "known": "Known is the part of rows whose value other examples have too.",
}
"""Columns of information that may be there, and what they are."""
SHARES = {
    "agreement": "Agreement is the share of their labels that the model alone would give.",
    "confidence": "Confidence is the mean probability that the model alone gives their labels.",
    "confidence_baseline": "",
    "support": "Support is that by the model and the other labels of the example.",
}
"""Columns of annotators that may be there, and what they are."""


def diagnosis_page(
    verdict: str,
    *,
    information: pd.DataFrame | None = None,
    annotators: pd.DataFrame | None = None,
    labels: pd.DataFrame | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    versions: Mapping[str, str] | None = None,
    more: Sequence[Section] = (),
) -> Page:
    """Make a page of a diagnosis; a part that is not given is left out.

    Parameters
    ----------
    verdict : str
        The answer.
    information : DataFrame, optional
        column, estimate, low, high; and maybe leak, true where a column may give the label away, share, alone, known.
    annotators : DataFrame, optional
        annotator, labels (how many), reliability, low, high, flagged, in the order to show them; and maybe agreement,
        confidence, support, and confidence_baseline: the confidence of No PI.
    labels : DataFrame, optional
        row, given, likely, wrong (a probability), in any order; and maybe example, annotator. The histogram counts all
        labels, and the table shows the 5,000 most suspicious.
    notes : sequence of str
        What to keep in mind.
    command, versions
        How it was made.
    more : sequence of Section
        Before the notes.

    Examples
    --------
    >>> labels = pd.DataFrame({"row": [7, 3], "given": ["cat", "dog"], "likely": ["dog", "dog"], "wrong": [0.9, 0.1]})
    >>> page = diagnosis_page("One label looks wrong.", labels=labels)
    >>> [section.heading for section in page.sections]
    ['Labels']
    """
    sections = []
    if information is not None and len(information):
        sections.append(_information(information))
    if annotators is not None and len(annotators):
        sections.append(_annotators(annotators))
    if labels is not None and len(labels):
        sections.append(_labels(labels))
    sections.extend(more)
    if notes:
        sections.append(Section(heading="Keep in mind", notes=tuple(notes)))
    return Page(
        title="What do we know about these labels?",
        verdict=verdict,
        sections=sections,
        command=command,
        versions=versions or {},
    )


def _information(table: pd.DataFrame) -> Section:
    figures.check_columns("information", table, ["column", "estimate", "low", "high"])
    leak = table["leak"].astype(bool).tolist() if "leak" in table else None
    shown = pd.DataFrame({"column": table["column"], "information": table["estimate"]})
    text = (
        "How much a column tells of the label beyond what the inputs tell, in nats, with its 95% interval. "
        "At zero it tells nothing, and no method can gain from it."
    )
    if leak is not None and any(leak):
        text += (
            "\nA column that may leak the label nearly gives it away, as a copy of it would. Check where it comes "
            "from: a model can learn to copy it in place of learning from the inputs."
        )
    formats = {}
    for name in PARTS:
        if name in table:
            shown[name], formats[name] = table[name], "z.0%"
    if leak is not None and any(leak):
        shown["leak"] = ["may leak the label" if each else "" for each in leak]
    text += "\n" + " ".join(meaning for name, meaning in PARTS.items() if name in table)
    texts = {"information": format_intervals(table["estimate"], table["low"], table["high"], "z.3f")}
    hints = {"information": "nats [interval]"}
    return Section(
        heading="Privileged columns",
        text=text,
        figures=[figures.draw_information(table)],
        tables=[
            Table(
                caption="Information in each privileged column.",
                frame=shown,
                formats=formats,
                texts=texts,
                hints=hints,
                marked=leak,
            )
        ],
    )


def _annotators(table: pd.DataFrame) -> Section:
    figures.check_columns("annotators", table, ["annotator", "labels", "reliability", "low", "high", "flagged"])
    flagged = table["flagged"].to_numpy(bool)
    values = {"annotator": table["annotator"], "labels": table["labels"], "reliability": table["reliability"]}
    formats = {"labels": ",d"}
    for column in SHARES:
        if column in table:
            name = column.replace("_baseline", " of No PI")
            values[name], formats[name] = table[column], ".2f"
    shown = pd.DataFrame(values).assign(flag=["flagged" if each else "" for each in flagged])
    texts = {"reliability": format_intervals(table["reliability"], table["low"], table["high"], "z.2f")}
    pictures = []
    if "confidence" in table:
        pictures.append(figures.draw_confidence(table))
        if "confidence_baseline" in table:
            pictures.append(figures.draw_confidence_gain(table))
    text = (
        "Reliability is the estimated probability that a label of the annotator is right, with its "
        "95% interval. No true label was used: it is judged by the model and by the other annotators. "
        f"Flagged are {int(flagged.sum()):,} of {len(table):,} annotators: even the upper end of their interval is low."
    )
    meanings = " ".join(meaning for column, meaning in SHARES.items() if column in table and meaning)
    order = next((name for name in ("reliability", "support") if name in table and _rises(table[name])), None)
    hints = {"reliability": "[interval]"}
    shown_table = Table(
        caption="Annotators.",
        frame=shown,
        formats=formats,
        texts=texts,
        hints=hints,
        marked=flagged.tolist(),
        sorted_by=order,
    )
    return Section(heading="Annotators", text=f"{text}\n{meanings}", figures=pictures, tables=[shown_table])


def _rises(column: pd.Series[float]) -> bool:
    return bool(column.is_monotonic_increasing)


def _labels(table: pd.DataFrame) -> Section:
    figures.check_columns("labels", table, ["row", "given", "likely", "wrong"])
    columns = [name for name in ("row", "example", "annotator", "given", "likely", "wrong") if name in table]
    table = table.sort_values("wrong", ascending=False, kind="stable")
    shown = table[columns]
    hints = {"wrong": "probability"}
    formats = {"wrong": ".3f"}
    text = (
        "A label is suspicious when the model, which was trained without its example, and the example's other labels "
        "speak against it, each annotator's word weighted by their reliability. Look at the first ones yourself before "
        "you change any."
    )
    return Section(
        heading="Labels",
        text=text,
        figures=[figures.draw_label_errors(table["wrong"].to_numpy(float))],
        tables=[
            Table(
                caption="Labels, the most suspicious first.",
                frame=shown,
                formats=formats,
                hints=hints,
                sorted_by="-wrong",
            )
        ],
    )

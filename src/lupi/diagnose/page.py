"""The report of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lupi.report import figures
from lupi.report.page import Page, Section, Table, format_intervals

COLUMN_SHARES = {
    "share": "Share is the part of the held-out loss that the column removes.",
    "alone": "Alone is the part of the label that it explains without the inputs.",
    "known": "Known is the part of rows whose value also occurs in other examples.",
}
"""Optional columns of information, and what they mean."""
ANNOTATOR_SHARES = {
    "agreement": "Agreement is the share of their labels that the model alone would give.",
    "confidence": "Confidence is the mean probability of their labels according to the model alone.",
    "confidence_baseline": "",
    "support": "Support is the same according to the model and the other labels of the example.",
}
"""Optional columns of annotators, and what they mean."""


def diagnosis_page(
    verdict: str,
    *,
    information: pd.DataFrame | None = None,
    annotators: pd.DataFrame | None = None,
    labels: pd.DataFrame | None = None,
    scores: pd.DataFrame | None = None,
    notes: Sequence[str] = (),
    command: str = "",
    versions: Mapping[str, str] | None = None,
) -> Page:
    """Make the page of a diagnosis; parts that are not given are left out.

    Parameters
    ----------
    verdict : str
        The answer in words.
    information, annotators, labels, scores : DataFrame, optional
        As in `Diagnosis`. Annotators are shown in the given order, and at most 5,000 labels, the most suspicious first.
    notes : sequence of str
        Caveats and advice.
    command, versions
        How the diagnosis was made.

    Examples
    --------
    >>> labels = pd.DataFrame({"row": [7, 3], "given": ["cat", "dog"], "likely": ["dog", "dog"], "wrong": [0.9, 0.1]})
    >>> page = diagnosis_page("One label is probably wrong.", labels=labels)
    >>> [section.heading for section in page.sections]
    ['Labels']
    """
    makers = {
        _information_section: information,
        _annotator_section: annotators,
        _label_section: labels,
        _score_section: scores,
    }
    sections = [make(table) for make, table in makers.items() if table is not None and len(table)]
    if notes:
        sections.append(Section(heading="Notes", notes=tuple(notes)))
    return Page(
        title="What do we know about these labels?",
        verdict=verdict,
        sections=sections,
        command=command,
        versions=versions or {},
    )


def _information_section(table: pd.DataFrame) -> Section:
    figures.check_columns("information", table, ["column", "estimate", "low", "high"])
    leak = table["leak"].astype(bool).tolist() if "leak" in table else []
    shown = pd.DataFrame({"column": table["column"], "information": table["estimate"]})
    text = (
        "What a column tells about the label beyond the inputs, in nats, with its 95% interval. "
        "At zero it tells nothing, and no method can benefit from it."
    )
    if any(leak):
        text += (
            "\nA column that may leak the label nearly gives it away, as a copy would. Check where it comes from: a "
            "model can learn to copy it instead of learning from the inputs."
        )
    known = [name for name in COLUMN_SHARES if name in table]
    shown = shown.assign(**{name: table[name] for name in known})
    if any(leak):
        shown["leak"] = ["may leak the label" if each else "" for each in leak]
    text += "\n" + " ".join(COLUMN_SHARES[name] for name in known)
    shown_table = Table(
        caption="Information in each privileged column.",
        frame=shown,
        formats=dict.fromkeys(known, "z.0%"),
        texts={"information": format_intervals(table["estimate"], table["low"], table["high"], "z.3f")},
        hints={"information": "nats [interval]"},
        marked=leak or None,
    )
    return Section(
        heading="Privileged columns", text=text, figures=[figures.draw_information(table)], tables=[shown_table]
    )


def _annotator_section(table: pd.DataFrame) -> Section:
    figures.check_columns("annotators", table, ["annotator", "labels", "reliability", "low", "high", "flagged"])
    flagged = table["flagged"].to_numpy(bool)
    known = {name: name.replace("_baseline", " of No PI") for name in ANNOTATOR_SHARES if name in table}
    shown = table[["annotator", "labels", "reliability", *known]].rename(columns=known)
    pictures = []
    if "confidence" in table:
        pictures.append(figures.draw_confidence(table))
        if "confidence_baseline" in table:
            pictures.append(figures.draw_confidence_gain(table))
    text = (
        "Reliability is the estimated probability that a label of the annotator is correct, with its "
        "95% interval. It is judged by the model and the other annotators, without true labels. "
        f"{int(flagged.sum()):,} of {len(table):,} annotators are flagged: even the upper end of their interval is low."
    )
    meanings = " ".join(filter(None, (ANNOTATOR_SHARES[name] for name in known)))
    sorted_by = [name for name in ("reliability", "support") if name in table and table[name].is_monotonic_increasing]
    shown_table = Table(
        caption="Annotators.",
        frame=shown.assign(flag=["flagged" if each else "" for each in flagged]),
        formats={"labels": ",d", **dict.fromkeys(known.values(), ".2f")},
        texts={"reliability": format_intervals(table["reliability"], table["low"], table["high"], "z.2f")},
        hints={"reliability": "[interval]"},
        marked=flagged.tolist(),
        sorted_by=next(iter(sorted_by), None),
    )
    return Section(heading="Annotators", text=f"{text}\n{meanings}", figures=pictures, tables=[shown_table])


def _label_section(table: pd.DataFrame) -> Section:
    figures.check_columns("labels", table, ["row", "given", "likely", "wrong"])
    columns = [name for name in ("row", "example", "annotator", "given", "likely", "wrong") if name in table]
    table = table.sort_values("wrong", ascending=False, kind="stable")
    text = (
        "A label is suspicious if the model, which was not trained on its example, and the example's other labels "
        "speak against it, where each annotator counts as much as they are reliable. Check the first ones yourself "
        "before you change any."
    )
    shown_table = Table(
        caption="Labels, the most suspicious first.",
        frame=table[columns],
        formats={"wrong": ".3f"},
        hints={"wrong": "probability"},
        sorted_by="-wrong",
    )
    picture = figures.draw_label_errors(table["wrong"].to_numpy(float))
    return Section(heading="Labels", text=text, figures=[picture], tables=[shown_table])


def _score_section(scores: pd.DataFrame) -> Section:
    text = (
        "True labels were used for these scores, and for nothing else. AUROC is the probability that a wrong label is "
        "ranked before a correct one. Spearman is the correlation between the ranks of annotators and their ranks by "
        "the share of correct labels. Majority vote and No PI alone are the baselines."
    )
    table = Table(caption="Scores.", frame=scores, formats={"value": ".3f", "count": ",d"})
    return Section(heading="Scores by true labels", text=text, tables=[table])

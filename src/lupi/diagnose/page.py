"""The report of a diagnosis."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from lupi.diagnose.findings import Diagnosis
from lupi.report import figures
from lupi.report.page import Detail, Page, Section, Table, format_intervals

MOST_ANNOTATORS = 50
"""Maximum number of annotators with confusion matrices on the page."""
MOST_CLASSES = 15
"""Maximum number of classes of a confusion matrix on the page."""


def diagnosis_page(diagnosis: Diagnosis) -> Page:
    """Make the page of a diagnosis, without sections that have no results.

    Parameters
    ----------
    diagnosis : Diagnosis
        Result of `diagnose`. The page shows at most 5,000 labels, the most suspicious first.
    """
    sections = [information_section(diagnosis.information)]
    if diagnosis.annotators is not None:
        section = annotator_section(diagnosis.annotators)
        if diagnosis.confusions is not None and diagnosis.balance is not None:
            details = show_confusions(diagnosis.annotators, diagnosis.confusions, diagnosis.balance["class"].tolist())
            whom = "an annotator" if len(details) == len(diagnosis.annotators) else f"one of the first {len(details)}"
            more = f"Below the table, open {whom} to see which classes they confuse."
            section = replace(section, details=details, text=f"{section.text}\n{more}")
        sections.append(section)
    if diagnosis.labels is not None:
        sections.append(label_section(diagnosis.labels, diagnosis.pictures))
    if diagnosis.balance is not None:
        sections.append(balance_section(diagnosis.balance))
    if diagnosis.periods is not None:
        sections.append(period_section(diagnosis.periods))
    if diagnosis.scores is not None:
        sections.append(score_section(diagnosis.scores))
    if diagnosis.notes:
        sections.append(Section(heading="Notes", notes=diagnosis.notes))
    return Page(title="What do we know about these labels?", verdict=diagnosis.verdict, sections=sections)


def information_section(table: pd.DataFrame) -> Section:
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
    shown = table[["column", "estimate", *shares]].rename(columns={"estimate": "information"})
    shown_table = Table(
        caption="Information in each privileged column.",
        frame=shown.assign(leak=np.where(table["leak"], "may leak the label", "")),
        formats=dict.fromkeys(shares, "z.0%"),
        texts={"information": format_intervals(table["estimate"], table["low"], table["high"], "z.3f")},
        hints={"information": "nats [interval]"},
        marked=table["leak"].tolist(),
    )
    return Section(
        heading="Privileged columns", text=text, figures=[figures.draw_information(table)], tables=[shown_table]
    )


def annotator_section(table: pd.DataFrame) -> Section:
    """Show how reliable each annotator is."""
    flagged = table["flagged"]
    text = (
        "Reliability is the estimated probability that a label of the annotator is correct, with its "
        "95% interval. It is estimated from the model, the other annotators and any true labels. "
        f"{flagged.sum():,} of {len(table):,} annotators are flagged: even the upper end of their interval is low.\n"
        "Agreement is the share of an annotator's labels that equal the model's prediction. Confidence is the mean "
        "probability of the labels according to the model alone. Support is the mean probability of the labels "
        "according to the model and the other labels of the example."
    )
    pictures = [figures.draw_confidence(table)]
    shown = table.drop(columns=["low", "high"]).assign(flagged=np.where(flagged, "flagged", ""))
    if "confidence_baseline" in table:
        pictures.append(figures.draw_confidence_gain(table))
        shown = shown.rename(columns={"confidence_baseline": "confidence of No PI"})
    shares = shown.columns.difference(["annotator", "labels", "reliability", "flagged"])
    shown_table = Table(
        caption="Annotators.",
        frame=shown,
        formats={"labels": ",d", **dict.fromkeys(shares, ".2f")},
        texts={"reliability": format_intervals(table["reliability"], table["low"], table["high"], "z.2f")},
        hints={"reliability": "[interval]"},
        marked=flagged.tolist(),
        sorted_by="support",
    )
    return Section(heading="Annotators", text=text, figures=pictures, tables=[shown_table])


def show_confusions(annotators: pd.DataFrame, confusions: pd.DataFrame, classes: list[Any]) -> list[Detail]:
    """Show the confusion matrices of the least supported annotators, or only the largest cells if classes are many."""
    cells: dict[Any, pd.DataFrame] = dict(iter(confusions.groupby("annotator", sort=False)))
    details = []
    for row in annotators.head(MOST_ANNOTATORS).itertuples(index=False):
        own = cells[row.annotator].drop(columns="annotator")
        if len(classes) > MOST_CLASSES:
            largest = own[own["true"] != own["given"]].sort_values("count", ascending=False, kind="stable")
            caption, formats = "Most frequent confusions.", {"count": ".1f", "probability": ".2f"}
            table = Table(caption=caption, frame=largest.head(MOST_CLASSES), formats=formats)
        else:
            caption = "Probability of each given label, by true label."
            wide = own.pivot_table(index="true", columns="given", values="probability", observed=True)
            wide = wide.reindex(columns=classes).fillna(0.0).reindex(index=classes)  # a dash: never a true label
            wide = wide.set_axis([str(name) for name in classes], axis="columns").rename_axis("true \\ given")
            table = Table(caption=caption, frame=wide.reset_index(), formats={str(name): ".2f" for name in classes})
        who = f"{row.annotator}: {row.labels:,} labels, reliability {row.reliability:.2f}"
        details.append(Detail(who + (", flagged" if row.flagged else ""), table))
    return details


def label_section(table: pd.DataFrame, pictures: Mapping[str, Sequence[str | None]] = MappingProxyType({})) -> Section:
    """Show the most suspicious labels, the first ones with images."""
    text = (
        "A label is suspicious if it contradicts the model, which was not trained on its example, and the other labels "
        "of the example; reliable annotators count for more. Check the first ones yourself before you change any."
    )
    shown_table = Table(
        caption="Labels, the most suspicious first.",
        frame=table.drop(columns="right", errors="ignore"),
        formats={"wrong": ".3f"},
        hints={"wrong": "probability"},
        sorted_by="-wrong",
        images=pictures,
    )
    picture = figures.draw_label_errors(table["wrong"].to_numpy(float))
    return Section(heading="Labels", text=text, figures=[picture], tables=[shown_table])


def balance_section(table: pd.DataFrame) -> Section:
    """Show the frequency of each class."""
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
    return Section(heading="Classes", text=text, tables=[shown_table])


def period_section(table: pd.DataFrame) -> Section:
    """Show how reliable labels are over time."""
    text = (
        "Right is the mean probability that a label of the period is correct, with its 95% interval. If it falls, look "
        "for what changed: new annotators, other instructions, harder examples."
    )
    days = {name: table[name].dt.strftime("%Y-%m-%d %H:%M") for name in ("start", "end")}
    shown_table = Table(
        caption="Periods with about equally many labels each.",
        frame=table.drop(columns=["low", "high"]).assign(**days),
        formats={"labels": ",d"},
        texts={"right": format_intervals(table["right"], table["low"], table["high"], "z.2f")},
        hints={"right": "[interval]"},
    )
    return Section(heading="Over time", text=text, tables=[shown_table])


def score_section(table: pd.DataFrame) -> Section:
    """Show how well the rankings agree with true labels."""
    text = (
        "True labels were used for these scores, and for nothing else. AUROC is the probability that a wrong label is "
        "ranked before a correct one. Spearman is the correlation between the ranks of annotators and their ranks by "
        "the share of correct labels. Majority vote and No PI alone are the baselines."
    )
    shown_table = Table(caption="Scores.", frame=table, formats={"value": ".3f", "count": ",d"})
    return Section(heading="Scores by true labels", text=text, tables=[shown_table])

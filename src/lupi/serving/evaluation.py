"""Score a model on a table of true labels.

The intervals are normal approximations for the mean over independent examples, so that several rows of one example do
not count as several examples: Student's t for means of losses and, for shares such as accuracy, Wilson's score
interval, which holds for few examples and for shares near 0 and 1 as well. The expected calibration error is biased in
small samples and has no interval.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from lupi._internal.arrays import Floats
from lupi._internal.checks import split_names
from lupi._internal.files import explain_os_errors, read_object, to_records, write_text
from lupi.crowd.agreement import wilson_interval
from lupi.estimators.scoring import predict_test
from lupi.metrics import (
    METRICS,
    SUMS,
    Normal,
    Posterior,
    accuracy,
    average_bins,
    clustered_error,
    evaluate,
    reliability,
)
from lupi.report import Section, Table
from lupi.report.figures import CALIBRATION, draw_calibration, draw_means
from lupi.report.page import Page, format_number, write_results
from lupi.serving.card import escape, list_names, quote_code
from lupi.serving.model import TableModel
from lupi.serving.prediction import UnseenCategories
from lupi.tabular.formats import open_file, read_schema
from lupi.tabular.schema import Schema
from lupi.tabular.table_data import TableData, read_labelled

MAX_GROUPS = 10
"""Number of groups of predicted numbers in a figure."""
SCORES = re.compile(r"\n## Scores\n.*?(?=\n## |\Z)", re.DOTALL)
"""The section of a model card that says how good the model is."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """The scores of a model on true labels.

    Parameters
    ----------
    scores : DataFrame
        One row per metric: metric (a name in `lupi.metrics.METRICS`), value, and low and high, the ends of its 95 %
        interval.
    classes : DataFrame
        One row per class or label: class, labels, predictions, recall and precision with their intervals, and the class
        that it is most often mistaken for; empty for regression.
    bins : DataFrame
        The calibration figure: confidence and accuracy or, for regression, the means of predictions and of true values.
    verdict : str
        The conclusions, one sentence per line.
    notes : list of str
        Notes on the table and the intervals.
    about : dict
        The method, the table, the target and the numbers of rows and examples.
    """

    scores: pd.DataFrame
    classes: pd.DataFrame
    bins: pd.DataFrame
    verdict: str
    notes: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the verdict, the scores and the notes, for terminals."""
        scores = self._scores_table().frame.to_string(index=False)
        return "\n\n".join([self.verdict, scores, "\n".join(f"Note: {note}" for note in self.notes)])

    @property
    def page(self) -> Page:
        """The report."""
        sections = [Section(heading="Scores", tables=[self._scores_table()], notes=self.notes)]
        if self.classes.empty:
            text = f"True values against predictions, in up to {MAX_GROUPS} groups of equal size, sorted by prediction."
            sections.append(Section(heading="Predictions", text=text, figures=[draw_means(self.bins)]))
        else:
            sections.append(Section(heading="Calibration", text=CALIBRATION, figures=draw_calibration(self.bins)))
            sections.append(self._classes_section())
        return Page(title="How good is the model?", verdict=self.verdict, sections=sections)

    def _scores_table(self) -> Table:
        rows = []
        for name, value, low, high in self.scores.itertuples(index=False):
            metric = METRICS[name]
            interval = "–" if math.isnan(low) else f"{metric.format(low)} to {metric.format(high)}"
            better = "higher" if metric.higher_is_better else "lower"
            rows.append([metric.heading, metric.format(value), interval, better])
        frame = pd.DataFrame(rows, columns=["metric", "value", "95 % interval", "better"])
        return Table(caption="Scores on true labels.", frame=frame)

    def _classes_section(self) -> Section:
        shares = [f"{name}{end}" for name in ("recall", "precision") for end in ("", "_low", "_high")]
        table = Table(
            caption="Classes, with 95 % intervals.",
            frame=self.classes.assign(**100 * self.classes[shares]),
            formats={"labels": ",d", "predictions": ",d"},
            intervals={"recall": ".0f", "precision": ".0f"},
            hints={
                "labels": "true",
                "recall": "% of its labels that are predicted",
                "precision": "% of its predictions that are right",
            },
        )
        return Section(heading="Classes", tables=[table])

    def write(self, folder: Path, **facts: Any) -> list[Path]:
        """Write results.json, results.csv, classes.csv and report.html, and return their paths."""
        results = {
            "about": self.about,
            "verdict": self.verdict.split("\n"),
            "notes": self.notes,
            "scores": to_records(self.scores),
            "classes": to_records(self.classes),
            "calibration": to_records(self.bins),
        }
        tables = {"results.csv": self.scores} | ({} if self.classes.empty else {"classes.csv": self.classes})
        return write_results(folder, self.page, tables, results, facts, drop=["classes.csv"])

    def add_to_card(self, model: Path) -> Path:
        """Write the scores into the card of a model folder, instead of those of an earlier evaluation."""
        card, about = model / "README.md", self.about
        lines = [
            "\n## Scores",
            f"Measured on {about['rows']:,} rows of {about['examples']:,} examples in {quote_code(about['table'])}; "
            f"true labels: {list_names(about['target'])}.",
            "",
            "| metric | value | 95 % interval |",
            "|---|---|---|",
            *(
                "| {metric} | {value} | {95 % interval} |".format_map(row)
                for row in to_records(self._scores_table().frame)
            ),
            "",
            *(f"- {escape(note)}" for note in self.notes),
        ]
        with explain_os_errors(card, "model"):
            text = SCORES.sub("", card.read_text("utf-8"))
            write_text(card, text.rstrip("\n") + "\n" + "\n".join(lines) + "\n")
        return card


def is_evaluation(folder: Path) -> bool:
    """Return whether a folder holds the results of an evaluation."""
    return {"scores", "calibration"} <= read_object(folder / "results.json").keys()


def evaluate_table(model: TableModel, table: Path, target: Sequence[str]) -> Evaluation:
    """Score a model on the rows of a table that have a true label."""
    if not isinstance(model, TableModel):
        raise ValueError(f"Expected `model` to be trained on a table, but got a {type(model).__name__} that was not.")
    schema, notes = match_target(model.schema, split_names(target, read_schema(open_file(table)).names))
    classes = list(getattr(model.estimator, "classes_", np.empty(0)).tolist())
    test = read_labelled(table, schema, classes)
    unseen = UnseenCategories(model)
    assert isinstance(test.columns, pd.DataFrame)
    unseen.add(test.columns)
    y: Any = Posterior(np.asarray(test.labels)) if schema.soft else test.labels
    y, prediction = predict_test(model.estimator, test.inputs, y)
    rows = [
        (name, score.value, *find_interval(score.value, score.rows, test.group, share=METRICS[name].unit == "%"))
        for name, score in evaluate(y, prediction).items()
    ]
    scores = pd.DataFrame(rows, columns=["metric", "value", "low", "high"])
    return Evaluation(
        scores=scores,
        classes=pd.DataFrame() if isinstance(prediction, Normal) else score_classes(y, prediction, test.group, model),
        bins=group_predictions(y, prediction, str(model.estimator.method)),
        verdict=write_verdict(scores, y, prediction, test),
        notes=[
            *notes,
            *test.notes,
            *unseen.describe(),
            f"Intervals cover the choice of {test.examples:,} examples, not that of the training table and seed. They "
            "are normal approximations (Wilson's for shares); ECE, which few examples bias upwards, has none.",
            "Rows that the model was trained on make it look better than it is: leave them out.",
        ],
        about={
            "method": str(model.estimator.method),
            "table": str(table),
            "target": list(schema.roles.target),
            "rows": len(test),
            "examples": test.examples,
        },
    )


def match_target(schema: Schema, given: Sequence[str]) -> tuple[Schema, list[str]]:
    """Return the schema with other columns of labels, and a note if several are matched by their order."""
    trained = schema.roles.target
    of_classes = schema.soft and len(given) == 1
    if len(given) != len(trained) and not of_classes:
        raise ValueError(
            f"Expected `target` to name {len(trained)} column{'' if len(trained) == 1 else 's'} of true labels, as in "
            f"training, but got {len(given)}."
        )
    notes = []
    if len(given) > 1 and set(given) == set(trained):
        given = trained
    elif len(given) > 1:
        pairs = ", ".join(f"{new} for {old}" for new, old in zip(given, trained, strict=True))
        notes.append(f"True labels are matched by their order: {pairs}.")
    roles = replace(schema.roles, target=tuple(given))
    return replace(schema, roles=roles, soft=schema.soft and not of_classes), notes


def find_interval(value: float, rows: Floats | None, cluster: NDArray[Any], *, share: bool) -> tuple[float, float]:
    """Return the 95 % interval of a mean over the rows of independent examples; NaN if it cannot be estimated."""
    if rows is None:
        return math.nan, math.nan
    if not share:
        error, count = clustered_error(rows, cluster)
        half = error * float(stats.t.ppf(0.975, count - 1))
        return value - half, value + half
    counts = np.unique(cluster, return_counts=True)[1]
    size = counts.sum() ** 2 / np.square(counts).sum()  # as if the rows of an example were equal, as predictions are
    size *= value * (1 - value) / rows.var() if rows.var() > 1e-12 else 1  # more for means of several labels
    low, high = wilson_interval(value, size, float(stats.norm.ppf(0.975)))
    return float(low), float(high)


def score_classes(y: Any, p: Any, group: NDArray[Any], model: TableModel) -> pd.DataFrame:
    """Return recall and precision of each class or label, with intervals."""
    names = model.record["classes"]
    y = y.p.argmax(1) if isinstance(y, Posterior) else np.asarray(y)
    several = y.ndim == 2
    true = y == 1 if several else y[:, None] == np.arange(len(names))
    predicted = p > 0.5 if several else p.argmax(1)[:, None] == np.arange(len(names))
    rows = []
    for k, name in enumerate(names):
        row = {"class": name, "labels": int(true[:, k].sum()), "predictions": int(predicted[:, k].sum())}
        for measure, right, among in (("recall", predicted, true), ("precision", true, predicted)):
            own = among[:, k]
            values = right[own, k].astype(float)
            value = float(values.mean()) if len(values) else math.nan
            low, high = find_interval(value, values if len(values) else None, group[own], share=True)
            row |= {measure: value, f"{measure}_low": low, f"{measure}_high": high}
        if not several:
            others = predicted[true[:, k]].sum(0) * (np.arange(len(names)) != k)
            row["most often mistaken for"] = names[others.argmax()] if others.any() else ""
        rows.append(row)
    return pd.DataFrame(rows)


def group_predictions(y: Any, prediction: Any, name: str) -> pd.DataFrame:
    """Return the table of the calibration figure."""
    if not isinstance(prediction, Normal):
        return average_bins({name: reliability(y, prediction)[SUMS].to_numpy(float)})
    order = np.argsort(prediction.mean, kind="stable")
    groups = np.array_split(order, min(MAX_GROUPS, len(order)))
    means = [
        (prediction.mean[own].mean(), y[own].mean(), stats.sem(y[own]) if len(own) > 1 else 0, len(own))
        for own in groups
    ]
    table = pd.DataFrame(means, columns=["prediction", "truth", "error", "count"])
    half = stats.norm.ppf(0.975) * table.pop("error")
    return table.assign(low=table["truth"] - half, high=table["truth"] + half)


def write_verdict(scores: pd.DataFrame, y: Any, prediction: Any, test: TableData) -> str:
    """Say how good the model is, beside a constant answer, and whether it is too confident."""
    first = "rmse" if isinstance(prediction, Normal) else "accuracy"
    metric, row = METRICS[first], scores[scores["metric"] == first].to_dict("records")[0]
    unit = f" {metric.unit}" if metric.unit else ""
    value, low, high = (metric.format(row[part]) for part in ("value", "low", "high"))
    what = f"{metric.label[0].upper()}{metric.label[1:]} {value}{unit} (95 % interval {low} to {high})"
    lines = [f"{what} on {test.examples:,} examples with true labels."]
    if isinstance(prediction, Normal):
        return f"{lines[0]}\nThe mean of the true values, as a constant answer, has {metric.format(float(np.std(y)))}."
    p = np.asarray(prediction)
    if test.schema.several:
        confidence, share = np.maximum(p, 1 - p).mean(1), y.mean(0)
        constant = np.maximum(share, 1 - share).mean()
    else:
        truth = y.p if isinstance(y, Posterior) else np.eye(p.shape[1])[y]
        confidence, constant = p.max(1), truth.mean(0).max()
    lines.append(f"Always the most frequent answer has {metric.format(float(constant))}{unit}.")
    gap = confidence - accuracy(y, p)
    ends = find_interval(float(gap.mean()), gap, test.group, share=False)
    judged = "too confident" if ends[0] > 0 else "too cautious" if ends[1] < 0 else "no sign that it is miscalibrated"
    value, low, high = (format_number(100 * number, "+.1f") for number in (gap.mean(), *ends))
    return "\n".join([*lines, f"Its confidence minus its accuracy is {value} points ({low} to {high}): {judged}."])

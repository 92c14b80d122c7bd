"""The report of a comparison of methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lupi.metrics import METRICS
from lupi.report.figures import check_columns, draw_calibration, draw_differences
from lupi.report.page import Page, Section, Table, format_intervals, format_number


def comparison_page(
    runs: pd.DataFrame,
    summary: pd.DataFrame,
    verdict: str,
    *,
    notes: Sequence[str] = (),
    bins: pd.DataFrame | None = None,
    command: str = "",
    versions: Mapping[str, str] | None = None,
) -> Page:
    """Make a page of a comparison.

    Parameters
    ----------
    runs : DataFrame
        One row per method and seed: method, seed, metrics, and maybe control, true where the method is a control. In
        figures a control "METHOD [CONTROL]" stands in the row of its method.
    summary : DataFrame
        Indexed by method. For each metric m the columns m, m_sd, m_difference, m_low, m_high: mean and standard
        deviation over seeds, paired difference to the baseline and its interval; maybe seconds.
    verdict : str
        The answer.
    notes : sequence of str
        What to keep in mind.
    bins : DataFrame, optional
        Calibration: method, confidence, accuracy, count; one row per bin. Controls are left out.
    command, versions
        How it was made.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": ["no-pi", "tram"] * 2, "seed": [0, 0, 1, 1], "nll": [1.0, 0.5, 1.2, 0.7]})
    >>> summary = pd.DataFrame({"nll": [1.1, 0.6], "nll_sd": [0.14, 0.14], "nll_difference": [0.0, -0.5],
    ...                         "nll_low": [0.0, -0.6], "nll_high": [0.0, -0.4]}, index=["no-pi", "tram"])
    >>> page = comparison_page(runs, summary, "TRAM helps.")
    >>> [section.heading for section in page.sections]
    ['Difference to No PI', 'Every run']
    """
    check_columns("runs", runs, ["method", "seed"])
    metrics = [name.removesuffix("_difference") for name in summary.columns if name.endswith("_difference")]
    for metric in metrics:
        parts = [metric, *(f"{metric}_{part}" for part in ("sd", "difference", "low", "high"))]
        check_columns("summary", summary, parts)
    control = _controls(runs, summary)
    owner = _owners(control)
    others = summary.index != "no-pi"
    figures = []
    for metric in metrics:
        table = pd.DataFrame(
            {
                "method": summary.index[others],
                "difference": summary.loc[others, f"{metric}_difference"].to_numpy(float),
                "low": summary.loc[others, f"{metric}_low"].to_numpy(float),
                "high": summary.loc[others, f"{metric}_high"].to_numpy(float),
                "control": control[others].to_numpy(bool),
                "of": owner[others].to_numpy(),
            }
        )
        if len(table):
            figures.append(draw_differences(table, METRICS[metric]))
    seeds = runs["seed"].nunique()
    text = (
        f"Every method was trained with {seeds} seed{'s' if seeds != 1 else ''}, each time on the same data as No PI. "
        "The difference to No PI is paired by seed and has a 95% interval."
    )
    if control.any():
        text += (
            "\nA control cannot gain from what the privileged information says: it is a method with values shuffled or "
            "replaced, or No PI that stops early. What a method gains beyond its controls comes from the information."
        )
    sections = [
        Section(
            heading="Difference to No PI",
            text=text,
            figures=figures,
            tables=[_scores(summary, metrics, control)],
            notes=tuple(notes),
        )
    ]
    if bins is not None and len(bins):
        bins = bins[~bins["method"].isin(control.index[control])]
        sections.append(
            Section(
                heading="Calibration",
                text="A model is calibrated if its predictions with 80% confidence are right 80% of the time: the "
                "points then lie on the dashed line. Below the line, the model is overconfident. A larger point holds "
                "more predictions. The grey line is No PI. ECE, the expected calibration error, is the mean distance "
                "to the dashed line.",
                figures=draw_calibration(bins),
            )
        )
    sections.append(Section(heading="Every run", tables=[_runs(runs)]))
    return Page(
        title="Does privileged information help?",
        verdict=verdict,
        sections=sections,
        command=command,
        versions=versions or {},
    )


def _controls(runs: pd.DataFrame, summary: pd.DataFrame) -> pd.Series[bool]:
    """For each method whether it is a control."""
    names: set[object] = set(runs.loc[runs["control"].astype(bool), "method"]) if "control" in runs else set()
    return pd.Series([name in names for name in summary.index], summary.index, dtype=bool)


def _owners(control: pd.Series[bool]) -> pd.Series[str]:
    """For each control the method that it belongs to, where that is shown, else ""."""
    methods = set(control.index[~control]) - {"no-pi"}
    names = [str(name).partition(" [")[0] if is_one else "" for name, is_one in control.items()]
    return pd.Series([name if name in methods else "" for name in names], control.index, dtype=object)


def _scores(summary: pd.DataFrame, metrics: Sequence[str], control: pd.Series[bool]) -> Table:
    """Means and differences, for reading; the figures show the same."""
    values: dict[str, object] = {"method": summary.index.astype(str)}
    texts, hints = {}, {}
    for metric in metrics:
        known = METRICS[metric]
        name, scale, digits = known.heading, known.scale, known.digits
        better = "higher" if known.higher_is_better else "lower"
        mean, spread, gap, low, high = (
            scale * summary[f"{metric}{part}"].to_numpy(float) for part in ("", "_sd", "_difference", "_low", "_high")
        )
        style, sign = f"z.{digits}f", f"+z.{digits}f"
        values[name] = mean
        texts[name] = [
            f"{format_number(m, style)} ± {format_number(s, style)}" for m, s in zip(mean, spread, strict=True)
        ]
        hints[name] = f"{better} is better"
        to = f"{name.removesuffix(', %')} difference"
        values[to] = pd.Series(gap).where(summary.index != "no-pi")
        intervals = format_intervals(gap, low, high, sign)
        texts[to] = ["–" if name == "no-pi" else text for name, text in zip(summary.index, intervals, strict=True)]
    formats = {}
    if "seconds" in summary:
        values["time"] = summary["seconds"].to_numpy(float)
        formats["time"], hints["time"] = ".1f", "s per seed"
    if control.any():
        values["kind"] = ["control" if is_one else "" for is_one in control]
    caption = "Mean ± standard deviation over seeds, and difference to No PI [interval]."
    return Table(caption=caption, frame=pd.DataFrame(values), formats=formats, texts=texts, hints=hints)


def _runs(runs: pd.DataFrame) -> Table:
    scaled = runs.copy()
    names, formats = {}, {"seed": "d"} if runs["seed"].dtype.kind in "iu" else {}
    for column in runs.columns:
        if column in METRICS:
            name, scale, digits = METRICS[column].heading, METRICS[column].scale, METRICS[column].digits
            scaled[column] *= scale
            names[column], formats[name] = name, f".{digits + 1}f"
    if "seconds" in runs:
        formats["seconds"] = ".1f"
    caption = "Scores of every method with every seed."
    return Table(caption=caption, frame=scaled.rename(columns=names), formats=formats)

"""Figures of the reports, each from a plain table.

They are narrow, one panel each, so that they can be read on a phone; the page puts them side by side where it is wide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import figure as plots
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lupi.report.characters import short
from lupi.report.page import Figure, written
from lupi.report.style import COLOURS
from lupi.report.svg import INLINE, inline_svg

WIDTH = 5.0
"""Inches."""
NAME = 25
"""Letters of a name in a figure."""


def check_columns(name: str, table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Fail if a table misses a column."""
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise ValueError(
            f"Expected `{name}` to have the columns {', '.join(columns)}, but got no {', '.join(missing)}."
        )


def difference(
    table: pd.DataFrame, metric: str, *, better: str | None = None, baseline: str = "No PI", digits: int = 3
) -> Figure:
    """Draw each method's difference to the baseline with its interval.

    Parameters
    ----------
    table : DataFrame
        method, difference, low, high, without the baseline's row; control, optional: true where a method is a
        control; of, optional: the method that a control stands below, or "" for a row of its own.
    metric : str
        Name of what differs, with its unit.
    better : {"lower", "higher"}, optional
        Which side is better.
    baseline : str
        What the difference is to.
    digits : int
        Decimals in the description.

    Examples
    --------
    >>> table = pd.DataFrame({"method": ["tram"], "difference": [-0.1], "low": [-0.2], "high": [-0.05]})
    >>> difference(table, "NLL", better="lower").caption
    'Difference in NLL to No PI; lower is better. A full mark: the interval leaves out zero.'
    """
    check_columns("table", table, ["method", "difference", "low", "high"])
    control = table.get("control", pd.Series(False, table.index)).to_numpy(bool)
    middle, low, high = (table[name].to_numpy(float) for name in ("difference", "low", "high"))
    owner = table["of"].tolist() if "of" in table else [""] * len(table)
    names, place = _places(table["method"].tolist(), owner)
    inner = np.array([bool(of) for of in owner])

    def draw(axes: Any) -> None:
        _intervals(axes, middle, low, high, place, control, (low > 0) | (high < 0), inner)
        _rows(axes, names)
        side = {"lower": " (← better)", "higher": " (better →)", None: ""}[better]
        axes.set_xlabel(f"difference in {short(metric, NAME)}{side}", loc="right")
        if control.any():
            _legend(axes, [("pi", "o", "method"), ("control", "D", "control")])

    style = f"+z.{digits}f"
    said = [
        f"{name}{' (control)' if c else ''} {written(m, style)}, interval {written(lo, style)} to {written(hi, style)}"
        for name, c, m, lo, hi in zip(table["method"], control, middle, low, high, strict=True)
    ]
    better_text = f"; {better} is better" if better else ""
    marks = "A full mark: the interval leaves out zero."
    if inner.any():
        marks += " Small marks below a method are its controls."
    return Figure(
        _svg(draw, _height(names, bool(inner.any())), f"Difference in {metric} to {baseline}", "; ".join(said) + "."),
        f"Difference in {metric} to {baseline}{better_text}. {marks}",
    )


def calibration(bins: pd.DataFrame, *, baseline: str = "no-pi") -> list[Figure]:
    """Draw a reliability diagram for each method: accuracy against confidence; a larger point holds more predictions.

    Parameters
    ----------
    bins : DataFrame
        method, confidence, accuracy, count; one row per bin.
    baseline : str
        The method that stands, in grey, in all diagrams.

    Examples
    --------
    >>> bins = pd.DataFrame({"method": ["no-pi", "tram"], "confidence": [0.9, 0.8], "accuracy": [0.7, 0.8],
    ...                      "count": [10, 10]})
    >>> [made.caption for made in calibration(bins)]
    ['no-pi: ECE 0.200', 'tram: ECE 0.000']
    """
    check_columns("bins", bins, ["method", "confidence", "accuracy", "count"])
    bins = bins[bins["count"] > 0]
    return [
        _reliability(str(name), bins[bins["method"] == name], bins[bins["method"] == baseline])
        for name in dict.fromkeys(bins["method"])
    ]


def _reliability(name: str, own: pd.DataFrame, other: pd.DataFrame) -> Figure:
    error = float(np.average((own["confidence"] - own["accuracy"]).abs(), weights=own["count"]))
    share = own["count"] / own["count"].sum()

    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=COLOURS["truth"], linewidth=0.8, linestyle=(0, (4, 3)))
        axes.plot(other["confidence"], other["accuracy"], color=COLOURS["no-pi"], linewidth=1.2, alpha=0.7)
        colour = COLOURS["no-pi"] if own["method"].iloc[0] in set(other["method"]) else COLOURS["pi"]
        axes.plot(own["confidence"], own["accuracy"], color=colour, linewidth=1.6)
        axes.scatter(own["confidence"], own["accuracy"], s=12 + 120 * share, color=colour, linewidths=0, zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])

    said = [
        f"confidence {c:.2f}, accuracy {a:.2f}, {n:,.0f} predictions"
        for c, a, n in zip(own["confidence"], own["accuracy"], own["count"], strict=True)
    ]
    svg = _svg(draw, 2.8, f"Calibration of {name}", "; ".join(said) + ".", width=2.8)
    return Figure(svg, f"{name}: ECE {error:.3f}", small=True)


def confidence_by_reliability(table: pd.DataFrame, *, baseline: str = "No PI") -> Figure:
    """Draw the mean confidence of a model in annotators' labels against how reliable they are.

    Parameters
    ----------
    table : DataFrame
        annotator, reliability, low, high (of reliability), confidence; flagged, optional; confidence_baseline,
        optional: of another model.
    baseline : str
        Name of the other model.

    References
    ----------
    Collier et al., "Transfer and marginalize: explaining away label noise with privileged information" (ICML 2022),
    the figure on CIFAR-10H.

    Examples
    --------
    >>> table = pd.DataFrame({"annotator": ["Ann", "Bob"], "reliability": [0.9, 0.5], "low": [0.8, 0.4],
    ...                       "high": [0.95, 0.6], "confidence": [0.9, 0.4], "flagged": [False, True]})
    >>> "1 of 2 annotators is flagged" in confidence_by_reliability(table).svg
    True
    """
    needed = ["annotator", "reliability", "low", "high", "confidence"]
    check_columns("table", table, needed)
    table = table.dropna(subset=needed[1:])
    flagged = _flags(table)

    def draw(axes: Any) -> None:
        if "confidence_baseline" in table:
            axes.scatter(
                table["reliability"],
                table["confidence_baseline"],
                s=16,
                marker="s",
                facecolor="none",
                edgecolor=COLOURS["no-pi"],
                linewidths=0.9,
                alpha=0.8,
            )
        _annotators(axes, table, "confidence", flagged)
        axes.set(xlabel="estimated reliability", ylabel="mean confidence in their labels")
        entries = [("pi", "o", "annotator"), *([("control", "D", "flagged")] if flagged.any() else [])]
        if "confidence_baseline" in table:
            entries.append(("no-pi", "s", f"the same, by {short(baseline, NAME)}"))
        _legend(axes, entries)

    rank = table["reliability"].corr(table["confidence"]) if len(table) > 2 else float("nan")
    together = f" Their correlation is {rank:.2f}." if np.isfinite(rank) else ""
    said = (
        f"{_flag_text(flagged)} Reliability lies between {table['reliability'].min():.2f} and "
        f"{table['reliability'].max():.2f}, confidence between {table['confidence'].min():.2f} and "
        f"{table['confidence'].max():.2f}.{together}"
    )
    return Figure(
        _svg(draw, 3.9, "Confidence in annotators' labels against their reliability", said, tips=_tips(table, flagged)),
        "The model's mean confidence in an annotator's labels against the annotator's estimated reliability, "
        f"with its interval. A point is an annotator.{together}",
    )


def confidence_difference(table: pd.DataFrame, *, baseline: str = "No PI") -> Figure:
    """Draw how much more confident a model is in annotators' labels than another, against how reliable they are.

    Parameters
    ----------
    table : DataFrame
        As for `confidence_by_reliability`, with confidence_baseline.
    baseline : str
        Name of the other model.

    Examples
    --------
    >>> table = pd.DataFrame({"annotator": ["Ann"], "reliability": [0.9], "low": [0.8], "high": [0.95],
    ...                       "confidence": [0.9], "confidence_baseline": [0.8]})
    >>> confidence_difference(table).caption
    "How much more confident the model is in an annotator's labels than No PI."
    """
    needed = ["annotator", "reliability", "low", "high", "confidence", "confidence_baseline"]
    check_columns("table", table, needed)
    table = table.dropna(subset=needed[1:])
    flagged = _flags(table)
    gap = table.assign(gap=table["confidence"] - table["confidence_baseline"])

    def draw(axes: Any) -> None:
        axes.axhline(0, color=COLOURS["truth"], linewidth=1)
        _annotators(axes, gap, "gap", flagged)
        axes.set(xlabel="estimated reliability", ylabel=f"confidence, minus that of {short(baseline, NAME)}")
        if flagged.any():
            _legend(axes, [("pi", "o", "annotator"), ("control", "D", "flagged")])

    more = int((gap["gap"] > 0).sum())
    ends = [written(value, "+z.2f") for value in (gap["gap"].min(), gap["gap"].max())]
    said = f"More confident for {more} of {len(gap)} annotators; from {ends[0]} to {ends[1]}."
    return Figure(
        _svg(
            draw, 3.9, f"Difference of confidence to {baseline} against reliability", said, tips=_tips(table, flagged)
        ),
        f"How much more confident the model is in an annotator's labels than {baseline}.",
    )


def information(table: pd.DataFrame, *, unit: str = "nats") -> Figure:
    """Draw what each privileged column tells of the label beyond the inputs.

    Parameters
    ----------
    table : DataFrame
        column, estimate, low, high; leak, optional: true where a column gives the label away.
    unit : str
        Of the information.

    Examples
    --------
    >>> table = pd.DataFrame({"column": ["annotator"], "estimate": [0.2], "low": [0.1], "high": [0.3]})
    >>> "annotator 0.200, interval 0.100 to 0.300" in information(table).svg
    True
    """
    check_columns("table", table, ["column", "estimate", "low", "high"])
    leak = table.get("leak", pd.Series(False, table.index)).to_numpy(bool)
    middle, low, high = (table[name].to_numpy(float) for name in ("estimate", "low", "high"))
    names, place = _places(table["column"].tolist(), [""] * len(table))

    def draw(axes: Any) -> None:
        _intervals(axes, middle, low, high, place, leak, low > 0, np.zeros(len(table), bool))
        _rows(axes, names)
        axes.set_xlabel(f"information on the label, {short(unit, NAME)}", loc="right")
        if leak.any():
            _legend(axes, [("pi", "o", "column"), ("control", "D", "may leak the label")])

    style = "z.3f"
    said = [
        f"{name}{' (may leak the label)' if c else ''} {written(m, style)}, "
        f"interval {written(lo, style)} to {written(hi, style)}"
        for name, c, m, lo, hi in zip(table["column"], leak, middle, low, high, strict=True)
    ]
    return Figure(
        _svg(draw, _height(names, False), "Information in each privileged column", "; ".join(said) + "."),
        f"What each privileged column tells of the label beyond the inputs, in {unit}, with its interval. "
        "A full mark: the interval lies above zero.",
    )


def suspicion(wrong: Any, *, bins: int = 20) -> Figure:
    """Draw how many labels have which probability of being wrong.

    Parameters
    ----------
    wrong : array
        For each label the probability that it is wrong.
    bins : int
        Number of bars.

    Examples
    --------
    >>> suspicion([0.01, 0.02, 0.9]).caption
    'Labels by the probability that they are wrong. 1 of 3 labels is more likely wrong than right.'
    """
    values = np.asarray(wrong, dtype=float)
    if values.ndim != 1 or not len(values) or not ((values > -1e-6) & (values < 1 + 1e-6)).all():
        raise ValueError(f"Expected `wrong` to be probabilities, but got {wrong!r}.")
    values = values.clip(0, 1)  # sums of probabilities may be a little more than 1
    count, edges = np.histogram(values, bins=bins, range=(0, 1))

    def draw(axes: Any) -> None:
        colours = [COLOURS["control"] if left >= 0.5 - 1e-9 else COLOURS["pi"] for left in edges[:-1]]
        axes.bar(
            edges[:-1],
            count,
            width=np.diff(edges),
            align="edge",
            color=colours,
            edgecolor=COLOURS["paper"],
            linewidth=1,
        )
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.5)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.yaxis.minorticks_off()
        axes.grid(axis="x", visible=False)
        axes.set(xlim=(0, 1), xlabel="probability that the label is wrong", ylabel="labels (log scale)")

    likely = int((values > 0.5).sum())
    verb = "is" if likely == 1 else "are"
    summary = f"{likely:,} of {len(values):,} labels {verb} more likely wrong than right."
    return Figure(
        _svg(draw, 3.2, "Histogram of label suspicion", summary),
        f"Labels by the probability that they are wrong. {summary}",
    )


def _svg(
    draw: Callable[[Any], None],
    height: float,
    title: str,
    description: str,
    *,
    width: float = WIDTH,
    tips: dict[str, list[str]] | None = None,
) -> str:
    """Draw one panel."""
    with mpl.rc_context(INLINE):
        made = plots.Figure(figsize=(width, height))
        draw(made.subplots())
        return inline_svg(made, title, description, tips)


def _places(names: list[Any], owner: list[Any]) -> tuple[list[Any], Any]:
    """Give each name without an owner a row, from the top, and others places below their owner's, in its row."""
    rows = [name for name, of in zip(names, owner, strict=True) if not of]
    top = {name: len(rows) - 1 - row for row, name in enumerate(rows)}
    below = Counter(of for of in owner if of)
    seen: Counter[Any] = Counter()
    place = []
    for name, of in zip(names, owner, strict=True):
        seen[of] += 1
        place.append(top[of] + 0.22 - 0.55 * seen[of] / below[of] if of else top[name] + 0.22 * (name in below))
    return rows, np.array(place, dtype=float)


def _intervals(axes: Any, middle: Any, low: Any, high: Any, place: Any, odd: Any, full: Any, inner: Any) -> None:
    """Draw estimates with lying intervals; odd ones have another colour and mark, inner ones are smaller."""
    for x, left, right, y, is_odd, is_full, is_inner in zip(middle, low, high, place, odd, full, inner, strict=True):
        colour = COLOURS["control" if is_odd else "pi"]
        size = 0.6 if is_inner else 1.0
        axes.plot([left, right], [y, y], color=colour, linewidth=1.8 * size, solid_capstyle="butt")
        axes.plot(
            [x],
            [y],
            marker="D" if is_odd else "o",
            markersize=(5 if is_odd else 6) * size,
            color=colour,
            markerfacecolor=colour if is_full else COLOURS["paper"],
            markeredgewidth=1.5 * size,
        )
    axes.axvline(0, color=COLOURS["truth"], linewidth=1)


def _rows(axes: Any, names: list[Any]) -> None:
    """Write the names of rows."""
    axes.set_yticks(np.arange(len(names))[::-1], [short(name, NAME) for name in names])
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _height(names: list[Any], inner: bool) -> float:
    return 0.9 + (0.4 if inner else 0.27) * max(len(names), 2)


def _annotators(axes: Any, table: pd.DataFrame, height: str, flagged: Any) -> None:
    """Draw annotators as points with lying intervals, the flagged ones on top."""
    for name, role, marker, chosen in (("annotators", "pi", "o", ~flagged), ("flagged", "control", "D", flagged)):
        part = table[chosen]
        if len(part):
            alpha = 0.45 if len(table) <= 60 else 0.2
            axes.hlines(part[height], part["low"], part["high"], color=COLOURS[role], linewidth=1, alpha=alpha)
            points = axes.scatter(
                part["reliability"],
                part[height],
                s=20,
                marker=marker,
                color=COLOURS[role],
                edgecolor=COLOURS["paper"],
                linewidths=0.5,
                zorder=3,
            )
            points.set_gid(name)


def _tips(table: pd.DataFrame, flagged: Any) -> dict[str, list[str]]:
    """For each point who it is."""
    texts = np.array(
        [
            f"{short(name, 60)}: reliability {r:.2f} ({low:.2f} to {high:.2f}), confidence {c:.2f}"
            for name, r, low, high, c in zip(
                table["annotator"], table["reliability"], table["low"], table["high"], table["confidence"], strict=True
            )
        ],
        dtype=object,
    )
    parts = {"annotators": texts[~flagged].tolist(), "flagged": texts[flagged].tolist()}
    return {name: part for name, part in parts.items() if part}


def _flags(table: pd.DataFrame) -> Any:
    return table.get("flagged", pd.Series(False, table.index)).to_numpy(bool)


def _flag_text(flagged: Any) -> str:
    count = int(flagged.sum())
    return f"{count} of {len(flagged)} annotators {'is' if count == 1 else 'are'} flagged."


def _legend(axes: Any, entries: Sequence[tuple[str, str, str]]) -> None:
    """Say above the panel what marks mean."""
    handles = [
        Line2D(
            [],
            [],
            color=COLOURS[role],
            marker=marker,
            linestyle="none",
            markersize=5,
            label=label,
            markerfacecolor="none" if marker == "s" else COLOURS[role],
        )
        for role, marker, label in entries
    ]
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(handles),
        borderaxespad=0.2,
        handletextpad=0.2,
        columnspacing=1.2,
        borderpad=0.2,
    )

"""Draw the figures of reports, each from a plain table.

Each figure has one narrow panel that can be read on a phone; the page puts figures side by side where it is wide.
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

from lupi.metrics import Metric
from lupi.report.page import Figure, format_number
from lupi.report.sanitizing import shorten
from lupi.report.style import COLOURS
from lupi.report.svg import INLINE, inline_svg

WIDTH = 5.0
"""Width of a figure in inches."""
NAME = 25
"""Maximum length of a name in a figure."""


def check_columns(name: str, table: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raise an error if a table lacks a column."""
    missing = [column for column in columns if column not in table.columns]
    if missing:
        raise ValueError(
            f"Expected `{name}` to have the columns {', '.join(columns)}, but got no {', '.join(missing)}."
        )


def draw_differences(table: pd.DataFrame, metric: Metric) -> Figure:
    """Draw the difference between each method and No PI with its confidence interval.

    Parameters
    ----------
    table : DataFrame
        The columns method, difference, low, high, without a row for No PI. Optional columns: control, true where a
        method is a control; of, the method below which a control is drawn, or "" to give it a row of its own.
    metric : Metric
        The metric that differs.

    Examples
    --------
    >>> from lupi.metrics import METRICS
    >>> table = pd.DataFrame({"method": ["tram"], "difference": [-0.1], "low": [-0.2], "high": [-0.05]})
    >>> draw_differences(table, METRICS["nll"]).caption
    'Difference in NLL to No PI; lower is better. A filled mark means that the interval excludes zero.'
    """
    check_columns("table", table, ["method", "difference", "low", "high"])
    control = _flags(table, "control")
    middle, low, high = (metric.scale * table[name].to_numpy(float) for name in ("difference", "low", "high"))
    owner = table["of"].tolist() if "of" in table else [""] * len(table)
    names, place = _places(table["method"].tolist(), owner)
    inner = np.array([bool(of) for of in owner])

    def draw(axes: Any) -> None:
        _draw_intervals(axes, middle, low, high, place, control, (low > 0) | (high < 0), inner)
        _label_rows(axes, names)
        side = "(better →)" if metric.higher_is_better else "(← better)"
        axes.set_xlabel(f"difference in {metric.heading} {side}", loc="right")
        if control.any():
            _add_legend(axes, [("pi", "o", "method"), ("control", "D", "control")])

    description = _describe_intervals(
        table["method"], control, "control", middle, low, high, style=f"+z.{metric.digits}f"
    )
    title = f"Difference in {metric.label} to No PI{f', in {metric.unit}' if metric.unit else ''}"
    better = "higher" if metric.higher_is_better else "lower"
    caption = f"{title}; {better} is better. A filled mark means that the interval excludes zero."
    if inner.any():
        caption += " Small marks below a method are its controls."
    height = _height(names, per_row=0.4 if inner.any() else 0.27)
    return Figure(_draw_svg(draw, height, title, description), caption)


def draw_calibration(bins: pd.DataFrame) -> list[Figure]:
    """Draw a reliability diagram per method: accuracy against confidence, with larger points for more predictions.

    That of No PI is drawn in grey in all diagrams.

    Parameters
    ----------
    bins : DataFrame
        The columns method, confidence, accuracy, count; one row per bin.

    Examples
    --------
    >>> bins = pd.DataFrame({"method": ["no-pi", "tram"], "confidence": [0.9, 0.8], "accuracy": [0.7, 0.8],
    ...                      "count": [10, 10]})
    >>> [figure.caption for figure in draw_calibration(bins)]
    ['no-pi: ECE 0.200', 'tram: ECE 0.000']
    """
    check_columns("bins", bins, ["method", "confidence", "accuracy", "count"])
    bins = bins[bins["count"] > 0]
    no_pi = bins[bins["method"] == "no-pi"]
    return [_draw_reliability(str(name), bins[bins["method"] == name], no_pi) for name in dict.fromkeys(bins["method"])]


def _draw_reliability(name: str, own: pd.DataFrame, other: pd.DataFrame) -> Figure:
    """Draw the reliability diagram of one method over another one in grey."""
    colour = COLOURS["no-pi" if name == "no-pi" else "pi"]
    error = float(np.average((own["confidence"] - own["accuracy"]).abs(), weights=own["count"]))
    share = own["count"] / own["count"].sum()

    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=COLOURS["truth"], linewidth=0.8, linestyle=(0, (4, 3)))
        axes.plot(other["confidence"], other["accuracy"], color=COLOURS["no-pi"], linewidth=1.2, alpha=0.7)
        axes.plot(own["confidence"], own["accuracy"], color=colour, linewidth=1.6)
        axes.scatter(own["confidence"], own["accuracy"], s=12 + 120 * share, color=colour, linewidths=0, zorder=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])

    points = [
        f"confidence {c:.2f}, accuracy {a:.2f}, {n:,.0f} predictions"
        for c, a, n in zip(own["confidence"], own["accuracy"], own["count"], strict=True)
    ]
    svg = _draw_svg(draw, 2.8, f"Calibration of {name}", "; ".join(points) + ".", width=2.8)
    return Figure(svg, f"{name}: ECE {error:.3f}", small=True)


def draw_confidence(table: pd.DataFrame) -> Figure:
    """Draw the model's mean confidence in each annotator's labels against the annotator's reliability.

    Parameters
    ----------
    table : DataFrame
        The columns annotator, reliability, low and high (its interval), confidence. Optional columns: flagged;
        confidence_baseline, the confidence of No PI.

    References
    ----------
    Collier et al., "Transfer and marginalize: explaining away label noise with privileged information" (ICML 2022),
    the figure on CIFAR-10H.

    Examples
    --------
    >>> table = pd.DataFrame({"annotator": ["Ann", "Bob"], "reliability": [0.9, 0.5], "low": [0.8, 0.4],
    ...                       "high": [0.95, 0.6], "confidence": [0.9, 0.4], "flagged": [False, True]})
    >>> "1 of 2 annotators is flagged" in draw_confidence(table).svg
    True
    """
    needed = ["annotator", "reliability", "low", "high", "confidence"]
    check_columns("table", table, needed)
    table = table.dropna(subset=needed[1:])
    flagged = _flags(table, "flagged")

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
        _draw_annotators(axes, table, "confidence", flagged)
        axes.set(xlabel="estimated reliability", ylabel="mean confidence in their labels")
        entries = [("pi", "o", "annotator"), *([("control", "D", "flagged")] if flagged.any() else [])]
        if "confidence_baseline" in table:
            entries.append(("no-pi", "s", "the same, by No PI"))
        _add_legend(axes, entries)

    correlation = table["reliability"].corr(table["confidence"]) if len(table) > 2 else float("nan")
    together = f" Their correlation is {correlation:.2f}." if np.isfinite(correlation) else ""
    count = int(flagged.sum())
    description = (
        f"{count} of {len(table)} annotators {'is' if count == 1 else 'are'} flagged. "
        f"Reliability lies between {table['reliability'].min():.2f} and {table['reliability'].max():.2f}, "
        f"confidence between {table['confidence'].min():.2f} and {table['confidence'].max():.2f}.{together}"
    )
    title = "Confidence in annotators' labels against their reliability"
    return Figure(
        _draw_svg(draw, 3.9, title, description, tips=_tips(table, flagged)),
        "The model's mean confidence in an annotator's labels against the annotator's estimated reliability, "
        f"with its interval. Each point is an annotator.{together}",
    )


def draw_confidence_gain(table: pd.DataFrame) -> Figure:
    """Draw how much more confident than No PI the model is in each annotator's labels, against their reliability.

    Parameters
    ----------
    table : DataFrame
        As for `draw_confidence`, with confidence_baseline.

    Examples
    --------
    >>> table = pd.DataFrame({"annotator": ["Ann"], "reliability": [0.9], "low": [0.8], "high": [0.95],
    ...                       "confidence": [0.9], "confidence_baseline": [0.8]})
    >>> draw_confidence_gain(table).caption
    "How much more confident the model is in an annotator's labels than No PI."
    """
    needed = ["annotator", "reliability", "low", "high", "confidence", "confidence_baseline"]
    check_columns("table", table, needed)
    table = table.dropna(subset=needed[1:])
    table = table.assign(gain=table["confidence"] - table["confidence_baseline"])
    flagged = _flags(table, "flagged")

    def draw(axes: Any) -> None:
        axes.axhline(0, color=COLOURS["truth"], linewidth=1)
        _draw_annotators(axes, table, "gain", flagged)
        axes.set(xlabel="estimated reliability", ylabel="confidence, minus that of No PI")
        if flagged.any():
            _add_legend(axes, [("pi", "o", "annotator"), ("control", "D", "flagged")])

    more = int((table["gain"] > 0).sum())
    low, high = (format_number(value, "+z.2f") for value in (table["gain"].min(), table["gain"].max()))
    title = "Difference in confidence to No PI against reliability"
    description = f"More confident for {more} of {len(table)} annotators; from {low} to {high}."
    return Figure(
        _draw_svg(draw, 3.9, title, description, tips=_tips(table, flagged)),
        "How much more confident the model is in an annotator's labels than No PI.",
    )


def draw_information(table: pd.DataFrame) -> Figure:
    """Draw the information that each privileged column holds about the label beyond the inputs.

    Parameters
    ----------
    table : DataFrame
        The columns column, estimate, low, high, in nats. Optional column: leak, true where a column may leak the
        label.

    Examples
    --------
    >>> table = pd.DataFrame({"column": ["annotator"], "estimate": [0.2], "low": [0.1], "high": [0.3]})
    >>> "annotator 0.200, interval 0.100 to 0.300" in draw_information(table).svg
    True
    """
    check_columns("table", table, ["column", "estimate", "low", "high"])
    leak = _flags(table, "leak")
    middle, low, high = (table[name].to_numpy(float) for name in ("estimate", "low", "high"))
    names, place = _places(table["column"].tolist(), [""] * len(table))

    def draw(axes: Any) -> None:
        _draw_intervals(axes, middle, low, high, place, leak, low > 0, np.zeros(len(table), bool))
        _label_rows(axes, names)
        axes.set_xlabel("information about the label, nats", loc="right")
        if leak.any():
            _add_legend(axes, [("pi", "o", "column"), ("control", "D", "may leak the label")])

    description = _describe_intervals(table["column"], leak, "may leak the label", middle, low, high, style="z.3f")
    return Figure(
        _draw_svg(draw, _height(names), "Information in each privileged column", description),
        "Information that each privileged column holds about the label beyond the inputs, in nats, with its interval. "
        "A filled mark means that the interval lies above zero.",
    )


def draw_label_errors(wrong: Any) -> Figure:
    """Draw a histogram of the probabilities that labels are wrong.

    Parameters
    ----------
    wrong : array
        For each label, the probability that it is wrong.

    Examples
    --------
    >>> draw_label_errors([0.01, 0.02, 0.9]).caption
    'Labels by the probability that they are wrong. 1 of 3 labels is more likely wrong than right.'
    """
    values = np.asarray(wrong, dtype=float)
    if values.ndim != 1 or not len(values) or not ((values > -1e-6) & (values < 1 + 1e-6)).all():
        raise ValueError(f"Expected `wrong` to be probabilities, but got {wrong!r}.")
    values = values.clip(0, 1)  # sums of probabilities may exceed 1 by a rounding error
    count, edges = np.histogram(values, bins=20, range=(0, 1))

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
        _draw_svg(draw, 3.2, "Histogram of the probabilities that labels are wrong", summary),
        f"Labels by the probability that they are wrong. {summary}",
    )


def _draw_svg(
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
        figure = plots.Figure(figsize=(width, height))
        draw(figure.subplots())
        return inline_svg(figure, title, description, tips)


def _places(names: list[Any], owner: list[Any]) -> tuple[list[Any], Any]:
    """Give each name without an owner a row, from the top, and place the others below their owner, in its row."""
    rows = [name for name, of in zip(names, owner, strict=True) if not of]
    top = {name: len(rows) - 1 - row for row, name in enumerate(rows)}
    below = Counter(of for of in owner if of)
    seen: Counter[Any] = Counter()
    place = []
    for name, of in zip(names, owner, strict=True):
        seen[of] += 1
        place.append(top[of] + 0.22 - 0.55 * seen[of] / below[of] if of else top[name] + 0.22 * (name in below))
    return rows, np.array(place, dtype=float)


def _draw_intervals(axes: Any, middle: Any, low: Any, high: Any, place: Any, odd: Any, full: Any, inner: Any) -> None:
    """Draw estimates with horizontal intervals: odd ones in another colour and shape, inner ones smaller."""
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


def _describe_intervals(names: Any, odd: Any, mark: str, middle: Any, low: Any, high: Any, *, style: str) -> str:
    """Describe estimates and their intervals in words."""
    parts = []
    for name, is_odd, *numbers in zip(names, odd, middle, low, high, strict=True):
        x, left, right = (format_number(number, style) for number in numbers)
        parts.append(f"{name}{f' ({mark})' if is_odd else ''} {x}, interval {left} to {right}")
    return "; ".join(parts) + "."


def _label_rows(axes: Any, names: list[Any]) -> None:
    """Label the rows with their names."""
    axes.set_yticks(np.arange(len(names))[::-1], [shorten(name, NAME) for name in names])
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _height(names: list[Any], per_row: float = 0.27) -> float:
    """Return the height of a figure with one row per name."""
    return 0.9 + per_row * max(len(names), 2)


def _draw_annotators(axes: Any, table: pd.DataFrame, height: str, flagged: Any) -> None:
    """Draw annotators as points with horizontal intervals, the flagged ones on top."""
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
    """Return the tooltip of each annotator's point."""
    columns = [table[name] for name in ("annotator", "reliability", "low", "high", "confidence")]
    texts = [
        f"{shorten(name, 60)}: reliability {r:.2f} ({low:.2f} to {high:.2f}), confidence {c:.2f}"
        for name, r, low, high, c in zip(*columns, strict=True)
    ]
    parts: dict[str, list[str]] = {"annotators": [], "flagged": []}
    for text, is_flagged in zip(texts, flagged, strict=True):
        parts["flagged" if is_flagged else "annotators"].append(text)
    return {name: part for name, part in parts.items() if part}


def _flags(table: pd.DataFrame, column: str) -> Any:
    """Return a column of flags, all false where the table does not have it."""
    return table.get(column, pd.Series(False, table.index)).to_numpy(bool)


def _add_legend(axes: Any, entries: Sequence[tuple[str, str, str]]) -> None:
    """Explain the marks above the panel."""
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

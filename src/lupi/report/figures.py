"""Draw the figures of reports, each from a plain table, as inline SVG in the colours and fonts of the page.

Each figure has one narrow panel that can be read on a phone. A wide page shows figures side by side.
"""

import hashlib
import io
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import figure as plots
from matplotlib.ticker import FuncFormatter, MaxNLocator

from lupi._internal.sanitizing import sanitize, shorten
from lupi.metrics import Metric
from lupi.report.page import Figure, format_number

COLOURS = {
    "no-pi": "#6b7280",
    "pi": "#0f766e",
    "truth": "#111827",
    "control": "#d97706",
    "other": "#7c3aed",
    "paper": "#ffffff",
}
"""Colours by role. A report replaces each with the CSS variable of that name, which has another value in dark mode."""
STYLE: Any = {
    "figure.figsize": (6.4, 4.0),
    "figure.constrained_layout.use": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": COLOURS["no-pi"],
    "axes.labelcolor": COLOURS["truth"],
    "axes.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": COLOURS["no-pi"],
    "grid.alpha": 0.25,
    "grid.linewidth": 0.7,
    "text.color": COLOURS["truth"],
    "xtick.color": COLOURS["no-pi"],
    "ytick.color": COLOURS["no-pi"],
    "xtick.labelcolor": COLOURS["truth"],
    "ytick.labelcolor": COLOURS["truth"],
    "legend.frameon": False,
    "svg.hashsalt": "lupi",  # makes the SVG reproducible
}
"""Matplotlib's settings."""
INLINE: Any = {
    **STYLE,
    "font.size": 10.5,
    "legend.fontsize": 9.5,
    "legend.borderaxespad": 0.2,
    "legend.handletextpad": 0.2,
    "legend.columnspacing": 1.2,
    "legend.borderpad": 0.2,
    "svg.fonttype": "none",  # keep text as text
    "text.parse_math": False,  # a $ in a name is not mathematics
}
"""The style of figures inside a page."""
NAMESPACE = "http://www.w3.org/2000/svg"
LINK = "{http://www.w3.org/1999/xlink}href"
WIDTH = 5.0
"""Width of a figure in inches."""
MAX_NAME = 25
"""Maximum length of a name in a figure."""
CALIBRATION = (
    "A calibrated model is right 80% of the time when it is 80% confident: its points lie on the dashed line. Below "
    "the line, the model is overconfident. Larger points stand for more predictions. ECE, the expected calibration "
    "error, is the mean distance to the dashed line."
)
"""How to read a reliability diagram."""
MARKS = {False: ("pi", "o"), True: ("control", "D")}
"""Colour and marker of ordinary points and of highlighted points."""


def draw_differences(table: pd.DataFrame, metric: Metric, baseline: str) -> Figure:
    """Draw the difference between each method and a baseline with its confidence interval."""
    better, side = ("higher", "(better →)") if metric.higher_is_better else ("lower", "(← better)")
    title = f"Difference in {metric.label} from {baseline}{f', in {metric.unit}' if metric.unit else ''}"
    caption = f"{title}; {better} is better. A filled mark means that the interval excludes zero."
    if table["of"].any():
        caption += " Small marks below a method are its controls."
    ends = ["difference", "low", "high"]
    table = table.assign(**metric.scale * table[ends], filled=(table["low"] > 0) | (table["high"] < 0))
    svg = _draw_intervals(
        table.rename(columns={"method": "name", "difference": "estimate", "control": "odd"}),
        title=title,
        xlabel=f"difference in {metric.heading} {side}",
        labels=("method", "control"),
        style=f"+z.{metric.digits}f",
    )
    return Figure(svg, caption)


def draw_information(table: pd.DataFrame) -> Figure:
    """Draw the information in each privileged column about the label beyond the inputs."""
    svg = _draw_intervals(
        table.rename(columns={"column": "name", "leak": "odd"}).assign(filled=table["low"] > 0, of=""),
        title="Information in each privileged column",
        xlabel="information about the label, nats",
        labels=("column", "may leak the label"),
        style="z.3f",
    )
    caption = (
        "Information in each privileged column about the label beyond the inputs, in nats, with its interval. "
        "A filled mark means that the interval lies above zero."
    )
    return Figure(svg, caption)


@mpl.rc_context(INLINE)
def _draw_intervals(table: pd.DataFrame, *, title: str, xlabel: str, labels: tuple[str, str], style: str) -> str:
    """Draw estimates with horizontal intervals, one row per name.

    Rows marked as odd are highlighted and have the second label. Rows that are `of` another name are smaller and drawn
    in its row.
    """
    names, places = _place_rows(table["name"].tolist(), table["of"].tolist())
    per_row = 0.4 if table["of"].any() else 0.27
    axes: Any = plots.Figure(figsize=(WIDTH, 0.9 + per_row * max(len(names), 2))).subplots()
    parts = []
    row: Any
    for row, y in zip(table.itertuples(), places, strict=True):
        role, marker = MARKS[bool(row.odd)]
        size, colour = 0.6 if row.of else 1.0, COLOURS[role]
        axes.plot([row.low, row.high], [y, y], color=colour, linewidth=1.8 * size, solid_capstyle="butt")
        (mark,) = axes.plot(row.estimate, y, marker, color=colour, markeredgewidth=1.5 * size)
        mark.set(markersize=(5 if row.odd else 6) * size, markerfacecolor=colour if row.filled else COLOURS["paper"])
        estimate, low, high = (format_number(value, style) for value in (row.estimate, row.low, row.high))
        parts.append(f"{row.name}{f' ({labels[1]})' if row.odd else ''} {estimate}, interval {low} to {high}")
    axes.axvline(0, color=COLOURS["truth"], linewidth=1)
    axes.set_yticks(np.arange(len(names))[::-1], [shorten(name, MAX_NAME) for name in names])
    axes.set_ylim(-0.7, len(names) - 0.3)
    axes.grid(axis="y", visible=False)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel(xlabel, loc="right")
    if table["odd"].any():
        _add_legend(axes, *zip(MARKS.values(), labels, strict=True))
    return inline_svg(axes.figure, title, "; ".join(parts) + ".")


def _place_rows(names: list[str], owners: list[str]) -> tuple[list[str], list[float]]:
    """Assign rows, from the top, to names without an owner, and place the other names below their owner in its row."""
    rows = [name for name, owner in zip(names, owners, strict=True) if not owner]
    top = {name: len(rows) - 1 - row for row, name in enumerate(rows)}
    below, seen = Counter(filter(None, owners)), Counter[str]()
    places = []
    for name, owner in zip(names, owners, strict=True):
        seen[owner] += 1
        if owner:
            places.append(top[owner] + 0.22 - 0.55 * seen[owner] / below[owner])
        else:
            places.append(top[name] + (0.22 if below[name] else 0))
    return rows, places


def _add_legend(axes: Any, *entries: tuple[tuple[str, str], str]) -> None:
    """Add a legend above the panel, with a colour, marker and label for each entry."""
    for (role, marker), label in entries:
        axes.plot([], [], marker, color=COLOURS[role], markersize=5, label=label)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=len(entries))


def draw_calibration(bins: pd.DataFrame) -> list[Figure]:
    """Draw a reliability diagram per method: accuracy against confidence, with larger points for more predictions.

    All diagrams also show No PI, in grey.
    """
    no_pi = bins[bins["method"] == "no-pi"]
    return [_draw_reliability(str(name), own, no_pi) for name, own in bins.groupby("method", sort=False)]


@mpl.rc_context(INLINE)
def _draw_reliability(name: str, own: pd.DataFrame, no_pi: pd.DataFrame) -> Figure:
    """Draw the reliability diagram of one method over that of No PI in grey."""
    confidence, accuracy, count = own["confidence"], own["accuracy"], own["count"]
    colour = COLOURS["no-pi" if name == "no-pi" else "pi"]
    axes: Any = plots.Figure(figsize=(2.8, 2.8)).subplots()
    axes.plot([0, 1], [0, 1], color=COLOURS["truth"], linewidth=0.8, linestyle=(0, (4, 3)))
    axes.plot(no_pi["confidence"], no_pi["accuracy"], color=COLOURS["no-pi"], linewidth=1.2, alpha=0.7)
    axes.plot(confidence, accuracy, color=colour, linewidth=1.6)
    axes.scatter(confidence, accuracy, s=12 + 120 * count / count.sum(), color=colour, linewidths=0, zorder=3)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy", aspect="equal")
    axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    points = [
        f"confidence {c:.2f}, accuracy {a:.2f}, {n:,.0f} predictions"
        for c, a, n in zip(confidence, accuracy, count, strict=True)
    ]
    svg = inline_svg(axes.figure, f"Calibration of {name}", "; ".join(points) + ".")
    error = np.average((confidence - accuracy).abs(), weights=count)
    return Figure(svg, f"{name}: ECE {error:.3f}", small=True)


@mpl.rc_context(INLINE)
def draw_means(table: pd.DataFrame) -> Figure:
    """Draw the mean true value of groups of rows, with its interval, against their mean prediction."""
    x, y = table["prediction"], table["truth"]
    ends = [min(x.min(), table["low"].min()), max(x.max(), table["high"].max())]
    axes: Any = plots.Figure(figsize=(WIDTH, 3.9)).subplots()
    axes.plot(ends, ends, color=COLOURS["truth"], linewidth=0.8, linestyle=(0, (4, 3)))
    axes.vlines(x, table["low"], table["high"], color=COLOURS["pi"], linewidth=1.6)
    axes.plot(x, y, "o", color=COLOURS["pi"], markersize=5)
    axes.set(xlabel="mean prediction", ylabel="mean true value")
    points = [f"prediction {a:.4g}, truth {b:.4g}, {n:,} rows" for a, b, n in zip(x, y, table["count"], strict=True)]
    svg = inline_svg(axes.figure, "True values against predictions", "; ".join(points) + ".")
    return Figure(svg, "Means of groups with their intervals. Correct predictions lie on the dashed line.")


@mpl.rc_context(INLINE)
def draw_confidence(table: pd.DataFrame) -> Figure:
    """Draw the mean confidence of the model in each annotator's labels against the annotator's reliability.

    References
    ----------
    Collier et al., "Transfer and marginalize: explaining away label noise with privileged information" (ICML 2022),
    the figure on CIFAR-10H.
    """
    table = table.dropna(subset=["reliability", "low", "high", "confidence"])
    reliability, confidence, flagged = table["reliability"], table["confidence"], table["flagged"].sum()
    axes: Any = plots.Figure(figsize=(WIDTH, 3.9)).subplots()
    entries = [(MARKS[False], "annotator"), (MARKS[True], "flagged")][: 2 if flagged else 1]
    tips, alpha = {}, 0.45 if len(table) <= 60 else 0.2
    for marked, own in table.groupby("flagged"):
        role, marker = MARKS[bool(marked)]
        axes.hlines(own["confidence"], own["low"], own["high"], color=COLOURS[role], linewidth=1, alpha=alpha)
        points = axes.scatter(own["reliability"], own["confidence"], s=20, marker=marker, color=COLOURS[role], zorder=3)
        points.set(edgecolor=COLOURS["paper"], linewidths=0.5, gid=f"annotators-{role}")
        tips[f"annotators-{role}"] = [
            f"{shorten(row.annotator, 60)}: reliability {row.reliability:.2f} ({row.low:.2f} to {row.high:.2f}), "
            f"confidence {row.confidence:.2f}"
            for row in own.itertuples()
        ]
    axes.set(xlabel="estimated reliability", ylabel="mean confidence in their labels")
    _add_legend(axes, *entries)
    correlation = reliability.corr(confidence) if len(table) > 2 else float("nan")
    together = f" Their correlation is {correlation:.2f}." if np.isfinite(correlation) else ""
    description = (
        f"{flagged} of {len(table)} annotators {'is' if flagged == 1 else 'are'} flagged. "
        f"Reliability lies between {reliability.min():.2f} and {reliability.max():.2f}, "
        f"confidence between {confidence.min():.2f} and {confidence.max():.2f}.{together}"
    )
    return Figure(
        inline_svg(axes.figure, "Confidence in annotators' labels against their reliability", description, tips),
        "The model's mean confidence in an annotator's labels against the annotator's estimated reliability, "
        f"with its interval. Each point is an annotator.{together}",
    )


@mpl.rc_context(INLINE)
def draw_label_errors(wrong: Any) -> Figure:
    """Draw a histogram of the probabilities that labels are wrong."""
    wrong = np.clip(wrong, 0, 1)  # sums of probabilities may exceed 1 by rounding
    count, edges = np.histogram(wrong, bins=20, range=(0, 1))
    axes: Any = plots.Figure(figsize=(WIDTH, 3.2)).subplots()
    colours = [COLOURS["control"] if left >= 0.5 - 1e-9 else COLOURS["pi"] for left in edges[:-1]]
    axes.bar(edges[:-1], count, 0.05, align="edge", color=colours, edgecolor=COLOURS["paper"], linewidth=1)
    axes.set(xlim=(0, 1), xlabel="probability that the label is wrong", ylabel="labels (log scale)", yscale="log")
    axes.set_ylim(bottom=0.5)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.minorticks_off()
    axes.grid(axis="x", visible=False)
    likely = (wrong > 0.5).sum()
    summary = f"{likely:,} of {len(wrong):,} labels {'is' if likely == 1 else 'are'} more likely wrong than right."
    return Figure(
        inline_svg(axes.figure, "Histogram of the probabilities that labels are wrong", summary),
        f"Labels by the probability that they are wrong. {summary}",
    )


# -------------------------------------------------------------------------------- SVG


def inline_svg(
    figure: plots.Figure, title: str, description: str, tips: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Return a figure as an SVG element."""
    buffer = io.StringIO()
    with mpl.rc_context(INLINE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # browsers have more fonts
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    for name, texts in (tips or {}).items():
        points = root.findall(f".//*[@id='{name}']//{{{NAMESPACE}}}use")
        for point, text in zip(points, texts, strict=True):
            ElementTree.SubElement(point, f"{{{NAMESPACE}}}title").text = sanitize(text)
    salt = hashlib.sha256(f"{title}{buffer.getvalue()}".encode()).hexdigest()[:8]
    _clean(root, salt)
    _describe(root, salt, sanitize(title), sanitize(description))
    ElementTree.register_namespace("", NAMESPACE)
    return ElementTree.tostring(root, encoding="unicode")


def _clean(root: ElementTree.Element, salt: str) -> None:
    """Remove elements that would affect the whole page, and make the ids unique to the figure."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{NAMESPACE}}}metadata", f"{{{NAMESPACE}}}style"):
                parent.remove(child)
    for element in root.iter():
        attributes = element.attrib
        if "id" in attributes:
            attributes["id"] = f"f{salt}-{attributes['id']}"
        if LINK in attributes:
            attributes["href"] = attributes.pop(LINK).replace("#", f"#f{salt}-")
        if "clip-path" in attributes:
            attributes["clip-path"] = attributes["clip-path"].replace("#", f"#f{salt}-")
        if "style" in attributes:
            attributes["style"] = _use_page_theme(attributes["style"])


def _use_page_theme(style: str) -> str:
    """Replace colours with CSS variables of the page, and remove the font."""
    style = re.sub(r"font-family: [^;]*;? ?", "", style)
    for role, colour in COLOURS.items():
        style = style.replace(colour, "currentColor" if role == "truth" else f"var(--{role}, {colour})")
    return style


def _describe(root: ElementTree.Element, salt: str, title: str, description: str) -> None:
    """Add a title and a description, and remove the fixed size."""
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.attrib |= {"role": "img", "aria-labelledby": f"f{salt}-title f{salt}-desc"}
    for place, (name, text) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(f"{{{NAMESPACE}}}{name}", {"id": f"f{salt}-{name}"})
        element.text = text
        root.insert(place, element)

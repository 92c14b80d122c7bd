"""The look of every figure, in reports and in experiments."""

from typing import Any

COLOURS = {
    "no-pi": "#6b7280",
    "pi": "#0f766e",
    "truth": "#111827",
    "control": "#d97706",
    "other": "#7c3aed",
    "paper": "#ffffff",
}
"""One colour per role. A report turns each into the CSS variable of that name, which has another value in dark mode."""
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
    "svg.hashsalt": "lupi",  # the same figure is the same text
}
"""Matplotlib's settings."""

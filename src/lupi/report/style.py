"""The style of all figures, in reports and experiments."""

from typing import Any

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

"""The paper's theory and experiments, one file each, its published numbers beside the code."""

from __future__ import annotations

EXPERIMENTS = {
    "linear-risk": "the risks of four estimators of a linear model, and when privileged information helps",
    "information": "how much a tells of y given x: exact, by the paper's bins, and from data",
    "heteroscedastic": "why marginalizing makes the noise depend on x, and a head that learns it",
    "synthetic-regression": "a representation learned with privileged information, and the controls",
    "noise-sweep": "the same from little noise to much",
    "synthetic-classification": "the same with classes",
}
"""Names for `lupi reproduce`, and what each is; `lupi.paper.<name with _>` has `Settings` and `run`."""

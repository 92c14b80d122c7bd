"""The paper's theory and experiments, one file each, its published numbers beside the code."""

from __future__ import annotations

EXPERIMENTS = {
    "linear-risk": "the risks of four estimators of a linear model, and when privileged information helps",
    "information": "how much a tells of y given x: exact, by the paper's bins, and from data",
    "heteroscedastic": "why marginalizing makes the noise depend on x, and a head that learns it",
    "synthetic-regression": "a representation learned with privileged information, and the controls",
    "noise-sweep": "the same from little noise to much",
    "synthetic-classification": "the same with classes",
    "cifar10h": "people's labels of CIFAR-10 images: the paper's table and the methods that came after",
    "relabelled-images": "images relabelled by sixteen networks and a malicious annotator, and the ablations",
    "civil-comments": "several labels of a text at once, with attributes of the text as privileged information",
}
"""Names for `lupi reproduce`, and what each is; `lupi.reproduce.<name with _>` has `Settings` and `run`."""
ON_DATA = ("cifar10h", "relabelled-images", "civil-comments")
"""Experiments that read files, and keep every method and seed that has finished in their folder."""

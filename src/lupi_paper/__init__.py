"""The paper, reproduced: one file per experiment with the published numbers.

Each experiment is a module of `lupi_paper.experiments`, named as in `EXPERIMENTS` with underscores. Its
`Settings` hold everything that can be changed, and its `run` returns `lupi_paper.findings.Findings`.
"""

from types import ModuleType

__all__ = ["EXPERIMENTS", "ON_DATA", "load_experiment"]

EXPERIMENTS = {
    "linear-risk": "the risks of four estimators of a linear model, and when privileged information helps",
    "information": "the information of a about y given x: exact, by the paper's bins, and from data",
    "heteroscedastic": "why marginalizing makes the noise depend on x, and a head that learns it",
    "synthetic-regression": "a representation learned with privileged information, and controls",
    "noise-sweep": "the same with more and more noise",
    "synthetic-classification": "the same with classes",
    "cifar10h": "human labels of CIFAR-10 images: the paper's table, and later methods",
    "relabelled-images": "images relabelled by sixteen networks and a malicious annotator, and ablations",
    "civil-comments": "several labels of a text at once, with attributes of the text as privileged information",
}
"""The experiments by name, with a description."""
ON_DATA = ("cifar10h", "relabelled-images", "civil-comments")
"""Experiments that read data files, and save every finished run in their folder."""


def load_experiment(name: str) -> ModuleType:
    """Import the module of an experiment, which has `Settings` and `run`.

    Examples
    --------
    >>> load_experiment("noise-sweep").Settings().seeds
    20
    """
    from importlib import import_module

    if name not in EXPERIMENTS:
        raise ValueError(f"Expected `experiment` to be one of {', '.join(EXPERIMENTS)}, but got {name!r}.")
    return import_module(f"lupi_paper.experiments.{name.replace('-', '_')}")

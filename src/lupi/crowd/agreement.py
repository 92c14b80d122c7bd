"""Majority votes, and how often annotators agree."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lupi._internal.arrays import Floats
from lupi.crowd.votes import Integers, Votes, number_ids


def count_labels(votes: Votes) -> Floats:
    """Count the labels of each class that each example has, [examples, classes]."""
    counts = np.zeros((votes.examples, votes.classes))
    np.add.at(counts, (votes.example, votes.label), 1)
    return counts


def majority_vote(votes: Votes) -> Integers:
    """Return the most frequent label of each example; ties go to the first class.

    Examples
    --------
    >>> example, label = np.array([0, 0, 0, 1, 1]), np.array([1, 0, 1, 1, 0])
    >>> votes = Votes(example=example, annotator=0 * example, label=label, examples=2, annotators=1, classes=2)
    >>> majority_vote(votes)
    array([1, 0])
    """
    return np.asarray(count_labels(votes).argmax(1))


def pairwise_agreement(label: ArrayLike, example: ArrayLike) -> float:
    """Return the fraction of equal labels among all pairs of labels of one example.

    The result is NaN if no example has two labels.
    """
    label = np.asarray(label)
    of_label, labels = number_ids("label", label, len(label))
    of_example, _ = number_ids("example", example, len(label))
    total = _count_pairs(of_example)
    return _count_pairs(of_example * len(labels) + of_label) / total if total else math.nan


def describe_agreement(label: ArrayLike, example: ArrayLike) -> list[str]:
    """Describe in a sentence how often two labels of an example agree, if any example has two."""
    share = pairwise_agreement(label, example)
    return [] if np.isnan(share) else [f"Two labels of one example agree {100 * share:.0f} % of the time."]


def krippendorff_alpha(label: ArrayLike, example: ArrayLike) -> float:
    """Return Krippendorff's α for nominal labels.

    α = 1 − D_o / D_e. The observed disagreement D_o is the fraction of unequal pairs of labels within examples, where
    each example has a weight proportional to its number of labels. The expected disagreement D_e is the fraction of
    unequal pairs among all these labels. α is 1 for perfect agreement and 0 for agreement by chance. Examples with a
    single label are ignored, and the result is NaN if there are no others.

    References
    ----------
    Krippendorff, "Content analysis: an introduction to its methodology" (Sage, 4th edition 2018), chapter 12.
    """
    label = np.asarray(label)
    of_label, labels = number_ids("label", label, len(label))
    of_example, examples = number_ids("example", example, len(label))
    size = np.bincount(of_example, minlength=len(examples))
    several = size[of_example] > 1
    of_label, of_example = of_label[several], of_example[several]
    total = len(of_label)
    if not total:
        return math.nan
    cell, count = np.unique(of_example * len(labels) + of_label, return_counts=True)
    unequal = (count * (size[cell // len(labels)] - count) / (size[cell // len(labels)] - 1)).sum() / total
    share = np.bincount(of_label) / total
    by_chance = (1 - (share**2).sum()) * total / (total - 1)
    return float(1 - unequal / by_chance) if by_chance > 0 else 1.0


def wilson_interval(share: Any, size: Any, z: float = 1.96) -> tuple[Any, Any]:
    """Return Wilson's interval of a share of `size` independent cases."""
    middle = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    reach = z * np.sqrt(share * (1 - share) / size + (z / size) ** 2 / 4) / (1 + z**2 / size)
    return middle - reach, middle + reach


def _count_pairs(group: NDArray[np.int64]) -> int:
    """Return the number of ordered pairs within all groups."""
    size = np.unique(group, return_counts=True)[1]
    return int((size * (size - 1)).sum())

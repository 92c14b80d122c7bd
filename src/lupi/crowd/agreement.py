"""Majority votes, and how often annotators agree."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lupi._internal.arrays import Floats
from lupi.crowd.votes import Integers, Votes, number_ids

DRAWS = 200
"""Number of bootstrap samples of examples for the interval of α."""


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
    cells = count_cells(label, example, "nominal")
    equal, total = (int((count * (count - 1)).sum()) for count in (cells.count, cells.size))
    return equal / total if total else math.nan


def describe_agreement(label: ArrayLike, example: ArrayLike) -> list[str]:
    """Describe in a sentence how often two labels of an example agree, if any example has two."""
    share = pairwise_agreement(label, example)
    return [] if np.isnan(share) else [f"Two labels of one example agree {100 * share:.0f} % of the time."]


def krippendorff_alpha(label: ArrayLike, example: ArrayLike, level: str = "nominal") -> float:
    """Return Krippendorff's α of nominal labels, of grades in order ("ordinal") or of numbers ("interval").

    α = 1 − D_o / D_e. The observed disagreement D_o is the mean of δ² over pairs of labels of an example, where each
    example has a weight proportional to its number of labels. The expected disagreement D_e is the mean over all pairs
    of these labels. The difference δ of two nominal labels is 1 unless they are equal; that of two grades is the
    difference of their mean ranks. α is 1 for perfect agreement and 0 for agreement by chance. Examples with a single
    label are ignored, and the result is NaN if there are no others.

    References
    ----------
    Krippendorff, "Content analysis: an introduction to its methodology" (Sage, 4th edition 2018), chapter 12.
    """
    cells = count_cells(label, example, level)
    return cells.alpha(np.ones(len(cells.size))) if len(cells.size) else math.nan


def bootstrap_alpha(label: ArrayLike, example: ArrayLike, level: str = "nominal", seed: int = 0) -> tuple[float, float]:
    """Return a 95 % interval of Krippendorff's α, from bootstrap samples of the examples with several labels."""
    cells, rng = count_cells(label, example, level), np.random.default_rng(seed)
    n = len(cells.size)
    alphas = [cells.alpha(np.bincount(rng.integers(n, size=n), minlength=n)) for _ in range(DRAWS)]
    low, high = np.quantile(alphas, [0.025, 0.975])
    return float(low), float(high)


@dataclass(frozen=True, eq=False)
class Cells:
    """How often each example with several labels has each of them."""

    example: Integers
    label: Integers
    count: Integers
    size: Integers
    """[examples] the number of labels."""
    values: NDArray[Any]
    """The different labels; grades and numbers are sorted."""
    level: str

    def alpha(self, times: Floats | Integers) -> float:
        """Return α of a sample that has each example a number of times."""
        count: Floats = np.bincount(self.label, self.count * times[self.example], len(self.values)).astype(np.float64)
        total = count.sum()
        place = self.values - np.average(self.values, weights=count) if self.level == "interval" else count
        if self.level == "ordinal":
            place = (count.cumsum() - count / 2) / total
        within = self.disagree(self.example, self.count, place[self.label])
        by_chance = self.disagree(0 * np.arange(len(count)), count, place)[0] / (total - 1)
        return float(1 - (times * within / (self.size - 1)).sum() / by_chance) if by_chance > 0 else 1.0

    def disagree(self, group: Integers, count: Floats | Integers, place: NDArray[Any]) -> Floats:
        """Return the sum of δ² over the pairs of labels of each group, up to a constant."""
        size = np.bincount(group, count)
        if self.level == "nominal":
            return np.asarray(size**2 - np.bincount(group, np.square(count)))
        return np.asarray(size * np.bincount(group, count * place**2) - np.bincount(group, count * place) ** 2)


def count_cells(label: ArrayLike, example: ArrayLike, level: str) -> Cells:
    """Count how often each example with several labels has each of them."""
    label = np.asarray(label)
    of_example, examples = number_ids("example", example, len(label))
    several = np.bincount(of_example, minlength=len(examples))[of_example] > 1
    label, of_example = label[several], np.unique(of_example[several], return_inverse=True)[1]
    of_label, values = number_ids("label", label, len(label))
    if level != "nominal":
        values, of_label = np.unique(label, return_inverse=True)
    cell, count = np.unique(of_example * max(1, len(values)) + of_label, return_counts=True)
    row, column = np.divmod(cell, max(1, len(values)))
    return Cells(row, column, count, np.bincount(of_example), values, level)


def wilson_interval(share: Any, size: Any, z: float = 1.96) -> tuple[Any, Any]:
    """Return Wilson's interval of a share of `size` independent cases."""
    middle = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    reach = z * np.sqrt(share * (1 - share) / size + (z / size) ** 2 / 4) / (1 + z**2 / size)
    return middle - reach, middle + reach

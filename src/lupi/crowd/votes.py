"""Labels as arrays of integers: which annotator gave which label to which example."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHUNK = 2**18
"""Number of cells of a table to process at once."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Votes:
    """Labels with their examples and annotators, one entry per label, numbered from 0."""

    example: Integers
    """[labels] the example that was labelled."""
    annotator: Integers
    """[labels] the annotator who labelled it."""
    label: Integers
    """[labels] the class that the annotator chose."""
    examples: int
    """Number of examples."""
    annotators: int
    """Number of annotators."""
    classes: int
    """Number of classes."""
    gold: Integers | None = None
    """[examples] the true label, −1 where it is unknown."""
    trust: Floats | None = None
    """[annotators] the probability that a label of a trusted annotator is correct; NaN for other annotators."""

    @property
    def has_anchors(self) -> bool:
        """Whether some true labels are known or some annotators are trusted."""
        known = self.gold is not None and bool((self.gold >= 0).any())
        return known or (self.trust is not None and not np.isnan(self.trust).all())

    def mean_by_annotator(self, values: NDArray[Any]) -> Floats:
        """Average values, [labels], over the labels of each annotator."""
        total = np.bincount(self.annotator, minlength=self.annotators)
        return np.asarray(np.bincount(self.annotator, values, self.annotators) / total)


def number_ids(name: str, ids: Any, length: int) -> tuple[Integers, NDArray[Any]]:
    """Number ids by first appearance, and return the numbers and the distinct ids. Missing ids count as one id."""
    values = np.asarray(ids)
    if values.shape != (length,):
        raise ValueError(f"Expected `{name}` to be {length} ids, one per label, but got shape {list(values.shape)}.")
    numbers: dict[Any, int] = {}
    keys = (None if isinstance(value, float) and math.isnan(value) else value for value in values.tolist())
    codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    return codes, values[np.unique(codes, return_index=True)[1]]


def split_rows(rows: int, columns: int) -> Iterator[slice]:
    """Split the rows of a table into chunks of about `CHUNK` cells."""
    step = max(1, CHUNK // columns)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def add_groups(total: Floats, group: Integers, values: Floats) -> None:
    """Add the rows of values to the rows `group` of a total, in place; equal groups follow each other."""
    first = np.flatnonzero(np.diff(group, prepend=-1))
    total[group[first]] += np.add.reduceat(values, first)


def softmax(logits: Floats) -> Floats:
    """Return the softmax over the last axis."""
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return np.asarray(p / p.sum(-1, keepdims=True))

"""Examples, their annotations, and the batches that training draws from them.

An example x is stored once, however many annotations it has. An annotation is a label y with its privileged
information a and the `row` of x that it belongs to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import Tensor

SMALL = 2**26
"""Numbers of privileged information that a GPU has memory for, 256 MiB."""


class Batch(NamedTuple):
    """A few examples and annotations of them; an example stands once, so the trunk runs once for it."""

    x: Tensor
    """[examples, ...]"""
    row: Tensor
    """[annotations] the example that each annotation belongs to"""
    a: Tensor
    """[annotations, privileged features]; on a GPU its rows may lie apart in memory"""
    y: Tensor
    """[annotations, ...]"""
    one_to_one: bool = False
    """Whether it is known that annotation i is the only one of example i, so that `row` counts up"""

    def spread(self, values: Tensor) -> Tensor:
        """Repeat values of examples for their annotations: `values[row]`.

        It is `values` itself, not a copy, where each example has one: do not write to it.
        """
        return values if self.one_to_one else values[self.row]

    def to(self, device: torch.device | str) -> Batch:
        """Move every tensor to a device."""
        x, row, a, y = (part.to(device) for part in self[:4])
        return Batch(x, row, a, y, self.one_to_one)


class Rows(Protocol):
    """Rows that can be drawn by index: a tensor, `SparseRows`, or a source larger than memory.

    A source needs a `shape` and an indexing that takes a tensor of row numbers and returns a tensor; a
    `numpy.memmap` behind three lines is one. What is drawn is moved to the device batch by batch.
    """

    @property
    def shape(self) -> Any:
        """Number of rows first."""

    def __getitem__(self, index: Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class SparseRows:
    """Rows with few entries that are not zero, such as one-hot columns; drawn rows are dense.

    Every row has the same number of stored entries, padded with entries of value 0.

    Examples
    --------
    >>> rows = SparseRows.from_matrix(scipy.sparse.csr_array([[0, 1.0, 0], [2.0, 0, 3.0]]))
    >>> rows[torch.tensor([1])]
    tensor([[2., 0., 3.]])
    """

    index: Tensor
    """[rows, entries] int32: the columns of the stored entries"""
    value: Tensor
    """[rows, entries] float32"""
    width: int

    @classmethod
    def from_matrix(cls, matrix: scipy.sparse.csr_array | Tensor) -> SparseRows:
        """Store a scipy sparse matrix or a dense tensor."""
        if isinstance(matrix, Tensor):
            column = torch.arange(matrix.shape[1], dtype=torch.int32, device=matrix.device)
            return cls(column.expand(matrix.shape), matrix.float(), matrix.shape[1])
        matrix = matrix.astype(np.float32)  # a copy
        matrix.sum_duplicates()  # equal rows are stored alike, which `distinct` relies on
        matrix.eliminate_zeros()
        rows, width = matrix.shape
        stored = np.diff(matrix.indptr)
        place = (
            np.repeat(np.arange(rows), stored),
            np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], stored),
        )
        entries = int(stored.max(initial=0))
        index = np.zeros((rows, entries), dtype=np.int32)
        value = np.zeros((rows, entries), dtype=np.float32)
        index[place], value[place] = matrix.indices, matrix.data
        return cls(torch.from_numpy(index), torch.from_numpy(value), width)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.index.shape[0], self.width

    def __getitem__(self, index: Tensor) -> Tensor:
        columns, values = self.index.index_select(0, index), self.value.index_select(0, index)  # faster than [index]
        return SparseRows(columns, values, self.width).dense()

    def take(self, index: Tensor) -> SparseRows:
        """Select rows without making them dense."""
        return SparseRows(self.index[index], self.value[index], self.width)

    def dense(self) -> Tensor:
        """Make all rows dense."""
        zeros = self.value.new_zeros(self.value.shape[0], self.width)
        return zeros.scatter_add_(1, self.index.long(), self.value)

    def to(self, device: torch.device | str) -> SparseRows:
        """Move to a device."""
        return SparseRows(self.index.to(device), self.value.to(device), self.width)


@dataclass(frozen=True)
class Annotations:
    """A training set: examples x, and annotations (row, a, y) of them.

    Parameters
    ----------
    x : Tensor or Rows
        [examples, ...] the ordinary inputs, one row per example.
    row : Tensor
        [annotations] the example that each annotation belongs to.
    a : Tensor or SparseRows
        [annotations, privileged features] what is known of each label and will not be known at prediction.
    y : Tensor
        [annotations, ...] the labels.

    Examples
    --------
    Two examples, three annotations:

    >>> data = Annotations(torch.eye(2), torch.tensor([1, 0, 1]), torch.ones(3, 1), torch.tensor([0, 1, 1]))
    >>> data.by_annotation(torch.tensor([0, 2])).x  # both are of example 1, which stands once
    tensor([[0., 1.]])
    >>> data.by_example(torch.tensor([1, 0])).y  # all annotations of example 1, then of example 0
    tensor([0, 1, 1])
    """

    x: Rows
    row: Tensor
    a: Tensor | SparseRows
    y: Tensor

    def __post_init__(self) -> None:
        n = self.row.shape[0]
        for name, rows in (("a", self.a), ("y", self.y)):
            if rows.shape[0] != n:
                raise ValueError(f"Expected `{name}` to have {n} rows as `row` has, but got {rows.shape[0]}.")
        if n and not (int(self.row.min()) >= 0 and int(self.row.max()) < self.x.shape[0]):
            raise ValueError(f"Expected `row` to lie between 0 and {self.x.shape[0] - 1}, the rows of `x`.")

    def __len__(self) -> int:
        return self.row.shape[0]

    @cached_property
    def one_to_one(self) -> bool:
        """Whether annotation i is the only one of example i."""
        n = len(self)
        return self.x.shape[0] == n and bool((self.row == torch.arange(n, device=self.row.device)).all())

    @cached_property
    def order(self) -> Tensor:
        """Positions of the annotations, sorted by example."""
        return torch.argsort(self.row, stable=True)

    @cached_property
    def count(self) -> Tensor:
        """[examples] how many annotations each example has."""
        return torch.bincount(self.row, minlength=self.x.shape[0])

    @cached_property
    def first(self) -> Tensor:
        """[examples] where the annotations of each example begin in `order`."""
        return torch.cumsum(self.count, 0) - self.count

    @cached_property
    def annotated(self) -> Tensor:
        """The examples that have an annotation."""
        return self.count.nonzero().squeeze(1)

    @cached_property
    def rows_of_a(self) -> Tensor | SparseRows:
        """What batches draw a from: dense on a GPU where it is small, since that is one kernel a batch, not five.

        There are zeros behind its rows where they are drawn faster so (`in_fours`).
        """
        if not self.row.is_cuda or len(self.a.shape) != 2 or len(self) * (self.a.shape[1] + 3) > SMALL:
            return self.a
        return in_fours(self.a if isinstance(self.a, Tensor) else self.a.dense())

    def by_annotation(self, index: Tensor) -> Batch:
        """Draw annotations by their positions."""
        if self.one_to_one:
            example, row = index, torch.arange(index.shape[0], device=index.device)
        else:
            example, row = torch.unique(self.row[index], return_inverse=True)
        return Batch(self.inputs(example), row, *self.pairs(index), self.one_to_one)

    def by_example(self, example: Tensor) -> Batch:
        """Draw examples, each with all of its annotations."""
        count = self.count[example]
        row = torch.repeat_interleave(torch.arange(example.shape[0], device=example.device), count)
        index = self.positions(example)
        return Batch(self.inputs(example), row, *self.pairs(index), self.one_to_one)

    def inputs(self, example: Tensor) -> Tensor:
        """Draw inputs; a source other than a tensor is asked by row numbers on the CPU, and its answer moved."""
        if isinstance(self.x, Tensor):
            return self.x.index_select(0, example)
        return self.x[example.cpu()].to(example.device)

    def pairs(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Draw a and y by their positions."""
        a = self.rows_of_a
        drawn = a.index_select(0, index) if isinstance(a, Tensor) else a[index]
        drawn = drawn if drawn.shape[1:] == self.a.shape[1:] else drawn[:, : self.a.shape[1]]
        return drawn, self.y.index_select(0, index)

    def positions(self, example: Tensor) -> Tensor:
        """Positions of all annotations of these examples, example after example."""
        count = self.count[example]
        shift = self.first[example] - (torch.cumsum(count, 0) - count)
        shift = torch.repeat_interleave(shift, count)
        return self.order[shift + torch.arange(shift.shape[0], device=shift.device)]

    def take(self, index: Tensor) -> Annotations:
        """Select annotations by their positions; x is shared, not copied."""
        a = self.a[index] if isinstance(self.a, Tensor) else self.a.take(index)
        return Annotations(self.x, self.row[index], a, self.y[index])

    def to(self, device: torch.device | str) -> Annotations:
        """Move to a device what lies in memory; another source of x stays where it is."""
        x = self.x.to(device) if isinstance(self.x, Tensor) else self.x
        return Annotations(x, self.row.to(device), self.a.to(device), self.y.to(device))

    def with_inputs(self, x: Tensor) -> Annotations:
        """Put other inputs in the place of x."""
        return replace(self, x=x)

    def with_targets(self, y: Tensor) -> Annotations:
        """Put other targets in the place of y."""
        return replace(self, y=y)

    def without_privileged(self) -> Annotations:
        """Leave out the privileged information."""
        return replace(self, a=self.row.new_zeros(len(self), 0, dtype=torch.float32))

    def with_privileged(self, more: Tensor) -> Annotations:
        """Append columns to the privileged information."""
        if isinstance(self.a, Tensor):
            return replace(self, a=torch.cat([self.a, more], 1))
        extra = SparseRows.from_matrix(more)
        index = torch.cat([self.a.index, extra.index + self.a.width], 1)
        value = torch.cat([self.a.value, extra.value], 1)
        return replace(self, a=SparseRows(index, value, self.a.width + extra.width))


def distinct(a: Tensor | SparseRows) -> tuple[Tensor, Tensor]:
    """Find the rows of a that differ: the position of one of each kind, and the share of rows of that kind.

    Examples
    --------
    >>> distinct(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]))
    (tensor([1, 0]), tensor([0.2500, 0.7500]))
    """
    rows = a if isinstance(a, Tensor) else torch.cat([a.index.float(), a.value], 1)
    if rows.shape[1] == 0:  # all rows are equal, but torch.unique does not say so
        rows = rows.new_zeros(rows.shape[0], 1)
    _, kind, count = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
    first = torch.full_like(count, rows.shape[0]).scatter_reduce_(
        0, kind, torch.arange(rows.shape[0], device=rows.device), "amin"
    )
    return first, count / rows.shape[0]


def in_fours(rows: Tensor) -> Tensor:
    """Put zeros behind rows up to a multiple of four numbers: rows of whole 16 bytes have a faster kernel on a GPU.

    Examples
    --------
    >>> in_fours(torch.ones(1, 6))
    tensor([[1., 1., 1., 1., 1., 1., 0., 0.]])
    """
    over = -rows.shape[1] % 4
    return F.pad(rows, (0, over)) if over else rows

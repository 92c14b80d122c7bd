"""Examples, their annotations, and the batches that training draws from them.

An example x is stored once, however many annotations it has. An annotation is a label y with its privileged
information a and the `row` of its example in x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import Tensor

from lupi._internal.inputs import Inputs, Source, count_rows, in_memory, map_inputs, move_source, take_rows

__all__ = ["Annotations", "Batch", "SparseRows"]

SMALL = 2**26
"""Maximum number of values of dense privileged information on a GPU, 256 MiB."""
ROWS_AT_ONCE = 2**16
"""Rows that are converted at once."""


class Batch(NamedTuple):
    """Some examples and annotations of them. Each example occurs once, so the trunk runs once per example."""

    x: Inputs
    """[examples, ...]; a dict of such tensors for a network with several inputs"""
    row: Tensor
    """[annotations] position of each annotation's example in `x`"""
    a: Tensor
    """[annotations, privileged features], not necessarily contiguous"""
    y: Tensor
    """[annotations, ...]"""
    one_to_one: bool = False
    """Whether annotation i is known to be the only one of example i, so that `row` is 0, 1, …"""
    weight: Tensor | None = None
    """[annotations] weights, with mean one over the training set; all are one if None"""

    def spread(self, values: Tensor) -> Tensor:
        """Repeat values of examples for their annotations: `values[row]`.

        Do not modify the result in place: it is `values` itself if each example has one annotation.
        """
        return values if self.one_to_one else values[self.row]

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean of values of annotations, [annotations, ...], each multiplied by its weight.

        Examples
        --------
        >>> one = torch.ones(2, 1)
        >>> batch = Batch(one, torch.arange(2), one, one, weight=torch.tensor([0.5, 1.5]))
        >>> batch.mean(torch.tensor([4.0, 8.0]))
        tensor(7.)
        """
        if self.weight is None:
            return values.mean()
        return (self.weight.reshape(-1, *[1] * (values.ndim - 1)) * values).mean()

    def to(self, device: torch.device | str) -> Batch:
        """Move every tensor to a device."""
        x = map_inputs(lambda values: values.to(device), self.x)
        row, a, y = (part.to(device) for part in (self.row, self.a, self.y))
        return Batch(x, row, a, y, self.one_to_one, None if self.weight is None else self.weight.to(device))


class Draw(NamedTuple):
    """Where the examples and annotations of a batch are in a training set."""

    example: Tensor
    """[examples]"""
    row: Tensor
    """[annotations] position of each annotation's example in `example`"""
    annotation: Tensor
    """[annotations]"""
    one_to_one: bool
    """The same as for a batch."""

    def to(self, device: torch.device | str) -> Draw:
        """Move to a device without waiting for it."""
        example, row, annotation = (part.to(device, non_blocking=True) for part in self[:3])
        return Draw(example, row, annotation, self.one_to_one)


@dataclass(frozen=True)
class SparseRows:
    """Rows with few non-zero entries, such as one-hot columns; indexing returns dense rows, unless they stay sparse.

    Every row stores the same number of entries, padded with entries of value 0.

    Examples
    --------
    >>> rows = SparseRows.from_matrix(scipy.sparse.csr_array([[0, 1.0, 0], [2.0, 0, 3.0]]))
    >>> rows[torch.tensor([1])]
    tensor([[2., 0., 3.]])
    """

    index: Tensor
    """[rows, entries] int32, columns of the stored entries"""
    value: Tensor
    """[rows, entries] floating-point, their values"""
    width: int
    """Number of columns"""
    returns_sparse: bool = False
    """Whether indexing returns torch's sparse tensors, which linear layers multiply faster if there are many columns"""

    @classmethod
    def from_matrix(cls, matrix: scipy.sparse.csr_array | Tensor) -> SparseRows:
        """Convert a scipy sparse matrix, whose values become float32, or a dense tensor, whose values may be double."""
        if isinstance(matrix, Tensor):
            column = torch.arange(matrix.shape[1], dtype=torch.int32, device=matrix.device)
            value = matrix.to(torch.promote_types(matrix.dtype, torch.float32))
            return cls(column.expand(matrix.shape), value, matrix.shape[1])
        matrix = matrix.astype(np.float32)  # a copy
        matrix.sum_duplicates()  # `distinct` needs equal rows to be stored alike
        matrix.eliminate_zeros()
        return cls.pad(matrix)

    @classmethod
    def pad(cls, matrix: scipy.sparse.csr_array) -> SparseRows:
        """Convert a scipy sparse matrix without zeros and duplicates; the values keep their type."""
        stored = np.diff(matrix.indptr)
        filled = np.arange(stored.max(initial=0)) < stored[:, None]  # [rows, entries]
        index, value = np.zeros(filled.shape, dtype=np.int32), np.zeros(filled.shape, dtype=matrix.dtype)
        index[filled], value[filled] = matrix.indices, matrix.data
        return cls(torch.from_numpy(index), torch.from_numpy(value), matrix.shape[1])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.index.shape[0], self.width

    @property
    def dtype(self) -> torch.dtype:
        """Type of the values."""
        return self.value.dtype

    def __getitem__(self, index: Tensor) -> Tensor:
        return self.take(index).sparse() if self.returns_sparse else self.take(index).dense()

    def take(self, index: Tensor) -> SparseRows:
        """Select rows, keeping them sparse."""
        columns, values = self.index.index_select(0, index), self.value.index_select(0, index)  # faster than [index]
        return SparseRows(columns, values, self.width)

    def dense(self) -> Tensor:
        """Return all rows as a dense tensor."""
        zeros = self.value.new_zeros(self.value.shape[0], self.width)
        return zeros.scatter_add_(1, self.index.long(), self.value)

    def sparse(self) -> Tensor:
        """Return all rows as a sparse tensor of torch, in coordinates."""
        rows, entries = self.index.shape
        row = torch.arange(rows, device=self.index.device).repeat_interleave(entries)
        index = torch.stack([row, self.index.flatten().long()])
        return torch.sparse_coo_tensor(
            index, self.value.flatten(), (rows, self.width), is_coalesced=True, check_invariants=False
        )

    def mean(self, dim: int) -> Tensor:
        """Return the mean over rows (`dim` 0, as for a tensor) without making them dense."""
        assert dim == 0
        return (self.weighted_sum(torch.ones((), device=self.value.device)) / self.shape[0]).to(self.dtype)

    def weighted_sum(self, weight: Tensor) -> Tensor:
        """Return the sum of rows times their weights, [columns], in double precision."""
        total = self.value.new_zeros(self.width, dtype=torch.float64)
        value = self.value.double() * weight.double().reshape(-1, 1)
        return total.index_add_(0, self.index.flatten().long(), value.flatten())

    def to(self, device: torch.device | str) -> SparseRows:
        """Move the rows to a device."""
        return SparseRows(self.index.to(device), self.value.to(device), self.width)


@dataclass(frozen=True)
class CodedRows:
    """Rows of numbers and one-hot columns, stored as numbers and codes; indexing returns dense rows.

    Examples
    --------
    >>> rows = CodedRows(torch.tensor([[0.5], [1.5]]), torch.tensor([2]), torch.tensor([[0], [1]]), 3)
    >>> rows[torch.tensor([1])]
    tensor([[0.0000, 1.0000, 1.5000]])
    """

    numbers: Tensor
    """[rows, numbers] floating-point"""
    place: Tensor
    """[numbers] int64, columns of the numbers"""
    codes: Tensor
    """[rows, codes] integers, columns that are 1; `width` stands for none"""
    width: int
    """Number of columns"""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return self.numbers.shape[0], self.width

    def __getitem__(self, index: Tensor) -> Tensor:
        numbers, codes = self.numbers.index_select(0, index), self.codes.index_select(0, index)
        dense = numbers.new_zeros(index.shape[0], self.width + 1)  # the last column is that of no column
        dense[:, self.place] = numbers
        return dense.scatter_(1, codes.long(), 1.0)[:, : self.width]

    def matrix(self, start: int = 0, stop: int | None = None) -> scipy.sparse.csr_array:
        """Return rows as a scipy sparse matrix, without zeros."""
        numbers, codes = self.numbers[start:stop].numpy(), self.codes[start:stop].numpy()
        known = codes < self.width
        value = np.hstack([numbers, known.astype(numbers.dtype)])
        place = np.broadcast_to(self.place.int().numpy(), numbers.shape)
        index = np.hstack([place, np.where(known, codes, 0).astype(np.int32)])
        begin = np.arange(len(value) + 1) * value.shape[1]
        begin = begin.astype(np.int32) if begin[-1] < 2**31 else begin
        matrix = scipy.sparse.csr_array((value.ravel(), index.ravel(), begin), shape=(len(value), self.width))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        return matrix

    def sparse(self) -> SparseRows:
        """Return the rows as `SparseRows`, converted a few at a time."""
        rows, entries = self.shape[0], self.place.shape[0] + self.codes.shape[1]
        last, ordered = self.codes[:, -1:], bool((self.codes[:, 1:] > self.codes[:, :-1]).all())
        if not self.place.shape[0] and ordered and not bool((last == self.width).any()):  # an entry per code
            return SparseRows(self.codes.int(), self.numbers.new_ones(1).expand(self.codes.shape), self.width)
        index, value = torch.zeros(rows, entries, dtype=torch.int32), self.numbers.new_zeros(rows, entries)
        most = 0
        for start in range(0, rows, ROWS_AT_ONCE):
            part = SparseRows.pad(self.matrix(start, start + ROWS_AT_ONCE))
            here = slice(start, start + ROWS_AT_ONCE), slice(part.index.shape[1])
            index[here], value[here] = part.index, part.value
            most = max(most, part.index.shape[1])
        return SparseRows(index[:, :most].contiguous(), value[:, :most].contiguous(), self.width)


@dataclass(frozen=True)
class Annotations:
    """A training set of examples x and their annotations (row, a, y).

    Parameters
    ----------
    x : Tensor, mapping, Rows or Dataset
        [examples, ...] inputs, one row per example. A mapping of names to tensors is for networks with several inputs,
        such as the tokens of a Hugging Face tokenizer. Other sources are read when a batch is drawn: `Rows`, or a
        map-style dataset whose items are tensors of one shape, or dicts of such tensors. Errors name the row of an item
        that cannot be read and, if the dataset has an attribute `paths`, its file.
    row : Tensor
        [annotations] position of each annotation's example in `x`.
    a : Tensor or SparseRows
        [annotations, privileged features] privileged information of each label.
    y : Tensor
        [annotations, ...] labels; for classes, also distributions over them, [annotations, classes].
    annotator : Tensor, optional
        [annotations] int64 numbers from 0 of who gave each label. Batches do not carry them.
    weight : Tensor, optional
        [annotations] how much each label counts, 0 or more. An annotation of weight 2 counts like two, and only ratios
        of weights matter.
    gold : Tensor, optional
        [examples, ...] true labels where they are known, else −1, or NaN if y is floating-point; class numbers if y is
        soft. Methods with a model of the annotators learn from them what labels are worth; others are trained on them
        in place of the labels of their examples.
    trust : Tensor, optional
        [annotators] the probability that a label of a trusted annotator is right, NaN for others.

    Examples
    --------
    Two examples, three annotations:

    >>> data = Annotations(torch.eye(2), torch.tensor([1, 0, 1]), torch.ones(3, 1), torch.tensor([0, 1, 1]))
    >>> data.by_annotation(torch.tensor([0, 2])).x  # both belong to example 1, which occurs once
    tensor([[0., 1.]])
    >>> data.by_example(torch.tensor([1, 0])).y  # all annotations of example 1, then of example 0
    tensor([0, 1, 1])
    """

    is_stacked: ClassVar[bool] = False
    """Whether batches have a leading dimension, that of `parts`."""
    x: Source
    row: Tensor
    a: Tensor | SparseRows
    y: Tensor
    annotator: Tensor | None = None
    weight: Tensor | None = None
    gold: Tensor | None = None
    trust: Tensor | None = None

    def __post_init__(self) -> None:
        n = self.row.shape[0]
        if self.gold is not None and self.gold.shape[0] != self.examples:
            raise ValueError(f"Expected `gold` to have {self.examples} rows, as `x` has, but got {len(self.gold)}.")
        for name, rows in (("a", self.a), ("y", self.y), ("annotator", self.annotator), ("weight", self.weight)):
            if rows is not None and rows.shape[0] != n:
                raise ValueError(f"Expected `{name}` to have {n} rows, as `row` has, but got {rows.shape[0]}.")
        if n and not (int(self.row.min()) >= 0 and int(self.row.max()) < self.examples):
            raise ValueError(
                f"Expected `row` to be from 0 to {self.examples - 1}, the rows of `x`, but got "
                f"{int(self.row.min())} to {int(self.row.max())}."
            )
        if self.weight is not None and not bool(((self.weight >= 0) & self.weight.isfinite()).all()):
            raise ValueError("Expected `weight` to be finite and not negative, but some are not.")

    def __len__(self) -> int:
        return self.row.shape[0]

    @property
    def parts(self) -> Sequence[Annotations]:
        """The training sets that batches are drawn from together: this one alone."""
        return [self]

    @property
    def whole(self) -> Annotations:
        """All parts in one."""
        return self

    @cached_property
    def examples(self) -> int:
        """Number of examples."""
        return count_rows(self.x)

    @property
    def dtype(self) -> torch.dtype:
        """Type of weights and averages: float32, unless a or y is in double precision."""
        return torch.promote_types(torch.promote_types(self.a.dtype, self.y.dtype), torch.float32)

    @cached_property
    def one_to_one(self) -> bool:
        """Whether annotation i is the only one of example i."""
        return self.examples == len(self) and bool((self.row == self.positions).all())

    @cached_property
    def positions(self) -> Tensor:
        """0, 1, … for every annotation."""
        return torch.arange(len(self), device=self.row.device)

    def take_positions(self, size: int) -> Tensor:
        """Return 0, 1, …, size − 1. Batches of one size share a tensor, since making one takes long in a short step."""
        made: dict[int, Tensor] = self.__dict__.setdefault("_positions", {})
        if size not in made:
            made[size] = torch.arange(size, device=self.row.device)
        return made[size]

    @cached_property
    def order(self) -> Tensor:
        """Positions of the annotations, sorted by example."""
        return torch.argsort(self.row, stable=True)

    @cached_property
    def count(self) -> Tensor:
        """[examples] number of annotations of each example."""
        return torch.bincount(self.row, minlength=self.examples)

    @cached_property
    def first(self) -> Tensor:
        """[examples] position in `order` of the first annotation of each example."""
        return torch.cumsum(self.count, 0) - self.count

    @cached_property
    def annotated(self) -> Tensor:
        """Examples that have annotations."""
        return self.count.nonzero().squeeze(1)

    @cached_property
    def rows_of_a(self) -> Tensor | SparseRows:
        """The rows of a that batches index: on a GPU dense, if they are small, which is one kernel and not five.

        Dense rows are padded with zeros to whole 16 bytes, since a GPU indexes such rows faster.
        """
        if not self.row.is_cuda or len(self.a.shape) != 2 or len(self) * (self.a.shape[1] + 3) > SMALL:
            return self.a
        dense = self.a if isinstance(self.a, Tensor) else self.a.dense()
        return F.pad(dense, (0, -dense.shape[1] % 4))

    def by_annotation(self, index: Tensor) -> Batch:
        """Return a batch of some annotations."""
        return self.gather(self.find_annotations(index))

    def by_example(self, example: Tensor, x: Inputs | None = None) -> Batch:
        """Return a batch of some examples with all of their annotations; `x` are their inputs, if they were read."""
        return self.gather(self.find_examples(example), x)

    def find_annotations(self, index: Tensor) -> Draw:
        """Return where the examples of some annotations are, each once."""
        if self.one_to_one:
            return Draw(index, self.take_positions(index.shape[0]), index, True)
        example, row = torch.unique(self.row[index], return_inverse=True)
        return Draw(example, row, index, False)

    def find_examples(self, example: Tensor) -> Draw:
        """Return where the annotations of some examples are."""
        count = self.count[example]
        row = torch.repeat_interleave(torch.arange(example.shape[0], device=example.device), count)
        shift = self.first[example] - (torch.cumsum(count, 0) - count)
        index = self.order[shift[row] + torch.arange(row.shape[0], device=row.device)]
        return Draw(example, row, index, self.one_to_one)

    def gather(self, draw: Draw, x: Inputs | None = None) -> Batch:
        """Return the batch of a draw; `x` are its inputs, if they were read before."""
        x = self.inputs(draw.example) if x is None else x
        return Batch(x, draw.row, *self.pairs(draw.annotation), draw.one_to_one, self.weights(draw.annotation))

    def inputs(self, example: Tensor) -> Inputs:
        """Return some inputs. A source that is not in memory is indexed on the CPU, and the result moved."""
        if isinstance(self.x, Tensor):  # the usual case, in the innermost loop
            return self.x.index_select(0, example)
        if in_memory(self.x):
            return take_rows(self.x, example)
        return map_inputs(lambda values: values.to(example.device), take_rows(self.x, example.cpu()))

    def pairs(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return a and y of some annotations."""
        a = self.rows_of_a
        drawn = a.index_select(0, index) if isinstance(a, Tensor) else a[index]
        drawn = drawn if drawn.shape[1:] == self.a.shape[1:] else drawn[:, : self.a.shape[1]]
        return drawn, self.y.index_select(0, index)

    def weights(self, index: Tensor) -> Tensor | None:
        """Return the weights of some annotations."""
        return None if self.weight is None else self.weight.index_select(0, index)

    def take(self, index: Tensor) -> Annotations:
        """Select annotations; x is shared, not copied."""
        a = self.a[index] if isinstance(self.a, Tensor) else self.a.take(index)
        annotator = None if self.annotator is None else self.annotator[index]
        weight = self.weights(index)
        return replace(self, row=self.row[index], a=a, y=self.y[index], annotator=annotator, weight=weight)

    def to(self, device: torch.device | str) -> Annotations:
        """Move tensors to a device; another source of x stays where it is."""
        optional = {name: getattr(self, name) for name in ("annotator", "weight", "gold", "trust")}
        moved = {name: None if part is None else part.to(device) for name, part in optional.items()}
        x, row, a, y = move_source(self.x, device), self.row.to(device), self.a.to(device), self.y.to(device)
        return Annotations(x, row, a, y, **moved)

    def outline(self) -> Annotations:
        """Return the same examples and annotations on the CPU, without a, y and weights, to find draws there."""
        row = self.row.cpu()
        return Annotations(self.x, row, row.new_zeros(len(self), 0), row)

    def normalize_weights(self) -> Annotations:
        """Divide the weights by their mean, so that they do not scale the loss; drop them if all are equal."""
        if self.weight is None:
            return self
        if bool((self.weight == self.weight[:1]).all()) and bool((self.weight > 0).all()):
            return replace(self, weight=None)
        mean = self.weight.double().mean()
        if not bool(mean > 0):
            raise ValueError("Expected some `weight` to be greater than 0, but all are 0.")
        return replace(self, weight=(self.weight / mean).to(self.dtype))

    def mean_privileged(self) -> Tensor:
        """Return the weighted mean of a, [privileged features]."""
        if self.weight is None:
            return self.a.mean(0)
        a, weight = self.a, self.weight.double()
        total = weight @ a.double() if isinstance(a, Tensor) else a.weighted_sum(weight)
        return (total / weight.sum()).to(self.dtype)

    def weight_examples(self) -> Tensor | None:
        """Return the mean weight of the annotations of each annotated example, None without weights."""
        if self.weight is None:
            return None
        total = self.weight.new_zeros(self.examples).index_add_(0, self.row, self.weight)
        return (total / self.count.clamp(min=1))[self.annotated]

    @cached_property
    def has_gold(self) -> Tensor:
        """[examples] whether the true label is known."""
        if self.gold is None:
            return self.row.new_zeros(self.examples, dtype=torch.bool)
        if self.gold.is_floating_point():
            return ~self.gold.isnan().reshape(self.gold.shape[0], -1).any(1)
        return self.gold >= 0

    def with_gold(self) -> Annotations:
        """Replace the labels of an example by its true label where that is known, and their a by zeros.

        Examples
        --------
        >>> gold = torch.tensor([-1, 2])
        >>> data = Annotations(torch.eye(2), torch.tensor([1, 0]), torch.ones(2, 1), torch.tensor([0, 1]), gold=gold)
        >>> data.with_gold().y, data.with_gold().a.flatten()
        (tensor([2, 1]), tensor([0., 1.]))
        """
        known = self.has_gold[self.row]
        if self.gold is None or not bool(known.any()):
            return self
        true = self.gold[self.row][known]
        if self.y.ndim > true.ndim:  # a soft label
            true = F.one_hot(true, self.y.shape[1])
        y = self.y.clone()
        y[known] = true.to(y.dtype)
        if isinstance(self.a, Tensor):
            return replace(self, y=y, a=torch.where(known.unsqueeze(1), 0, self.a))
        return replace(self, y=y, a=replace(self.a, value=self.a.value.masked_fill(known.unsqueeze(1), 0)))

    def without_privileged(self) -> Annotations:
        """Remove the privileged information."""
        return replace(self, a=self.row.new_zeros(len(self), 0, dtype=self.dtype))

    def with_privileged(self, more: Tensor) -> Annotations:
        """Append columns to the privileged information."""
        if isinstance(self.a, Tensor):
            return replace(self, a=torch.cat([self.a, more], 1))
        extra = SparseRows.from_matrix(more.to(self.a.dtype))
        index = torch.cat([self.a.index, extra.index + self.a.width], 1)
        value = torch.cat([self.a.value, extra.value], 1)
        return replace(self, a=SparseRows(index, value, self.a.width + extra.width))


def distinct(a: Tensor | SparseRows, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Find the distinct rows of a: the position of the first of each, and the (weighted) share of rows that equal it.

    Examples
    --------
    >>> distinct(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]]))
    (tensor([1, 0]), tensor([0.2500, 0.7500]))
    """
    rows = a if isinstance(a, Tensor) else torch.cat([a.index.float(), a.value], 1)
    if rows.shape[1] == 0:  # all rows are equal, but torch.unique does not find that
        rows = rows.new_zeros(rows.shape[0], 1)
    _, kind, count = torch.unique(rows, dim=0, return_inverse=True, return_counts=True)
    position = torch.arange(rows.shape[0], device=rows.device)
    first = torch.full_like(count, rows.shape[0]).scatter_reduce_(0, kind, position, "amin")
    if weight is None:
        return first, count.to(torch.promote_types(rows.dtype, torch.float32)) / rows.shape[0]
    total = weight.new_zeros(count.shape[0]).index_add_(0, kind, weight)
    return first, total / weight.sum()

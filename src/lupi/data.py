"""Examples, their annotations, and the batches that training draws from them.

An example x is stored once, however many annotations it has. An annotation is a label y with its privileged
information a and the `row` of its example in x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from lupi._internal.inputs import Inputs, Source, count_rows, in_memory, map_inputs, move_source, take_rows
from lupi._internal.sparse_rows import SparseRows

__all__ = ["Annotations", "Batch", "SparseRows"]

MAX_DENSE_VALUES = 2**26
"""Maximum number of values of dense privileged information on a GPU, 256 MiB."""


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

    @classmethod
    def of(cls, x: Inputs, a: Tensor, y: Tensor, weight: Tensor | None = None) -> Batch:
        """Make a batch in which every example has one annotation, for a training loop of your own.

        Parameters
        ----------
        x : Tensor or mapping
            [examples, ...] inputs.
        a : Tensor
            [examples, privileged features] floating-point numbers without missing values.
        y : Tensor
            [examples, ...] labels.
        weight : Tensor, optional
            [examples] weights of the labels.

        Returns
        -------
        Batch
            The batch that `losses` and `forward` of a method take.

        Examples
        --------
        >>> Batch.of(torch.ones(2, 3), torch.zeros(2, 1), torch.tensor([0, 1])).row
        tensor([0, 1])
        """
        check_privileged(a)
        for name, rows in (("x", count_rows(x)), ("a", len(a))):
            if rows != len(y):
                raise ValueError(f"Expected `{name}` to have {len(y)} rows, as `y` has, but got {rows}.")
        return cls(x, torch.arange(len(y), device=y.device), a, y, one_to_one=True, weight=weight)

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
        check_type(self.a)
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
        if not self.row.is_cuda or len(self.a.shape) != 2 or len(self) * (self.a.shape[1] + 3) > MAX_DENSE_VALUES:
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
            return Draw(index, torch.arange(index.shape[0], device=index.device), index, True)
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
        index, a = draw.annotation, self.rows_of_a
        drawn = a.index_select(0, index) if isinstance(a, Tensor) else a[index]
        if drawn.shape[1:] != self.a.shape[1:]:
            drawn = drawn[:, : self.a.shape[1]]  # without padding
        return Batch(x, draw.row, drawn, self.y.index_select(0, index), draw.one_to_one, self.weights(index))

    def inputs(self, example: Tensor) -> Inputs:
        """Return some inputs. A source that is not in memory is indexed on the CPU, and the result moved."""
        if isinstance(self.x, Tensor):  # the usual case, in the innermost loop
            return self.x.index_select(0, example)
        if in_memory(self.x):
            return take_rows(self.x, example)
        return map_inputs(lambda values: values.to(example.device), take_rows(self.x, example.cpu()))

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
        parts = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "x"}
        moved: dict[str, Any] = {name: part if part is None else part.to(device) for name, part in parts.items()}
        return Annotations(move_source(self.x, device), **moved)

    def outline(self) -> Annotations:
        """Return the same examples and annotations on the CPU, without a, y and weights, to find draws there."""
        row = self.row.cpu()
        return Annotations(self.x, row, row.new_zeros(len(self), 0, dtype=self.dtype), row)

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


def check_type(a: Tensor | SparseRows) -> None:
    """Raise an error unless privileged information is in floating-point numbers."""
    if not a.dtype.is_floating_point:
        raise ValueError(
            f"Expected `a` to be floating-point numbers, but got {a.dtype}: use `a.float()` for numbers, and "
            "`torch.nn.functional.one_hot(a).float()` for annotators and other categories."
        )


def check_privileged(a: Tensor | SparseRows) -> None:
    """Raise an error unless privileged information is in floating-point numbers, none of them missing."""
    check_type(a)
    missing = (a if isinstance(a, Tensor) else a.value).isnan()
    if bool(missing.any()):
        row = int(missing.nonzero()[0, 0])
        raise ValueError(
            f"Expected `a` to have no missing values, but row {row} has NaN: replace it by a number, such as 0, and "
            "add a column that says where values are missing."
        )


def distinct(a: Tensor | SparseRows, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Find the distinct rows of a: the position of the first, and the (weighted) share of rows that equal it."""
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

"""Rows with few values that are not zero: privileged information and inputs with many categories."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import torch
import torch.nn.functional as F
from torch import Tensor

ROWS_AT_ONCE = 2**16
"""Rows that are converted at once."""


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
    """Rows of numbers and one-hot columns, stored as numbers and codes; indexing returns dense rows."""

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
        last, ordered = self.codes[:, -1:], bool((self.codes[:, 1:] > self.codes[:, :-1]).all())
        if not self.place.shape[0] and ordered and not bool((last == self.width).any()):  # an entry per code
            return SparseRows(self.codes.int(), self.numbers.new_ones(1).expand(self.codes.shape), self.width)
        starts = range(0, self.shape[0], ROWS_AT_ONCE)
        parts = [SparseRows.pad(self.matrix(start, start + ROWS_AT_ONCE)) for start in starts]
        most = max(part.index.shape[1] for part in parts)
        index = torch.cat([F.pad(part.index, (0, most - part.index.shape[1])) for part in parts])
        value = torch.cat([F.pad(part.value, (0, most - part.value.shape[1])) for part in parts])
        return SparseRows(index, value, self.width)

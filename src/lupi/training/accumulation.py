"""Gradient accumulation: split a batch into parts whose gradients add up to that of the batch."""

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from lupi._internal.inputs import map_inputs
from lupi.data import Batch


def split_batch(batch: Batch, parts: int, leading: int = 0) -> Iterator[Batch]:
    """Split a batch into parts with nearly equal numbers of examples, each with its annotations."""

    def take(values: Tensor, index: Tensor) -> Tensor:
        return values.index_select(leading, index)

    first = batch.x if isinstance(batch.x, Tensor) else next(iter(batch.x.values()))
    examples = first.shape[leading]
    for rows in torch.arange(examples, device=batch.row.device).tensor_split(min(parts, examples)):
        own = rows if batch.one_to_one else torch.isin(batch.row, rows).nonzero().squeeze(1)
        weight = None if batch.weight is None else take(batch.weight, own)
        yield Batch(
            map_inputs(partial(take, index=rows), batch.x),
            batch.row[own] - rows[0],
            take(batch.a, own),
            take(batch.y, own),
            batch.one_to_one,
            weight,
        )

"""Which annotations every step of a stage sees, and this process's share of them.

Every batch is a function of the seed, the stage, the epoch and the step.
"""

import math
from collections.abc import Iterator
from functools import partial
from itertools import islice, repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lupi._internal.inputs import Inputs, Request, in_memory, map_inputs, read_ahead
from lupi.data import Batch
from lupi.settings import Settings
from lupi.training.replicas import Data


class Share(NamedTuple):
    """The share of a batch that one process computes; with one process, the batch."""

    batch: Batch
    factor: float
    """Turns the mean gradient over processes into that of the whole batch."""
    annotations: float
    """Number of annotations to weight this process's losses by."""


class Step(NamedTuple):
    """What a step sees."""

    units: Tensor
    """Annotations or examples of the batch, [size]; of replicas, [replicas, size]"""
    x: Inputs | None
    """The inputs of this process's share, if they are not in memory."""


class Batches:
    """The batches of a stage."""

    def __init__(self, data: Data, settings: Settings, place: Any, *, seeds: list[int], stage: int) -> None:
        self.data, self.settings, self.place = data, settings, place
        self.seeds, self.stage = seeds, stage
        self.stacked = data.is_stacked
        self.in_memory = all(in_memory(part.x) for part in data.parts)
        one_label_each = not self.stacked and data.whole.one_to_one
        self.by_example = by_example = settings.draw == "examples" and not one_label_each
        self.one_shape = self.stacked or one_label_each
        """Whether batches of one size have one shape."""
        self.uniform = self.in_memory and self.one_shape
        """Whether finding the annotations of a batch, and their inputs, needs neither the CPU nor their number."""
        self.outline = data if self.uniform or place.device.type == "cpu" else data.outline()
        """Where annotations are found: on the CPU, unless a GPU can do it without waiting."""
        self.find = self.outline.find_examples if by_example else self.outline.find_annotations
        self.units = self.outline.annotated if by_example else self.outline.parts[0].positions
        self.per_epoch = math.ceil(self.units.shape[0] / settings.batch_size)
        self.size = min(settings.batch_size, self.units.shape[0])

    def iterate(self, epoch: int, step: int) -> Iterator[Step]:
        """Yield every step from one of an epoch to the end of the training."""
        inputs: Iterator[Inputs | None] = repeat(None)
        if not self.in_memory:
            inputs = read_ahead(self.data.whole.x, self.iterate_requests(epoch, step), self.place.device)
        for number in range(epoch, self.settings.epochs):
            for index in islice(self.draw_order(number), step if number == epoch else 0, None):
                yield Step(index, next(inputs))
                del index  # so that the order of the last epoch is freed before the next one is drawn

    def iterate_requests(self, epoch: int, step: int) -> Iterator[Request]:
        """Yield the rows of x that this process needs in every step, with a seed of the step's own."""
        for number in range(epoch, self.settings.epochs):
            source = np.random.SeedSequence((self.seeds[0], self.stage, number), spawn_key=(2,))
            rows = list(zip(self.draw_order(number), source.generate_state(self.per_epoch).tolist(), strict=True))
            for index, seed in rows[step:] if number == epoch else rows:
                yield Request(self.find(self.take_share(index)).example.flatten(), seed)

    def draw_order(self, epoch: int) -> tuple[Tensor, ...]:
        """Return the batches of an epoch, in an order determined by seed, stage and epoch."""
        orders = []
        for seed in self.seeds:
            entropy = np.random.SeedSequence((seed, self.stage, epoch)).generate_state(1)
            generator = torch.Generator().manual_seed(int(entropy[0]))
            orders.append(torch.randperm(self.units.shape[0], generator=generator))
        order = torch.stack(orders) if self.stacked else orders[0]
        order = order.to(self.units.device)
        if self.by_example:  # annotations are numbered from 0, and copying 50 million numbers takes 0.4 GB
            order = self.units[order]
        return torch.split(order, self.settings.batch_size, -1)

    def take_share(self, index: Tensor) -> Tensor:
        """Return this process's part of a batch; of too few to share, every process computes all."""
        world, rank = self.place.world_size, self.place.global_rank
        return index if world == 1 or index.shape[0] < world else torch.tensor_split(index, world)[rank]

    def draw(self, index: Tensor, x: Inputs | None = None) -> Share:
        """Draw this process's share of a batch; `x` are its inputs, if they were read before."""
        world = self.place.world_size
        draw = self.find(index if world == 1 else self.take_share(index))
        count = draw.row.shape[0]
        batch = self.data.gather(draw if self.outline is self.data else draw.to(self.place.device), x)
        if world == 1 or index.shape[0] < world:
            return Share(batch, 1.0, count / world)
        total = int(self.outline.whole.count[index].sum()) if self.settings.draw == "examples" else index.shape[0]
        return Share(batch, count * world / total, count)


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

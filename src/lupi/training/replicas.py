"""Train many seeds of a method as one stacked model.

The parameters of the replicas are stacked along a new first dimension. Batched matrix products, or `torch.func.vmap`
for networks with other layers, compute the losses of each replica on its own batch. For each replica, the gradient of
the sum of losses is that of its own loss, so an elementwise optimizer such as SGD or Adam trains all replicas
independently. During training, the parameters of a replica are views of the stacked ones, so each replica can be used
at any time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from lupi._internal.inputs import Inputs, concatenate, describe_row, map_inputs
from lupi.data import Annotations, Batch, Draw, SparseRows
from lupi.likelihoods import Likelihood
from lupi.methods.base import Group, Method, Stage, join_stages
from lupi.methods.tram import RandomPI
from lupi.nn import MLP, Projected, Tower

ACTIVATIONS = {nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Dropout}
BY_ROW = {nn.Sequential, MLP, Projected, Tower, RandomPI, nn.Linear, nn.Identity, nn.Flatten} | ACTIVATIONS
"""Modules that compute each row from that row alone. Their subclasses may not."""
REPLACEABLE = {"losses", "conditional_output", "annotator_output", "targets", "forward"}
"""What a subclass may override so that it no longer computes by row."""


@dataclass(frozen=True)
class StackedAnnotations:
    """The training sets of replicas, which have the same size, and from which batches are drawn together.

    Parameters
    ----------
    parts : sequence of Annotations
        The training set of each replica.

    Examples
    --------
    >>> sets = [Annotations(torch.eye(4), torch.arange(4), torch.ones(4, 1), torch.arange(4) + 10 * i) for i in (0, 1)]
    >>> StackedAnnotations(sets).by_annotation(torch.tensor([[2, 0], [3, 1]])).y
    tensor([[ 2,  0],
            [13, 11]])
    """

    is_stacked: ClassVar[bool] = True
    parts: Sequence[Annotations]

    def __post_init__(self) -> None:
        for name, sizes in (
            ("annotations", {len(part) for part in self.parts}),
            ("privileged features", {part.a.shape[1] for part in self.parts}),
            ("inputs", {describe_row(part.x) for part in self.parts}),
        ):
            if len(sizes) > 1:
                raise ValueError(
                    f"Expected the same number of {name} for every seed, but got {sorted(sizes, key=str)}."
                )

    def __len__(self) -> int:
        return len(self.parts[0])

    @cached_property
    def whole(self) -> Annotations:
        """All sets, concatenated to draw batches; examples shared by all sets are stored once, without annotators."""
        first, *others = self.parts
        if all(part is first for part in others):
            return first
        y, row, x = torch.cat([part.y for part in self.parts]), [part.row for part in self.parts], first.x
        if not all(part.x is first.x for part in others):
            before = np.cumsum([0] + [part.examples for part in self.parts]).tolist()
            x = concatenate([part.x for part in self.parts])
            row = [rows + start for rows, start in zip(row, before, strict=False)]
        a, weight = concatenate_rows([part.a for part in self.parts]), None
        if any(part.weight is not None for part in self.parts):
            ones = torch.ones(len(self), device=y.device)
            weight = torch.cat([ones if part.weight is None else part.weight for part in self.parts])
        return Annotations(x, torch.cat(row), a, y, weight=weight)

    @cached_property
    def start(self) -> Tensor:
        """[replicas, 1] the position of the first annotation of each replica in `whole`."""
        apart = len(self) if len(self.whole) > len(self) else 0
        return (apart * torch.arange(len(self.parts), device=self.whole.row.device)).unsqueeze(1)

    @cached_property
    def annotations_per_example(self) -> int:
        """The number of annotations that every annotated example has."""
        counts = torch.unique(torch.cat([part.count[part.annotated] for part in self.parts])).tolist()
        if len(counts) > 1:
            raise ValueError(f"Expected the same number of annotations for every example, but got {counts}.")
        return int(counts[0])

    @cached_property
    def annotated(self) -> Tensor:
        """The annotated examples of a replica, numbered from 0."""
        return torch.arange(len(self) // self.annotations_per_example, device=self.parts[0].row.device)

    @cached_property
    def order(self) -> Tensor:
        """[replicas, annotations] positions of the annotations of each replica, sorted by example."""
        return torch.stack([part.order for part in self.parts])

    def by_annotation(self, index: Tensor) -> Batch:
        """Draw annotations [replicas, size], each with a copy of its example."""
        return self.gather(self.find_annotations(index))

    def by_example(self, example: Tensor) -> Batch:
        """Draw examples [replicas, size], each with all of its annotations."""
        return self.gather(self.find_examples(example))

    def find_annotations(self, index: Tensor) -> Draw:
        """Return the positions in `whole` of annotations [replicas, size] and of their examples."""
        index = index + self.start
        return Draw(self.whole.row[index], torch.arange(index.shape[1], device=index.device), index, True)

    def find_examples(self, example: Tensor) -> Draw:
        """Return the positions in `whole` of examples [replicas, size] and of all their annotations."""
        each = self.annotations_per_example
        place = (example * each).unsqueeze(2) + torch.arange(each, device=example.device)
        index = self.order.gather(1, place.flatten(1)) + self.start
        row = torch.arange(example.shape[1], device=index.device).repeat_interleave(each)
        return Draw(self.whole.row[index[:, ::each]], row, index, each == 1)

    def gather(self, draw: Draw, x: Inputs | None = None) -> Batch:
        """Return the batch of a draw; `x` holds its inputs [replicas · size, ...] if they were read before."""
        flat = Draw(draw.example.flatten(), draw.row, draw.annotation.flatten(), draw.one_to_one)
        batch = self.whole.gather(flat, x)
        x = map_inputs(lambda values: values.reshape(*draw.example.shape, *values.shape[1:]), batch.x)
        a, y = (part.reshape(*draw.annotation.shape, *part.shape[1:]) for part in (batch.a, batch.y))
        weight = None if batch.weight is None else batch.weight.reshape(draw.annotation.shape)
        return Batch(x, draw.row, a, y, draw.one_to_one, weight)

    def change(self, function: Callable[[Annotations], Annotations]) -> StackedAnnotations:
        """Change all sets; a set that several seeds share is changed once and stays shared."""
        changed = {id(part): function(part) for part in self.parts}
        return StackedAnnotations([changed[id(part)] for part in self.parts])

    def outline(self) -> StackedAnnotations:
        """Return a copy on the CPU without a, y and weights, to compute draws there."""
        return self.change(Annotations.outline)

    def to(self, device: torch.device | str) -> StackedAnnotations:
        """Move all sets to a device."""
        return self.change(lambda part: part.to(device))

    def without_privileged(self) -> StackedAnnotations:
        """Drop the privileged information."""
        return self.change(Annotations.without_privileged)

    def with_gold(self) -> StackedAnnotations:
        """Replace labels with known true labels."""
        return self.change(Annotations.with_gold)

    def normalize_weights(self) -> StackedAnnotations:
        """Normalize the weights of every set."""
        return self.change(Annotations.normalize_weights)


Data = Annotations | StackedAnnotations


def concatenate_rows(rows: Sequence[Tensor | SparseRows]) -> Tensor | SparseRows:
    """Concatenate the rows of several sets, padding sparse rows to the largest number of entries."""
    dense = [part for part in rows if isinstance(part, Tensor)]
    if len(dense) == len(rows):
        return torch.cat(dense)
    sparse = [part if isinstance(part, SparseRows) else SparseRows.from_matrix(part) for part in rows]
    entries = max(part.index.shape[1] for part in sparse)
    index = torch.cat([F.pad(part.index, (0, entries - part.index.shape[1])) for part in sparse])
    value = torch.cat([F.pad(part.value, (0, entries - part.value.shape[1])) for part in sparse])
    return SparseRows(index, value, sparse[0].width)


class Replicas(Group):
    """Train methods of the same kind together, one per seed.

    The members may differ only in their parameters and buffers. Noise in training is independent between replicas, and
    differs from that of a member trained alone.

    Parameters
    ----------
    members : sequence of Method
        One method per seed, all with the same layers.

    Examples
    --------
    >>> from lupi.methods import NoPI
    >>> from lupi.settings import Settings
    >>> from lupi.training import fit
    >>> data = Annotations(torch.eye(4), torch.arange(4), torch.ones(4, 1), torch.tensor([0, 1, 0, 1]))
    >>> replicas = Replicas([NoPI(nn.Identity(), nn.Linear(4, 2)) for seed in range(3)])
    >>> history = fit(replicas, StackedAnnotations([data] * 3), Settings(epochs=2), seed=range(3))
    >>> len(history[-1]["train_marginal"])
    3
    >>> replicas.predictor()(data.x).shape
    torch.Size([4, 3, 2])
    """

    is_stacked: ClassVar = True

    def __init__(self, members: Sequence[Method]) -> None:
        kinds = {
            tuple((name, value.shape, value.requires_grad) for name, value in member.named_parameters())
            for member in members
        }
        if len(kinds) > 1:
            raise ValueError("Expected the networks of all seeds to have the same shapes and frozen parameters.")
        super().__init__(members)
        self.stacked: dict[str, Tensor] = {}
        self.stacked_losses: Callable[[Batch], dict[str, Tensor]]

    @property
    def replicas(self) -> Sequence[Method]:
        """The members."""
        return list(self.members)

    def stack(self) -> None:
        """Stack the parameters and buffers of the members, and turn the originals into views of the stacked ones."""
        for name, first in self.members[0].named_parameters():
            every = [member.get_parameter(name) for member in self.members]
            stacked = nn.Parameter(torch.stack([value.detach() for value in every]), first.requires_grad)
            for view, value in zip(stacked.detach(), every, strict=True):
                value.data = view
                value.requires_grad_(False)
            self.stacked[name] = stacked
            self.register_parameter(name.replace(".", "/"), stacked)
        for name, _ in self.members[0].named_buffers():
            buffers = [member.get_buffer(name) for member in self.members]
            if len({buffer.shape for buffer in buffers}) == 1:
                self.stacked[name] = torch.stack(buffers)
                for view, buffer in zip(self.stacked[name], buffers, strict=True):
                    buffer.data = view
        make = concatenate_losses if can_concatenate(self.members[0]) else map_losses
        self.stacked_losses = make(self.members[0], self.stacked)

    def separate(self) -> None:
        """Give every member its own parameters and buffers again."""
        for member in self.members:
            for name, value in member.named_parameters():
                value.data = value.data.clone()
                value.requires_grad_(self.stacked[name].requires_grad)
            for buffer in member.buffers():
                buffer.data = buffer.data.clone()
        for name, _ in self.members[0].named_parameters():
            delattr(self, name.replace(".", "/"))
        self.stacked = {}

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses of every replica on its own batch, [replicas]; `row` is shared."""
        return self.stacked_losses(batch)

    def predictor(self) -> nn.Module:
        """Return a module that outputs the predictions of all replicas, [examples, replicas, ...]."""
        return SideBySide([member.predictor() for member in self.members])

    def observe(self, data: Any) -> None:
        """Let each member observe its own training set."""
        for member, part in zip(self.members, data.parts, strict=True):
            member.observe(part)

    def stages(self, data: Any) -> Iterator[Stage]:
        """Yield the stages of the members, each with the methods of all of them."""
        own = [member.stages(part) for member, part in zip(self.members, data.parts, strict=True)]
        for stages in zip(*own, strict=True):
            yield join_stages(stages, attrgetter("parts"))


def split_history(history: Sequence[dict[str, Any]], replicas: int) -> list[list[dict[str, Any]]]:
    """Split the history of replicas into one history per replica, which ends when the replica stopped.

    In a stage that trains several networks per replica, a loss is a list with one number per network.
    """

    def pick(value: Any, number: int) -> Any:
        if not isinstance(value, list):
            return value
        each = len(value) // replicas
        return value[number] if each == 1 else value[each * number : each * (number + 1)]

    split = [
        [{name: pick(value, number) for name, value in row.items()} for row in history] for number in range(replicas)
    ]
    return [[row for row in rows if not has_stopped(row)] for rows in split]


def has_stopped(row: dict[str, Any]) -> bool:
    """Return whether all networks of a row of the history had stopped before it."""
    losses = (value for name, value in row.items() if name.startswith("train_"))
    return any(np.isnan(value).all() for value in losses)


def map_losses(method: nn.Module, stacked: dict[str, Tensor]) -> Callable[[Batch], dict[str, Tensor]]:
    """Make the function that maps stacked batches to the losses of every replica, by vmap."""
    losses = Losses(method)
    unlike = {
        f"method.{name}": nn.UninitializedBuffer()  # a loss that reads it fails instead of mixing seeds
        for name, _ in method.named_buffers()
        if name not in stacked
    }

    def of_one(state: dict[str, Tensor], batch: Batch) -> dict[str, Tensor]:
        own = {f"method.{name}": value for name, value in state.items()}
        return functional_call(losses, own | unlike, (batch,))  # type: ignore[no-any-return]

    plain, weighted = (
        vmap(of_one, in_dims=(0, Batch(0, None, 0, 0, None, weight)), randomness="different")  # type: ignore[arg-type]
        for weight in (None, 0)
    )
    return lambda batch: (plain if batch.weight is None else weighted)(stacked, batch)


class Losses(nn.Module):
    """Expose `losses` as `forward`, as `functional_call` requires."""

    def __init__(self, method: nn.Module) -> None:
        super().__init__()
        self.method = method

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return the losses by name."""
        return self.method.losses(batch)  # type: ignore[no-any-return, operator]


class SideBySide(nn.Module):
    """Apply several predictors to the same x."""

    def __init__(self, predictors: Sequence[nn.Module]) -> None:
        super().__init__()
        self.predictors = nn.ModuleList(predictors)

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs, [examples, predictors, ...]."""
        return torch.stack([predictor(x) for predictor in self.predictors], 1)


# -------------------------------------------------------------------------------- networks of linear layers
# The rows of all replicas are concatenated, and everything but linear layers computes row by row, as for one network.


class StackedLinear(nn.Module):
    """The linear layers of all replicas, applied to concatenated rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight, self.bias = weight, bias

    def forward(self, x: Tensor) -> Tensor:
        """Apply each replica's layer to its own rows, [replicas · rows, inputs]."""
        rows, weight = x.unflatten(0, (self.weight.shape[0], -1)), self.weight.mT  # type: ignore[no-untyped-call]
        y = torch.bmm(rows, weight) if self.bias is None else torch.baddbmm(self.bias.unsqueeze(1), rows, weight)
        return y.flatten(0, 1)


def computes_by_row(method: Method) -> bool:
    """Return whether the class of a method says so, and no subclass has overridden what it says that of."""
    deciding = [vars(kind) for kind in type(method).__mro__ if {"by_row", *REPLACEABLE} & vars(kind).keys()]
    return bool(deciding and deciding[0].get("by_row"))


def can_concatenate(method: Method) -> bool:
    """Return whether the losses of a method can be computed from concatenated rows."""
    own = {
        id(parameter) for module in method.modules() if type(module) is nn.Linear for parameter in module.parameters()
    }
    return (
        computes_by_row(method)
        and all(type(module) in BY_ROW for module in method.modules() if module is not method)
        and all(id(parameter) in own for parameter in method.parameters())
    )


@cache  # `torch.compile` makes code once per class
def stack_likelihood(likelihood: Likelihood, replicas: int) -> Likelihood:
    """Return a likelihood whose loss is one mean per replica."""

    class Stacked(type(likelihood)):  # type: ignore[misc]
        def loss(self, output: Tensor, y: Tensor, weight: Tensor | None = None) -> Tensor:
            losses = self.loss_per_annotation(output, y)
            losses = losses if weight is None else weight * losses
            return losses.reshape(replicas, -1).mean(1)  # type: ignore[no-any-return]

    return Stacked()


def concatenate_batch(batch: Batch, replicas: int) -> Batch:
    """Concatenate the rows of all replicas, each with its own examples."""
    assert isinstance(batch.x, Tensor)
    row = batch.row
    if not batch.one_to_one:
        first = batch.x.shape[1] * torch.arange(replicas, device=row.device)
        row = (first.unsqueeze(1) + row).flatten()
    x, a, y = (part.flatten(0, 1) for part in (batch.x, batch.a, batch.y))
    weight = None if batch.weight is None else batch.weight.flatten()
    return Batch(x, row, a, y, batch.one_to_one, weight)


def concatenate_losses(method: Method, stacked: Mapping[str, Tensor]) -> Callable[[Batch], dict[str, Tensor]]:
    """Make the function that maps stacked batches to the losses of every replica, [replicas]."""
    replicas = len(next(iter(stacked.values())))
    twin = copy.deepcopy(method)
    twin.likelihood = stack_likelihood(method.likelihood, replicas)
    for name, module in method.named_modules():
        if isinstance(module, nn.Linear):
            bias = None if module.bias is None else stacked[f"{name}.bias"]
            twin.set_submodule(name, StackedLinear(stacked[f"{name}.weight"], bias))
    noisy = [
        (one, other) for one, other in zip(method.modules(), twin.modules(), strict=True) if isinstance(one, nn.Dropout)
    ]

    def losses(batch: Batch) -> dict[str, Tensor]:
        for one, other in noisy:
            other.training = one.training
        return twin.losses(concatenate_batch(batch, replicas))

    return losses

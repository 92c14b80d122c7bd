"""Losses of replicas whose only parameters are those of linear layers, by batched matrix products and without vmap.

The rows of all replicas are concatenated, and everything but linear layers computes row by row, as for one network.
"""

import copy
from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor, nn

from lupi.data import Batch
from lupi.likelihoods import Likelihood
from lupi.methods.base import Method
from lupi.methods.tram import RandomPI
from lupi.nn import MLP, Projected, Tower

ACTIVATIONS = {nn.ReLU, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Dropout}
BY_ROW = {nn.Sequential, MLP, Projected, Tower, RandomPI, nn.Linear, nn.Identity, nn.Flatten} | ACTIVATIONS
"""Modules that compute each row from that row alone. Their subclasses may not."""
REPLACEABLE = {"losses", "conditional_output", "annotator_output", "targets", "forward"}
"""What a subclass may override so that it no longer computes by row."""


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
    for kind in type(method).__mro__:
        if "by_row" in vars(kind):
            return bool(vars(kind)["by_row"])
        if REPLACEABLE & vars(kind).keys():
            return False
    return False


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

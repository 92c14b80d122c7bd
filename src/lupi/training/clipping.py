"""Limit the norm of gradients, separately for losses that train different parameters."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lupi.methods.base import Method
from lupi.training.parts import belongs_to, name_parameters


def group_by_loss(method: Method) -> list[list[Tensor]]:
    """Group the parameters of a method by the losses that train them, according to its `gradients`.

    Losses that share a parameter form one group, since its gradient is a sum over them. Parameters that `gradients`
    does not mention form a separate group. The parameters of `Replicas` are the stacked ones.
    """
    one = method.replicas[0]
    groups: list[tuple[set[str], list[Tensor]]] = []
    for parameter, names in name_parameters(method):
        losses = {
            loss
            for loss, parts in getattr(one, "gradients", {}).items()
            if any(belongs_to(names, part) for part in parts)
        } or {""}
        group = [parameter]
        others = []
        for other in groups:
            if losses & other[0]:
                losses, group = losses | other[0], other[1] + group
            else:
                others.append(other)
        groups = [*others, (losses, group)]
    return [group for _, group in groups]


def clip_each(parameters: Sequence[Tensor], maximum: float) -> None:
    """Limit the norm of every replica's gradient, as `torch.nn.utils.clip_grad_norm_` does for one method."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return
    norms = [torch.linalg.vector_norm(gradient.reshape(gradient.shape[0], -1), dim=1) for gradient in gradients]
    factor = (maximum / (torch.linalg.vector_norm(torch.stack(norms), dim=0) + 1e-6)).clamp(max=1.0)  # [replicas]
    for gradient in gradients:
        gradient.mul_(factor.reshape(-1, *[1] * (gradient.ndim - 1)))

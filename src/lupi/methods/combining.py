"""Combine pairs of training inputs into new ones, on which a student imitates its teachers.

References
----------
Zhang et al., "mixup: Beyond empirical risk minimization" (ICLR 2018). Yun et al., "CutMix: Regularization strategy to
train strong classifiers with localizable features" (ICCV 2019).
"""

import torch
from torch import Tensor

from lupi.data import Annotations


def combine_inputs(data: Annotations, times: int, seed: int) -> tuple[Tensor, Tensor | None]:
    """Combine random pairs of annotated inputs, and return `times` combinations per example.

    A rectangle of one image is pasted into another; other inputs are interpolated. The weights of the inputs are
    averaged in the same proportions and returned too; they are None if the annotations have no weights.
    """
    assert isinstance(data.x, Tensor)
    generator, device = torch.Generator().manual_seed(seed), data.row.device
    example = data.annotated
    size = times * example.shape[0]
    pairs = torch.randint(example.shape[0], (2, size), generator=generator).to(device)
    first, second = (data.x.index_select(0, example[side]) for side in pairs)
    function = paste_rectangles if data.x.ndim == 4 else interpolate
    combined, share = function(first, second, generator)
    weight = data.weight_examples()
    if weight is not None:
        weight = torch.lerp(weight[pairs[0]], weight[pairs[1]], share.to(weight.dtype))
    return combined, weight


def interpolate(first: Tensor, second: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Interpolate at a random place between each pair, and return the share of the second too; integers are rounded."""
    share = torch.rand(first.shape[0], generator=generator).to(first.device)
    place = share.reshape(-1, *(1,) * (first.ndim - 1))
    if first.is_floating_point():
        return torch.lerp(first, second, place.to(first.dtype)), share
    return torch.lerp(first.float(), second.float(), place).round().to(first.dtype), share


def paste_rectangles(first: Tensor, second: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Paste a random rectangle of each second image into the first one, and return the share of its pixels too.

    The rectangle has the proportions of the image, a uniformly distributed area, and a centre anywhere in the image.
    What reaches beyond the edges is cut off.
    """
    side, *centres = torch.rand(3, first.shape[0], 1, generator=generator).to(first.device)
    side = side.sqrt()

    def cover(pixels: int, centre: Tensor) -> Tensor:
        place = (torch.arange(pixels, device=first.device) + 0.5) / pixels
        return torch.le((place - centre).abs(), side / 2)

    rows, columns = (cover(pixels, centre) for pixels, centre in zip(first.shape[2:], centres, strict=True))
    inside = rows[:, None, :, None] & columns[:, None, None, :]
    return torch.where(inside, second, first), inside.float().mean((1, 2, 3))

"""Cross-fitting: split examples into folds, so that each is predicted by a network that has not seen its labels."""

import torch
from torch import Tensor

from lupi.data import Annotations

MOST_EXAMPLES = 100_000
"""Examples to cross-fit on; the networks of all folds together predict the others."""


def assign_folds(data: Annotations, folds: int, seed: int) -> Tensor:
    """Assign annotated examples to folds at random, [examples]; the sizes of folds differ by at most one.

    Examples without annotations are in fold −1. So are all but `MOST_EXAMPLES`, chosen at random, of a large set: to
    train several networks on each of many folds would take hours, and these networks only say what labels are worth.

    Examples
    --------
    >>> data = Annotations(torch.eye(4), torch.tensor([0, 1, 1, 3]), torch.zeros(4, 0), torch.zeros(4))
    >>> assign_folds(data, 3, seed=0).sort().values
    tensor([-1,  0,  1,  2])
    """
    example, fold = data.annotated, data.row.new_full((data.examples,), -1)
    order = torch.randperm(example.shape[0], generator=torch.Generator().manual_seed(seed))
    order = order[:MOST_EXAMPLES].to(example.device)
    fold[example[order]] = torch.arange(order.shape[0], device=example.device) % folds
    return fold


def split_folds(data: Annotations, fold: Tensor, seed: int) -> tuple[list[Annotations], list[Annotations]]:
    """Return, for every fold, the annotations of the other folds and its own; those of fold −1 are left out.

    With n annotations and F folds, every set has n (F − 1)/F or n/F of them, rounded, since networks of all folds and
    seeds train as one stack only if their sets have one size. Larger sets drop annotations at random, and smaller ones
    repeat some: a few, if examples have similar numbers of labels.
    """
    of, folds = fold[data.row], int(fold.max()) + 1
    count = int((of >= 0).sum())
    each = max(1, round(count / folds))
    generator = torch.Generator().manual_seed(seed)

    def resize(chosen: Tensor, size: int) -> Annotations:
        index = chosen.nonzero().squeeze(1)
        if index.shape[0] != size:
            index = index[torch.randperm(index.shape[0], generator=generator).to(index.device)]
            index = index.repeat(-(-size // index.shape[0]))[:size].sort().values
        return data.take(index)

    others = [resize((of != number) & (of >= 0), count - each) for number in range(folds)]
    return others, [resize(of == number, each) for number in range(folds)]


def make_between(data: Annotations, times: int, seed: int) -> tuple[Tensor, Tensor | None]:
    """Return points at random places between random pairs of annotated inputs, `times` as many as examples.

    Points between images of 8-bit integers are rounded. With the points come their weights, which lie between those of
    the pairs, or None.
    """
    assert isinstance(data.x, Tensor)
    generator, device = torch.Generator().manual_seed(seed), data.row.device
    example = data.annotated
    size = times * example.shape[0]
    pairs = torch.randint(example.shape[0], (2, size), generator=generator).to(device)
    place = torch.rand(size, *(1,) * (data.x.ndim - 1), generator=generator).to(device)
    weight = data.weight_examples()
    if weight is not None:
        weight = torch.lerp(weight[pairs[0]], weight[pairs[1]], place.flatten().to(weight.dtype))
    first, second = (data.x.index_select(0, example[side]) for side in pairs)
    if first.is_floating_point():
        return torch.lerp(first, second, place.to(first.dtype)), weight
    return torch.lerp(first.float(), second.float(), place).round().to(first.dtype), weight

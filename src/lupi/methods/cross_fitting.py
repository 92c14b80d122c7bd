"""Cross-fitting: split examples into folds, to predict each with a network that was not trained on its labels."""

import torch
from torch import Tensor

from lupi.data import Annotations

MOST_EXAMPLES = 100_000
"""Maximum number of examples to cross-fit. The others are predicted by the networks of all folds together."""


def assign_folds(data: Annotations, folds: int, seed: int) -> Tensor:
    """Assign annotated examples to folds at random, [examples]; fold sizes differ by at most one.

    Examples without annotations are in fold −1. In a large data set, so are all but `MOST_EXAMPLES` examples, chosen at
    random: training several networks per fold on all of them would take hours, and these networks only serve to
    estimate how reliable the labels are.
    """
    example, fold = data.annotated, data.row.new_full((data.examples,), -1)
    order = torch.randperm(example.shape[0], generator=torch.Generator().manual_seed(seed))
    order = order[:MOST_EXAMPLES].to(example.device)
    fold[example[order]] = torch.arange(order.shape[0], device=example.device) % folds
    return fold


def split_folds(data: Annotations, fold: Tensor, seed: int) -> tuple[list[Annotations], list[Annotations]]:
    """Return, for each fold, the annotations of the other folds and those of the fold itself; fold −1 is left out.

    With n annotations and F folds, the sets have n (F − 1)/F and n/F annotations, rounded, because the networks of all
    folds and seeds can be stacked only if their training sets have the same size. Larger sets drop annotations at
    random, and smaller ones repeat some. If examples have similar numbers of labels, few annotations are affected.
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

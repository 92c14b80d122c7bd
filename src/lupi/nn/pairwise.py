"""Pairwise preferences: the Bradley–Terry model as a trunk.

Bradley and Terry, "Rank analysis of incomplete block designs: I. The method of paired comparisons" (Biometrika 1952).
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from lupi.likelihoods import Likelihood
from lupi.nn.inference import over_examples

TOLERANCE = 1e-4
"""Largest difference between P(a is preferred to b) and 1 − P(b is preferred to a) that is attributed to rounding."""


class Pairwise(nn.Module):
    r"""A trunk for pairs x = (a, b) whose features are f(a) − f(b), an odd function: swapping a and b flips the sign.

    Heads on it are linear and have no bias, so the logit of a method's predictor is w·f(a) − w·f(b) = r(a) − r(b) with
    the reward r = w·f, and P(a is preferred to b) = 1 − P(b is preferred to a) exactly. `extract_reward` returns r.

    Parameters
    ----------
    reward : Module
        f, which maps a batch of items to features [items, width]. With width 1, it is the reward up to scale and sign.

    Examples
    --------
    >>> from lupi.nn import MLP
    >>> trunk = Pairwise(MLP(3, (8,)))
    >>> x = torch.randn(5, 2, 3)  # five pairs of items with three features
    >>> trunk(x).shape, bool((trunk(x.flip(1)) == -trunk(x)).all())
    (torch.Size([5, 8]), True)
    """

    odd: ClassVar = True
    """Heads on this trunk have no bias."""

    def __init__(self, reward: nn.Module) -> None:
        super().__init__()
        self.reward = reward

    def forward(self, x: Tensor) -> Tensor:
        """Return f(a) − f(b) for pairs [n, 2, ...]."""
        if x.ndim < 3 or x.shape[1] != 2:
            raise ValueError(f"Expected pairs of items of shape [n, 2, ...], but got shape {list(x.shape)}.")
        first, second = self.reward(x.flatten(0, 1)).unflatten(0, (-1, 2)).unbind(1)
        return first - second  # type: ignore[no-any-return]


def extract_reward(predictor: nn.Module) -> nn.Sequential:
    """Return the reward r of a two-class predictor as a module that takes single items.

    r(a) − r(b) is the log-odds of the second class: of "a is preferred" if that is y = 1. Only differences of rewards
    are meaningful. The module shares all weights with the predictor except those of the last layer.

    Parameters
    ----------
    predictor : Module
        The predictor of a method with a `Pairwise` trunk, such as `predictor_` of an estimator.

    Examples
    --------
    >>> predictor = nn.Sequential(Pairwise(nn.Linear(3, 4)), nn.Linear(4, 2, bias=False))
    >>> reward, x = extract_reward(predictor), torch.randn(5, 2, 3)
    >>> logits = predictor(x)
    >>> torch.allclose(reward(x[:, 0]) - reward(x[:, 1]), logits[:, 1:] - logits[:, :1], atol=1e-6)
    True
    """
    match list(predictor.children()):
        case [Pairwise() as trunk, nn.Linear() as head]:
            pass
        case parts:
            got = ", ".join(type(part).__name__ for part in parts)
            raise ValueError(f"Expected `predictor` to be a linear head on a `Pairwise` trunk, but got {got}.")
    if head.out_features != 2:
        raise ValueError(f"Expected `predictor` to have two classes, but got {head.out_features}.")
    with torch.no_grad():
        last = nn.Linear(head.in_features, 1, bias=False, device=head.weight.device, dtype=head.weight.dtype)
        last.weight.copy_(head.weight[1:] - head.weight[:1])
    return nn.Sequential(trunk.reward, last)


def check_flips(predictor: nn.Module, likelihood: Likelihood, x: Tensor) -> None:
    """Raise a `ValueError` if swapping the items of pairs does not flip the probabilities of a predictor."""
    p, swapped = (likelihood.mean(over_examples(predictor, pairs).double()) for pairs in (x, x.flip(1)))
    if float((p + swapped - 1).abs().max()) > TOLERANCE:
        raise ValueError(
            "Expected a `method` that predicts with a linear head on the trunk, such as 'auto' or 'tram', since the "
            "trunk compares pairs, but swapping the items of a pair would not flip the predicted probability."
        )

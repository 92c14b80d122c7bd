"""The networks and data of the benchmarks."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Categorical
from lupi.methods import Method, build
from lupi.nn import MLP, Parts

Trunk = Literal["conv", "MLP"]
CLASSES = 10
INPUTS = {"conv": (3, 32, 32), "MLP": (60,)}
CATEGORIES = (80, 10, 10)
"""Privileged columns: an annotator and two quantile columns."""


def conv() -> nn.Module:
    """Make a trunk for 32 × 32 colour images: three blocks of convolution, normalization and pooling."""
    trunk, channels = nn.Sequential(), 3
    for width in (32, 64, 128):
        trunk.extend([nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)])
        channels = width
    return trunk.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten()])


def mlp() -> nn.Module:
    """Make a trunk for tables."""
    return MLP(INPUTS["MLP"][0], (64, 64))


def method(name: str, trunk: Trunk) -> Method:
    """Make a method on a trunk, with the same weights in every call."""
    torch.manual_seed(0)
    make, features = (conv, 128) if trunk == "conv" else (mlp, 64)
    parts = Parts(make, features=features, privileged=sum(CATEGORIES), outputs=CLASSES, likelihood=Categorical())
    return build(name, parts)


def draw_annotations(trunk: Trunk, examples: int, each: int = 1) -> Annotations:
    """Draw examples with `each` annotations each."""
    torch.manual_seed(0)
    rows = examples * each
    return Annotations(
        torch.randn(examples, *INPUTS[trunk]),
        torch.arange(examples).repeat_interleave(each),
        one_hot(rows, CATEGORIES),
        torch.randint(CLASSES, (rows,)),
    )


def one_hot(rows: int, categories: tuple[int, ...]) -> SparseRows:
    """Draw privileged information: a category of each column, one-hot."""
    drawn = torch.stack([torch.randint(count, (rows,)) for count in categories], 1)
    before = torch.cumsum(torch.tensor((0, *categories[:-1])), 0)
    return SparseRows((drawn + before).int(), torch.ones(drawn.shape), sum(categories))

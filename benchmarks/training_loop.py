"""`lupi.training.fit` against a hand-written loop for the same network, losses, data and optimizer."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.measure import Result, at_most, ratio
from benchmarks.networks import annotations, method
from lupi.data import SparseRows
from lupi.methods import TRAM, NoPI
from lupi.training import Settings, fit

BATCH, STEPS, ROUNDS = 64, 150, 30


def results() -> Iterator[Result]:
    data, settings = annotations("MLP", STEPS * BATCH), Settings(epochs=1, batch_size=BATCH)
    assert isinstance(data.x, Tensor)
    assert isinstance(data.a, SparseRows)
    x, a, y = data.x, data.a[torch.arange(len(data))], data.y

    ours, theirs = method("no-pi", "MLP"), method("no-pi", "MLP")
    assert isinstance(theirs, NoPI)
    network = nn.Sequential(theirs.trunk, theirs.marginal)
    value = ratio(lambda: fit(ours, data, settings), lambda: raw_no_pi(network, x, y), ROUNDS)
    yield at_most("fit / raw torch loop, No PI, 64-64 MLP", value, 1.15)

    ours, tram = method("tram", "MLP"), method("tram", "MLP")
    assert isinstance(tram, TRAM)
    value = ratio(lambda: fit(ours, data, settings), lambda: raw_tram(tram, x, a, y), ROUNDS)
    yield at_most("fit / raw torch loop, TRAM, 64-64 MLP", value, 1.15, "in the raw loop a is dense")

    value = ratio(lambda: raw_tram(tram, x, a, y), lambda: raw_no_pi(network, x, y), ROUNDS)
    yield at_most("raw torch loop, TRAM / No PI, 64-64 MLP", value, None)


def raw_no_pi(network: nn.Module, x: Tensor, y: Tensor) -> None:
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), eps=1e-7, fused=True)
    for index in torch.randperm(x.shape[0]).split(BATCH):
        loss = F.cross_entropy(network(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def raw_tram(network: TRAM, x: Tensor, a: Tensor, y: Tensor) -> None:
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), eps=1e-7, fused=True)
    for index in torch.randperm(x.shape[0]).split(BATCH):
        target = y[index]
        features = network.trunk(x[index])
        conditional = network.conditional(network.tower(features, a[index]))
        marginal = network.marginal(features.detach())
        loss = F.cross_entropy(marginal, target) + F.cross_entropy(conditional, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

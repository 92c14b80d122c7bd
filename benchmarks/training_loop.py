"""`lupi.training.fit` against a hand-written loop for the same network, losses, data and optimizer.

Five epochs measure the loop; one step measures what `fit` does before and after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.measure import Result, at_most, ratio
from benchmarks.networks import draw_annotations, method
from lupi.data import SparseRows
from lupi.methods import TRAM, NoPI
from lupi.settings import Settings
from lupi.training import fit

BATCH, STEPS, EPOCHS, ROUNDS = 64, 150, 5, 20


def results() -> Iterator[Result]:
    data, settings = draw_annotations("MLP", STEPS * BATCH), Settings(epochs=EPOCHS, batch_size=BATCH)
    assert isinstance(data.x, Tensor)
    assert isinstance(data.a, SparseRows)
    x, a, y = data.x, data.a[torch.arange(len(data))], data.y

    ours, theirs = method("no-pi", "MLP"), method("no-pi", "MLP")
    assert isinstance(theirs, NoPI)
    network = nn.Sequential(theirs.trunk, theirs.marginal)
    value = ratio(lambda: fit(ours, data, settings), lambda: raw_no_pi(network, x, y, EPOCHS), ROUNDS)
    yield at_most("fit / raw torch loop, No PI, 64-64 MLP", value, 1.15)
    one, step = draw_annotations("MLP", BATCH), Settings(epochs=1, batch_size=BATCH)
    value = ratio(lambda: fit(ours, one, step), lambda: raw_no_pi(network, x[:BATCH], y[:BATCH], 1), 10 * ROUNDS)
    yield at_most("fit / raw torch loop, a single step of No PI", value, None)

    ours, tram = method("tram", "MLP"), method("tram", "MLP")
    assert isinstance(tram, TRAM)
    value = ratio(lambda: fit(ours, data, settings), lambda: raw_tram(tram, x, a, y, EPOCHS), ROUNDS)
    yield at_most("fit / raw torch loop, TRAM, 64-64 MLP", value, 1.15, "in the raw loop a is dense")

    value = ratio(lambda: raw_tram(tram, x, a, y, 1), lambda: raw_no_pi(network, x, y, 1), ROUNDS)
    yield at_most("raw torch loop, TRAM / No PI, 64-64 MLP", value, None)


def raw_no_pi(network: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), eps=1e-7, fused=True)
    for index in chain.from_iterable(torch.randperm(x.shape[0]).split(BATCH) for _ in range(epochs)):
        loss = F.cross_entropy(network(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def raw_tram(network: TRAM, x: Tensor, a: Tensor, y: Tensor, epochs: int) -> None:
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), eps=1e-7, fused=True)
    for index in chain.from_iterable(torch.randperm(x.shape[0]).split(BATCH) for _ in range(epochs)):
        target = y[index]
        features = network.trunk(x[index])
        conditional = network.conditional(network.tower(features, a[index]))
        marginal = network.marginal(features.detach())
        loss = F.cross_entropy(marginal, target) + F.cross_entropy(conditional, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

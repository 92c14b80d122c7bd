"""Small training sets and methods, and other helpers of the training tests."""

import math
import os
import random

import numpy as np
import pytest
import torch
from torch import nn

from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import Method, build
from lupi.nn import MLP, Parts
from lupi.settings import Settings
from lupi.training.loop import StageLoop

SEED = 3


HOW = Settings(epochs=4, batch_size=8, learning_rate=0.01)
"""On `make_data()`: three steps in each of four epochs."""


def make_data(examples=11, annotations=23, seed=0, dtype=torch.float32):
    """Ragged: every example has an annotation, some have several; in no order."""
    generator = torch.Generator().manual_seed(seed)
    more = torch.randint(examples, (annotations - examples,), generator=generator)
    row = torch.cat([torch.arange(examples), more])[torch.randperm(annotations, generator=generator)]
    x = torch.randn(examples, 4, generator=generator, dtype=dtype)
    a = torch.randn(annotations, 3, generator=generator, dtype=dtype)
    return Annotations(x, row, a, torch.randint(3, (annotations,), generator=generator))


def make_parts(trunk=lambda: MLP(4, (8,)), features=8, likelihood=Categorical()):
    """Parts of a small network for `make_data`."""
    return Parts(trunk, features=features, privileged=3, outputs=3, likelihood=likelihood, tower_widths=(6, 5))


def make_method(name="tram", seed=1, width=8, **options):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build(name, make_parts(lambda: MLP(4, (width,)), width), **options)


def global_states():
    """The global random states of torch, numpy and Python."""
    return torch.get_rng_state().tolist(), str(np.random.get_state()), random.getstate()  # noqa: NPY002


def weights(method):
    return {name: value.clone() for name, value in method.state_dict().items()}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def shuffled(n, epoch, stage=0, seed=SEED):
    """The order of batches as it is documented: it follows from seed, stage and epoch."""
    entropy = np.random.SeedSequence((seed, stage, epoch)).generate_state(1)
    return torch.randperm(n, generator=torch.Generator().manual_seed(int(entropy[0])))


def rate_by_hand(how, time):
    rate = 1.0
    if how.warmup > time:
        rate = time / how.warmup
    if how.schedule == "step":
        for milestone in how.milestones:
            rate = rate * 0.1 if time >= milestone else rate
    if how.schedule == "cosine" and time > how.warmup:
        rate *= math.cos(math.pi / 2 * (time - how.warmup) / (how.epochs - how.warmup)) ** 2
    return rate


def tram_losses(tram, data, index):
    """The two losses of TRAM, annotation by annotation, in plain torch."""
    x, a, y = data.x[data.row[index]], data.a[index], data.y[index]
    phi = torch.relu(x @ tram.trunk[0].weight.T + tram.trunk[0].bias)
    hidden = torch.relu(a @ tram.tower.first.weight.T + tram.tower.first.bias)
    psi = torch.relu(torch.cat([hidden, phi], 1) @ tram.tower.second.weight.T + tram.tower.second.bias)
    conditional = psi @ tram.conditional.weight.T + tram.conditional.bias
    marginal = phi.detach() @ tram.marginal.weight.T + tram.marginal.bias
    each = torch.arange(len(y))
    return [-torch.log_softmax(logits, 1)[each, y].mean() for logits in (marginal, conditional)]


class Recorder(Method):
    """Writes down its batches; the gradient of its one weight is 1."""

    gradients = {"only": ("weight",)}  # noqa: RUF012

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.batches = []

    def losses(self, batch):
        self.batches.append(batch)
        return {"only": self.weight.sum()}

    def predictor(self):
        return nn.Identity()


def numbered(counts):
    """Annotations whose x, a and y are the numbers of their example and of themselves."""
    row = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    row = row[torch.randperm(len(row), generator=torch.Generator().manual_seed(0))]
    number = torch.arange(len(row))
    return Annotations(torch.arange(len(counts)).float()[:, None], row, number.float()[:, None], number)


class InterruptionError(Exception):
    pass


def interrupted(train, step, *arguments, **options):
    """Train, and break off before a step; return the history, or None, and the number of steps."""
    train_step, steps = StageLoop.train_step, []

    def counted(*state):
        if len(steps) == step:
            raise InterruptionError
        steps.append(state)
        train_step(*state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StageLoop, "train_step", counted)
        try:
            return train(*arguments, **options), len(steps)
        except InterruptionError:
            return None, len(steps)


def one_thread():
    return {**os.environ, "OMP_NUM_THREADS": "1"}

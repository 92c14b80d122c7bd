"""Trainings in threads give the same bits as one after the other, and no training changes the global random state."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from lupi import PrivilegedClassifier, methods
from lupi.estimators import fit_together
from tests.training.helpers import global_states

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype(np.float32)
ROWS = {"X": X, "y": RNG.integers(3, size=24), "privileged": RNG.integers(3, size=(24, 1)).astype(str)}
SEEDS = range(4)


class Trunk(nn.Sequential):
    """A trunk that draws from torch's global generators."""

    def __init__(self):
        super().__init__(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.3))


def train(method, seed, **options):
    model = PrivilegedClassifier(method, epochs=1, batch_size=8, random_state=seed, **options).fit(**ROWS)
    return model.method_.state_dict()


def compare(work):
    """Check that work for four seeds at once gives the same bits as one after the other, and different ones by seed."""
    before = global_states()
    expected = [work(seed) for seed in SEEDS]
    with ThreadPoolExecutor(len(SEEDS)) as pool:
        found = list(pool.map(work, SEEDS))
    assert global_states() == before
    for own, other in zip(found, expected, strict=True):
        for name, value in own.items():
            assert torch.equal(value, other[name]), name
    assert any(not torch.equal(value, expected[1][name]) for name, value in expected[0].items())


@pytest.mark.parametrize("method", methods.names())
def test_every_method(method):
    compare(lambda seed: train(method, seed, hidden=(8,)))


@pytest.mark.parametrize("method", ["tram", "het-tram"])
def test_a_trunk_that_draws_from_the_global_generators(method):
    compare(lambda seed: train(method, seed, trunk=Trunk))


@pytest.mark.parametrize("mixup", [0.0, 1.0])
def test_seeds_that_train_together(mixup):
    def work(seed):
        models = [
            PrivilegedClassifier(
                "het-tram", trunk=Trunk, epochs=1, random_state=10 * seed + number, training={"mixup": mixup}
            )
            for number in range(4)
        ]
        fit_together(models, [ROWS] * 4)
        return {f"{i} {k}": v for i, model in enumerate(models) for k, v in model.method_.state_dict().items()}

    compare(work)


def test_compiled_steps(monkeypatch):
    """Compiled code draws from the global generators, which one thread at a time lends the state of its own."""
    torch.compiler.reset()
    plain = torch.compile
    monkeypatch.setattr(torch, "compile", lambda losses, **options: plain(losses, backend="eager", **options))
    try:
        compare(lambda seed: train("het-tram", seed, trunk=Trunk, training={"compile": True}))
    finally:
        torch.compiler.reset()


def test_the_noise_of_a_foreign_module_is_redirected_in_every_step():
    """Not in the first step alone, which shows whether there is any."""
    drawn = []

    class Watch(nn.Linear):
        def forward(self, x):
            if self.training:
                drawn.append(torch.rand(()).item())
            return super().forward(x)

    states = []
    for _ in range(2):
        drawn.clear()
        torch.rand(7)  # the global state differs
        train("no-pi", 0, trunk=lambda: Watch(3, 4))
        states.append(list(drawn))
    assert states[0] == states[1]
    assert len(set(drawn)) == len(drawn) == 3

"""Trainings in threads of one process take turns, and no training changes the global random state."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from lupi import PrivilegedClassifier
from tests.training.helpers import global_states

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3)).astype(np.float32)
ROWS = {"X": X, "y": RNG.integers(3, size=24), "privileged": RNG.integers(3, size=(24, 1)).astype(str)}


class Trunk(nn.Sequential):
    """A trunk that draws from torch's global generators."""

    def __init__(self):
        super().__init__(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.3))


def train(method, seed):
    model = PrivilegedClassifier(method, trunk=Trunk, epochs=1, batch_size=8, random_state=seed).fit(**ROWS)
    return model.method_.state_dict()


@pytest.mark.parametrize("method", ["het-tram", "two-step-tram", "auto"])
def test_a_fit_in_a_thread_equals_the_fit_alone(method):
    before = global_states()
    alone = [train(method, seed) for seed in range(2)]
    assert global_states() == before
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda seed: train(method, seed), range(2)))
    assert global_states() == before
    for one, other in zip(alone, together, strict=True):
        assert one.keys() == other.keys()
        assert all(torch.equal(value, other[name]) for name, value in one.items())
    assert any(not torch.equal(value, alone[1][name]) for name, value in alone[0].items())


def test_a_fit_that_fails_restores_the_random_state():
    class Broken(Trunk):
        def forward(self, x):
            if self.training:
                raise RuntimeError("broken")
            return super().forward(x)

    before = global_states()
    with pytest.raises(RuntimeError, match="broken"):
        PrivilegedClassifier("no-pi", trunk=Broken, epochs=1, random_state=0).fit(**ROWS)
    assert global_states() == before
    train("no-pi", 0)  # the lock is free again


def test_noise_of_a_module_follows_from_the_seed_and_differs_between_steps():
    drawn = []

    class Watch(nn.Linear):
        def forward(self, x):
            if self.training:
                drawn.append(torch.rand(()).item())
            return super().forward(x)

    for _ in range(2):
        torch.rand(7)  # the global state differs
        PrivilegedClassifier("no-pi", trunk=lambda: Watch(3, 4), epochs=1, batch_size=8, random_state=0).fit(**ROWS)
    assert drawn[:3] == drawn[3:]
    assert len(set(drawn)) == 3

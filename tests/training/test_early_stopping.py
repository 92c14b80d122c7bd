"""Early stopping: training ends when the held-out loss stops falling, with the best weights."""

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi.methods import Method
from lupi.settings import Settings
from lupi.training import fit
from tests.training.helpers import SEED, assert_equal, make_data, make_method, numbered, weights


class Scripted(Method):
    """In training its weight falls by the learning rate at each step; held out, its losses follow a script."""

    gradients = {"marginal": ("weight",)}  # noqa: RUF012

    def __init__(self, script):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.script, self.epoch = script, 0

    def losses(self, batch):  # noqa: ARG002
        if self.training:
            return {name: self.weight.sum() / len(self.script) for name in self.script}
        self.epoch += 1
        return {name: torch.tensor(values[self.epoch - 1]) for name, values in self.script.items()}

    def predictor(self):
        return nn.Identity()


def stop_by_hand(watched, patience):
    """Where training stops, and the epoch whose weights it keeps."""
    best = None
    for epoch, loss in enumerate(watched):
        if not math.isnan(loss) and (best is None or loss < watched[best]):
            best = epoch
        if epoch - (-1 if best is None else best) >= patience:
            break
    return epoch, epoch if best is None else best


@given(
    st.lists(st.tuples(*[st.sampled_from([0.25, 0.5, 1.0, 2.0, math.nan])] * 2), min_size=1, max_size=12),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_early_stopping_keeps_the_best_weights(losses, patience, has_marginal):
    first, second = (list(values) for values in zip(*losses, strict=True))
    method = Scripted({"penalty": second, "marginal" if has_marginal else "conditional": first})
    watched = first if has_marginal else [a + b for a, b in losses]
    last, best = stop_by_hand(watched, patience)
    data = numbered([1] * 6)
    how = Settings(epochs=len(losses), batch_size=3, optimizer=torch.optim.SGD, learning_rate=0.5, patience=patience)
    history = fit(method, data, how, validation=data)
    assert len(history) == last + 1
    seen = [row["validation_marginal" if has_marginal else "validation_conditional"] for row in history]
    assert seen == pytest.approx(first[: last + 1], nan_ok=True)
    assert method.weight.item() == -0.5 * 2 * (best + 1)  # two steps in an epoch


def learnable(data):
    """Labels that follow from x, one in three of them wrong."""
    clean = (data.x @ torch.linspace(-1, 1, 12).reshape(3, 4).T.sin()).argmax(1)[data.row]
    return dataclasses.replace(data, y=torch.where(torch.arange(len(data)) % 3 == 0, data.y, clean))


def test_early_stopping_of_a_network():
    """The weights of the best epoch, those of a run that ends there."""
    data, held_out = (learnable(make_data(60, 90, seed)) for seed in (0, 7))
    how = Settings(epochs=60, learning_rate=0.05, batch_size=8, patience=3)
    method = make_method()
    history = fit(method, data, how, validation=held_out, seed=SEED)
    losses = [row["validation_marginal"] for row in history]
    best = int(np.argmin(losses))
    assert 0 < best == len(history) - 4 < 56
    shorter = make_method()
    fit(shorter, data, dataclasses.replace(how, epochs=best + 1, patience=None), seed=SEED)
    assert_equal(weights(method), weights(shorter))
    loss = F.cross_entropy(method.predictor()(held_out.x)[held_out.row], held_out.y)
    assert loss.item() == pytest.approx(losses[best], rel=1e-5)


def test_early_stopping_in_every_stage():
    data, held_out = (learnable(make_data(60, 90, seed)) for seed in (0, 7))
    how = Settings(epochs=60, learning_rate=0.02, batch_size=8, patience=2)
    history = fit(make_method("two-step-tram"), data, how, validation=held_out)
    for stage, name in (("transfer", "validation_conditional"), ("marginalize", "validation_marginal")):
        losses = [row[name] for row in history if row["stage"] == stage]
        assert 0 < int(np.argmin(losses)) == len(losses) - 3 < 57


def test_progress_of_a_training_that_stops_early(capsys):
    data = numbered([1] * 6)
    method = Scripted({"marginal": [1.0, 2.0, 2.0, 0.0]})
    fit(method, data, Settings(epochs=4, batch_size=3, patience=2), validation=data, progress=True)
    line = "train epoch 3/4 train_marginal -0.0045, validation_marginal 2.0000 (6/8, "
    (shown,) = capsys.readouterr().err.splitlines()
    assert shown.startswith(line)

"""A batch in parts: the step equals that of the whole batch."""

import copy
import dataclasses

import pytest
import torch

from lupi.training import Checkpoint, Replicas, StackedAnnotations, fit
from tests.training.helpers import (
    HOW,
    SEED,
    Recorder,
    assert_equal,
    interrupted,
    make_data,
    make_method,
    numbered,
    weights,
)


def weighted(data):
    return dataclasses.replace(data, weight=torch.linspace(0.1, 3, len(data), dtype=torch.float64))


@pytest.mark.parametrize("draw", ["annotations", "examples"])
@pytest.mark.parametrize("parts", [2, 3, 5, 100])
@pytest.mark.parametrize("weigh", [lambda data: data, weighted])
@pytest.mark.parametrize("name", ["tram", "pi-dual"])
def test_the_step_is_that_of_the_whole_batch(draw, parts, weigh, name):
    """Examples have from one to five annotations, so parts differ in size."""
    how = dataclasses.replace(HOW, draw=draw, clip=0.5)
    data = weigh(make_data(dtype=torch.float64))
    whole, split = (make_method(name).double() for _ in range(2))
    expected = fit(whole, data, how, seed=SEED)
    history = fit(split, data, dataclasses.replace(how, accumulate=parts), seed=SEED)
    torch.testing.assert_close(weights(split), weights(whole), rtol=1e-6, atol=1e-9)
    for row, other in zip(history, expected, strict=True):
        for name in ("stage", "device", "execution"):
            assert row.pop(name) == other.pop(name)
        assert row == pytest.approx(other, rel=1e-6)


@pytest.mark.parametrize("draw", ["annotations", "examples"])
def test_replicas_in_parts(draw):
    how = dataclasses.replace(HOW, draw=draw)
    data = weighted(make_data(annotations=11, dtype=torch.float64))
    sets = StackedAnnotations([data, dataclasses.replace(data, y=data.y.flip(0))])
    whole = Replicas([make_method(seed=seed).double() for seed in range(2)])
    split = copy.deepcopy(whole)
    fit(whole, sets, how, seed=[0, 1])
    fit(split, sets, dataclasses.replace(how, accumulate=3), seed=[0, 1])
    torch.testing.assert_close(weights(split), weights(whole), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("draw", ["annotations", "examples"])
def test_parts_are_a_partition_by_example(draw):
    data, recorder = numbered([1, 4, 2, 1, 3]), Recorder()
    fit(recorder, data, dataclasses.replace(HOW, epochs=1, batch_size=100, draw=draw, accumulate=2))
    first, second = recorder.batches
    assert [first.x.shape[0], second.x.shape[0]] == [3, 2]
    assert sorted(first.y.tolist() + second.y.tolist()) == list(range(11))
    for part in recorder.batches:
        assert torch.equal(part.x[part.row, 0].long(), data.row[part.y])
        assert torch.equal(part.a[:, 0].long(), part.y)


def test_a_resumed_training_in_parts(tmp_path):
    how = dataclasses.replace(HOW, accumulate=2)
    whole, resumed = make_method(), make_method()
    fit(whole, make_data(), how, seed=SEED)
    checkpoint = Checkpoint(tmp_path / "run.pt", every=1)
    interrupted(fit, 5, make_method(), make_data(), how, seed=SEED, checkpoint=checkpoint)
    fit(resumed, make_data(), how, seed=SEED, checkpoint=checkpoint)
    assert_equal(weights(resumed), weights(whole))

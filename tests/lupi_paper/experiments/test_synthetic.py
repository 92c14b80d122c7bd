import numpy as np
import pytest
import torch
from torch import nn

from lupi.data import Batch
from lupi.likelihoods import Gaussian
from lupi_paper.experiments.synthetic import (
    VARIANTS,
    Protocol,
    compute_features,
    draw_samples,
    learn_representations,
    make_grid,
    make_privileged,
    make_representation,
)


@pytest.mark.parametrize("variant", VARIANTS)
def test_glorot_weights_and_zero_biases(variant):
    made = make_representation(variant, Gaussian(), Protocol(), 3)
    for layer in (module for module in made.modules() if isinstance(module, nn.Linear)):
        bound = np.sqrt(6 / (layer.in_features + layer.out_features))
        assert 0.9 * bound < layer.weight.abs().max() <= bound
        assert (layer.bias == 0).all()
    assert [type(module) for module in made.trunk] == [nn.Linear, nn.Tanh, nn.Linear, nn.Tanh]
    own = make_representation(variant, Gaussian(), Protocol(initialization="torch"), 3)
    assert (own.trunk[0].bias != 0).any()


def test_the_same_seed_is_the_same_network_and_leaves_no_trace():
    state = torch.get_rng_state()
    first, again, other = (make_representation("PI", Gaussian(), Protocol(), seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.head[0].weight, again.head[0].weight)
    assert not torch.equal(first.head[0].weight, other.head[0].weight)


def test_the_loss_is_of_the_head_on_both():
    made = make_representation("PI", Gaussian(), Protocol(), 0)
    x, a, y = torch.rand(6, 1), torch.ones(6, 1), torch.randn(6)
    loss = made.losses(Batch(x, torch.arange(6), a, y))["conditional"]
    w1, b1, w2, b2 = (parameter.detach().numpy() for parameter in made.head.parameters())
    inner = np.concatenate([made.trunk(x).detach().numpy(), a.numpy()], 1)
    output = np.tanh(inner @ w1.T + b1) @ w2.T + b2
    expected = 0.5 * ((y.numpy() - output[:, 0]) ** 2 + np.log(2 * np.pi)).mean()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_what_the_head_sees():
    (sample,) = draw_samples(500, 0.1, [0])
    seen = {variant: make_privileged(variant, sample, 7) for variant in VARIANTS}
    assert seen["no PI"].shape == (500, 0)
    assert (seen["PI"][:, 0] == sample.a).all()
    assert (seen["zeros"] == 0).all()
    assert seen["shuffled"].sum() == sample.a.sum()
    assert (seen["shuffled"][:, 0] != sample.a).any()
    assert abs(np.corrcoef(seen["noise"][:, 0], sample.a)[0, 1]) < 0.15
    assert (make_privileged("noise", sample, 7) == seen["noise"]).all()
    assert (make_privileged("noise", sample, 8) != seen["noise"]).any()


def test_samples_are_of_their_seed_alone():
    first, second = draw_samples(50, 0.1, [3, 4])
    (again,) = draw_samples(50, 0.1, [4])
    assert (second.x == again.x).all()
    assert (first.x != second.x).any()


def test_seeds_learn_together_what_each_learns_alone():
    """Four seeds are replicas, one is not."""
    seeds, how = [0, 1, 2, 3], Protocol(epochs=2)
    samples = draw_samples(100, 0.1, seeds)
    targets = [sample.y for sample in samples]
    together = learn_representations("PI", samples, targets, Gaussian(), how, seeds)
    (alone,) = learn_representations("PI", samples[2:3], targets[2:3], Gaussian(), how, [2])
    x = make_grid((0.0, 1.0), 20)
    assert compute_features(together[2], x) == pytest.approx(compute_features(alone, x), abs=1e-5)
    start = make_representation("PI", Gaussian(), how, 2).trunk
    assert np.abs(compute_features(alone, x) - compute_features(start, x)).max() > 1e-2


def test_the_grid_is_of_middles():
    assert make_grid((-2.0, 2.0), 4).tolist() == [-1.5, -0.5, 0.5, 1.5]


@pytest.mark.parametrize(("name", "value"), [("initialization", "keras"), ("head", "sine")])
def test_other_protocols_are_refused(name, value):
    with pytest.raises(ValueError, match=f"^Expected `{name}` to be '.*' or '.*', but got '{value}'.$"):
        Protocol(**{name: value})

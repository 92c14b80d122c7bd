"""Mixup: what is mixed, with which weights, and that training with it is still one of its kind."""

import copy
import dataclasses

import numpy as np
import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi import methods, testing
from lupi._internal.devices import evaluation
from lupi.data import Batch
from lupi.likelihoods import Bernoulli, Categorical, Gaussian
from lupi.methods import NoPI
from lupi.settings import Settings
from lupi.training import Checkpoint, fit
from lupi.training.mixup import Mixup, draw_weights
from tests.training.helpers import (
    HOW,
    SEED,
    Recorder,
    assert_equal,
    interrupted,
    make_data,
    make_method,
    numbered,
    shuffled,
    weights,
)
from tests.training.replica_helpers import assert_as_alone, crowd, make_members, make_sets

CASES = [
    pytest.param(name, likelihood, id=f"{name}-{type(likelihood).__name__}")
    for name in methods.names()
    for likelihood in (Categorical(), Bernoulli(), Gaussian())
    if isinstance(likelihood, methods.kind(name).likelihoods)
]


def partner_of(n):
    return torch.tensor([(i + n // 2) % n for i in range(n)])


def mixed_by_hand(batch, weight):
    """The mixed batch, and both labels."""
    other = partner_of(len(batch.y))
    x = batch.x[batch.row]
    x, a = weight * x + (1 - weight) * x[other], weight * batch.a + (1 - weight) * batch.a[other]
    return Batch(x, torch.arange(len(x)), a, batch.y), batch.y[other]


@pytest.mark.parametrize(("name", "likelihood"), CASES)
def test_losses_equal_the_formula(name, likelihood):
    """Two losses at one mixed point, weighted; for the methods of all stages, with several labels of an example."""
    data = testing.make_data(likelihood)
    method = testing.make_method(lambda parts: methods.build(name, parts), likelihood)
    for trained, batch in testing.iterate_stages(method, data):
        with evaluation(trained):
            for weight in (0.0, 0.3, 1.0):
                losses = Mixup(trained, 0).losses(batch, torch.tensor(weight))
                by_hand, other = mixed_by_hand(batch, weight)
                own, others = trained.losses(by_hand), trained.losses(by_hand._replace(y=other))
                expected = {name: weight * own[name] + (1 - weight) * others[name] for name in own}
                torch.testing.assert_close(losses, expected)


@given(st.floats(0, 1), st.integers(1, 9), st.sampled_from([Categorical(), Bernoulli(), Gaussian()]))
@settings(max_examples=40, deadline=None)
def test_mixing_losses_mixes_y(weight, n, likelihood):
    """Where the loss is linear in y; a Gaussian's differs by a constant, and so has the same gradient."""
    data = testing.make_data(likelihood)
    method = testing.make_method(lambda parts: methods.build("no-pi", parts), likelihood)
    batch = data.by_annotation(torch.arange(n))
    (mixed,) = Mixup(method, 0).losses(batch, torch.tensor(weight)).values()
    y = likelihood.target(batch.y, 3)
    y = weight * y + (1 - weight) * y[partner_of(n)]
    (expected,) = method.losses(mixed_by_hand(batch, weight)[0]._replace(y=y)).values()
    if not isinstance(likelihood, Gaussian):
        torch.testing.assert_close(mixed, expected)
    parameters = list(method.parameters())
    torch.testing.assert_close(torch.autograd.grad(mixed, parameters), torch.autograd.grad(expected, parameters))


@given(st.integers(1, 12), st.sampled_from([0.0, 1.0]))
@settings(max_examples=20, deadline=None)
def test_a_weight_of_0_or_1_mixes_nothing(n, weight):
    """The mean over a batch is the same in any order."""
    method, batch = make_method(), make_data().by_annotation(torch.arange(n))
    torch.testing.assert_close(Mixup(method, 0).losses(batch, torch.tensor(weight)), method.losses(batch))


@pytest.mark.parametrize("alpha", [0.4, 1.0, 8.0])
def test_weights_have_the_beta_distribution(alpha):
    drawn = draw_weights(alpha, 5000, (SEED, 0, 0)).double().numpy()
    assert scipy.stats.kstest(drawn, scipy.stats.beta(alpha, alpha).cdf).pvalue > 0.01
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.05
    assert not np.array_equal(drawn, draw_weights(alpha, 5000, (SEED, 0, 1)).numpy())


def test_training_tends_to_that_without_mixup():
    """With α → 0, λ is 0 or 1."""
    assert set(draw_weights(1e-7, 500, (0,)).tolist()) == {0.0, 1.0}
    data = make_data(dtype=torch.float64)
    for draw in ("annotations", "examples"):
        how = dataclasses.replace(HOW, draw=draw, optimizer="sgd", learning_rate=0.1)
        plain, mixed = make_method().double(), make_method().double()
        fit(plain, data, how)
        fit(mixed, data, dataclasses.replace(how, mixup=1e-7))
        for name, value in weights(plain).items():
            torch.testing.assert_close(mixed.state_dict()[name], value, rtol=0, atol=1e-10)
        fit(mixed, data, dataclasses.replace(how, mixup=0.5))
        assert not torch.allclose(mixed.trunk[0].weight, plain.trunk[0].weight, atol=1e-3)


def test_fit_equals_a_loop_written_by_hand():
    """λ follows from seed, stage, epoch and step."""
    data = make_data(dtype=torch.float64)
    model = nn.Linear(4, 3).double()
    method = NoPI(nn.Identity(), copy.deepcopy(model))
    how = Settings(epochs=3, batch_size=6, optimizer="sgd", momentum=0, learning_rate=0.5, mixup=0.7)
    for epoch in range(3):
        rng = np.random.default_rng(np.random.SeedSequence((SEED, 0, epoch), spawn_key=(1,)))
        lambdas = rng.beta(0.7, 0.7, 4).astype(np.float32)
        for index, weight in zip(shuffled(23, epoch).split(6), lambdas.tolist(), strict=True):
            x, y = data.x[data.row[index]], F.one_hot(data.y[index], 3).double()
            other = partner_of(len(index))
            x, y = (weight * value + (1 - weight) * value[other] for value in (x, y))
            gradients = torch.autograd.grad(-(y * torch.log_softmax(model(x), 1)).sum(1).mean(), model.parameters())
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter -= 0.5 * gradient
    fit(method, data, how, seed=SEED)
    for one, other in zip(method.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)  # λ has 32 bits


@pytest.mark.parametrize(
    "name", [name for name in methods.names() if name not in ("het-tram", "heteroscedastic-dropout")]
)
def test_replicas_are_the_seeds_trained_alone(name):
    """Every replica has its own pairs and λ, which do not depend on the others."""
    assert_as_alone(make_members(name), make_sets(), Settings(epochs=2, batch_size=12, learning_rate=0.01, mixup=0.4))


@pytest.mark.parametrize("likelihood", [Bernoulli(), Gaussian()])
def test_replicas_of_other_likelihoods(likelihood):
    how = Settings(epochs=2, batch_size=12, learning_rate=0.01, mixup=0.4)
    for name in ("tram", "distilled-tram"):
        assert_as_alone(make_members(name, likelihood), make_sets(likelihood), how)


def test_replicas_that_draw_examples():
    how = Settings(epochs=2, batch_size=4, learning_rate=0.01, mixup=0.4, draw="examples")
    assert_as_alone(make_members(), [crowd(seed) for seed in range(3)], how)


def test_the_trunk_runs_once_and_sees_each_annotation_once():
    """So batch norm has the statistics of the mixed points."""
    torch.manual_seed(0)
    seen, norm = [], nn.BatchNorm1d(4)
    norm.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    fit(NoPI(norm, nn.Linear(4, 3)), make_data(), Settings(epochs=1, batch_size=23, mixup=1.0), seed=SEED)
    assert [value.shape for value in seen] == [(23, 4)]
    data, index = make_data(), shuffled(23, 0)
    weight = draw_weights(1.0, 1, (SEED, 0, 0))
    x = data.x[data.row[index]]
    torch.testing.assert_close(seen[0], weight * x + (1 - weight) * x[partner_of(23)])
    torch.testing.assert_close(norm.running_mean, 0.1 * seen[0].mean(0))
    assert norm.num_batches_tracked == 1


def test_noise_is_that_of_one_point():
    """A dropped feature is dropped for both labels."""
    torch.manual_seed(0)
    method = NoPI(nn.Dropout(0.5), nn.Linear(4, 3)).train()
    batch = make_data().by_annotation(torch.arange(8))._replace(y=torch.zeros(8, dtype=torch.long))
    torch.manual_seed(1)
    (mixed,) = Mixup(method, 0).losses(batch, torch.tensor(0.25)).values()
    torch.manual_seed(1)
    (expected,) = method.losses(mixed_by_hand(batch, 0.25)[0]).values()
    torch.testing.assert_close(mixed, expected)


def test_losses_still_train_their_own_parameters():
    """The partition of TRAM."""
    tram, batch = make_method(), make_data().by_annotation(torch.arange(9))
    for name, parts in tram.gradients.items():
        tram.zero_grad()
        Mixup(tram, 0).losses(batch, torch.tensor(0.3))[name].backward()
        reached = {key.split(".")[0] for key, value in tram.named_parameters() if value.grad is not None}
        assert reached == set(parts)


@pytest.mark.parametrize(("name", "step"), [("tram", 5), ("het-tram", 7), ("distilled-tram", 17)])
def test_a_resumed_run_gives_the_same_bits(name, step, tmp_path):
    how = dataclasses.replace(HOW, mixup=0.5, patience=9, checks=3, clip=1.0)
    data, held_out, checkpoint = make_data(), make_data(seed=5), Checkpoint(tmp_path / "run.pt", every=2)
    whole, method, again = make_method(name), make_method(name), make_method(name, seed=2)
    history = fit(whole, data, how, validation=held_out)
    options = {"validation": held_out, "checkpoint": checkpoint}
    assert interrupted(fit, step, method, data, how, **options) == (None, step)
    assert fit(again, data, how, **options) == history
    assert_equal(weights(whole), weights(again))


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8])
def test_integers_cannot_be_mixed(kind):
    data = make_data()
    tokens = dataclasses.replace(data, x=torch.ones(11, 4, dtype=kind))
    method = NoPI(nn.Sequential(nn.Embedding(3, 2), nn.Flatten()), nn.Linear(8, 3))
    with pytest.raises(ValueError, match=f"`x` to be floating-point with `mixup`.*{kind}"):
        fit(method, tokens, Settings(epochs=1, mixup=0.2))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=10),
    st.integers(1, 8),
    st.sampled_from(["annotations", "examples"]),
)
@settings(max_examples=30, deadline=None)
def test_every_annotation_is_mixed_as_often_as_drawn(counts, size, draw):
    """In an epoch, each is once a first and once a partner: the sums of x and a are those of the data."""
    data, method = numbered(counts), Recorder()
    fit(method, data, Settings(epochs=1, batch_size=size, draw=draw, mixup=1.0))
    assert all(batch.one_to_one for batch in method.batches)
    assert sum(len(batch.x) for batch in method.batches) == len(data)
    if size >= len(data):
        (batch,) = method.batches
        assert batch.x.sum().item() == pytest.approx(data.x[data.row].sum().item(), rel=1e-5)
        assert batch.a.sum().item() == pytest.approx(data.a.sum().item(), rel=1e-5)

"""Learning rates per part, and parts that do not train."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

from lupi.methods import NoPI
from lupi.methods.label_posterior import LabelPosterior
from lupi.settings import Settings
from lupi.training import Checkpoint, Replicas, StackedAnnotations, fit
from tests.training.helpers import (
    HOW,
    SEED,
    assert_equal,
    interrupted,
    make_data,
    make_method,
    rate_by_hand,
    shuffled,
    tram_losses,
    weights,
)

RATES = {"trunk": 0.01, "tower": 0.2, "tower.second": 0.3}


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_every_part_has_its_rate(decay):
    """Plain gradient descent with warmup and cosine, by hand."""
    how = Settings(
        epochs=3,
        batch_size=8,
        optimizer=torch.optim.SGD,
        learning_rate=0.1,
        learning_rates=RATES,
        weight_decay=decay,
    )
    how = dataclasses.replace(how, schedule="cosine", warmup=1.5)
    data, tram = make_data(dtype=torch.float64), make_method().double()
    hand = copy.deepcopy(tram)
    history = fit(tram, data, how, seed=SEED)
    for epoch in range(3):
        for step, index in enumerate(torch.split(shuffled(len(data), epoch), 8)):
            named = dict(hand.named_parameters())
            gradients = torch.autograd.grad(sum(tram_losses(hand, data, index)), named.values())
            factor = rate_by_hand(how, epoch + step / 3)
            with torch.no_grad():
                for (name, value), gradient in zip(named.items(), gradients, strict=True):
                    rate = {"trunk": 0.01, "tower": 0.2}.get(name.split(".")[0], 0.1)
                    rate = 0.3 if name.startswith("tower.second") else rate
                    value -= factor * rate * (gradient + decay * value * (value.ndim > 1))
        assert history[epoch]["learning_rate"] == pytest.approx(0.1 * factor)  # that of all other parts
    torch.testing.assert_close(weights(tram), weights(hand), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_replicas_have_the_rates_of_methods_that_train_alone(optimizer):
    how = dataclasses.replace(HOW, optimizer=optimizer, learning_rates={"trunk": 0.0, "tower": 0.02}, l2=0.01)
    data, alone = make_data(dtype=torch.float64), [make_method(seed=seed).double() for seed in range(2)]
    together = copy.deepcopy(alone)
    for seed, member in enumerate(alone):
        fit(member, data, how, seed=seed)
    fit(Replicas(together), StackedAnnotations([data, data]), how, seed=[0, 1])
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(weights(one), weights(other), rtol=1e-6, atol=1e-9)
        assert all(parameter.requires_grad for parameter in one.parameters())


def test_networks_of_stages_have_the_same_parts(monkeypatch):
    """The folds' networks and the student of a label posterior have a trunk of their own; here it is frozen."""
    made, make_networks = [], LabelPosterior.make_networks

    def noted(*arguments):
        networks = make_networks(*arguments)
        made.extend((network, weights(network)) for network in networks)
        return networks

    monkeypatch.setattr(LabelPosterior, "make_networks", noted)
    method = make_method("auto", methods=["no-pi", "tram"], folds=2)
    made.append((method.student, weights(method.student)))
    fit(method, make_data(), dataclasses.replace(HOW, learning_rates={"trunk": 0, "tower": 0.01}), seed=SEED)
    assert len(made) == 5
    for network, start in made:
        for name, value in network.named_parameters():
            assert torch.equal(value, start[name]) == name.startswith("trunk"), name


@pytest.mark.parametrize(
    ("name", "part", "parts"),
    [
        ("tram", "head", "conditional, marginal, tower, trunk"),
        ("tram", "trunk.1", "conditional, marginal, tower, trunk"),
        ("tram", "tru", "conditional, marginal, tower, trunk"),
        ("no-pi", "tower", "marginal, trunk"),
        ("label-posterior", "tower", "marginal, student, trunk"),
    ],
)
def test_a_part_that_is_not_there(name, part, parts):
    expected = f"^Expected `learning_rates` to name parts of the method, among {parts}, but got '{part}'.$"
    with pytest.raises(ValueError, match=expected):
        fit(make_method(name), make_data(), dataclasses.replace(HOW, learning_rates={"trunk": 0.1, part: 0.1}))


def make_frozen_candidate():
    """A trunk with batch norm without weights of its own and with dropout; a head."""
    torch.manual_seed(0)
    trunk = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8, affine=False), nn.Dropout(0.5), nn.ReLU())
    return NoPI(trunk, nn.Linear(8, 3))


@pytest.mark.parametrize("how", [HOW, dataclasses.replace(HOW, learning_rates={"trunk": 0.0})])
def test_a_frozen_trunk_is_a_fixed_function(how):
    """Training equals that of the head alone on the trunk's features."""
    method, data = make_frozen_candidate(), make_data()
    if how.learning_rates is None:
        method.trunk.requires_grad_(False)
    start, head = weights(method.trunk), NoPI(nn.Identity(), copy.deepcopy(method.marginal))
    with torch.no_grad():
        features = method.trunk.eval()(data.x)
    seen = []
    history = fit(
        method.train(), data, how, seed=SEED, callbacks=[lambda _, own: seen.append(own.trunk[0].weight.grad)]
    )
    expected = fit(head, dataclasses.replace(data, x=features), HOW, seed=SEED)
    assert seen == [None] * 4
    assert_equal(weights(method.trunk), start)
    torch.testing.assert_close(weights(method.marginal), weights(head.marginal), rtol=1e-4, atol=1e-6)
    assert history[-1]["train_marginal"] == pytest.approx(expected[-1]["train_marginal"], rel=1e-5)
    assert method.trunk[0].weight.requires_grad == (how.learning_rates is not None)


def test_a_resumed_training_keeps_its_frozen_trunk(tmp_path):
    how, data = dataclasses.replace(HOW, learning_rates={"trunk": 0.0}), make_data()
    whole, resumed = make_frozen_candidate(), make_frozen_candidate()
    start = weights(whole.trunk)
    fit(whole, data, how, seed=SEED)
    checkpoint = Checkpoint(tmp_path / "run.pt", every=1)
    interrupted(fit, 5, make_frozen_candidate(), data, how, seed=SEED, checkpoint=checkpoint)
    fit(resumed, data, how, seed=SEED, checkpoint=checkpoint)
    assert_equal(weights(resumed), weights(whole))
    assert_equal(weights(resumed.trunk), start)


def test_frozen_replicas_keep_their_statistics():
    members = [make_frozen_candidate() for _ in range(2)]
    before = weights(members[0])
    data = StackedAnnotations([make_data(), make_data()])
    fit(Replicas(members), data, dataclasses.replace(HOW, learning_rates={"trunk": 0.0}), seed=[0, 1])
    for member in members:
        assert_equal(
            weights(member.trunk), {name.removeprefix("trunk."): v for name, v in before.items() if "trunk" in name}
        )
        assert not torch.equal(member.marginal.weight, before["marginal.weight"])


def test_everything_is_frozen():
    with pytest.raises(
        ValueError, match=r"^Expected a method with parameters to train, but it has none, or all are fr"
    ):
        fit(make_method("no-pi"), make_data(), dataclasses.replace(HOW, learning_rates={"trunk": 0, "marginal": 0}))


def test_an_error_leaves_nothing_frozen():
    def fail(*_):
        raise RuntimeError("no")

    method = make_method()
    with pytest.raises(RuntimeError, match="no"):
        fit(method, make_data(), dataclasses.replace(HOW, learning_rates={"trunk": 0}), callbacks=[fail])
    assert all(parameter.requires_grad for parameter in method.parameters())


def test_shared_parts_have_one_rate():
    """A parameter that two parts share belongs to both."""
    trunk = nn.Linear(4, 8)
    method = NoPI(trunk, nn.Linear(8, 3))
    method.again = trunk
    start = weights(trunk)
    fit(method, make_data(), dataclasses.replace(HOW, learning_rates={"again": 0}))
    assert_equal(weights(trunk), start)

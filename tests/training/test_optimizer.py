"""Optimizers of a user's own."""

import copy
import dataclasses
from functools import partial

import pytest
import torch
from torch import nn

from lupi.settings import Settings
from lupi.training import Checkpoint, Replicas, StackedAnnotations, fit, fit_seeds
from lupi.training.optimizer import describe_optimizer, make_optimizer
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

RMSPROP = partial(torch.optim.RMSprop, alpha=0.9)


def test_a_callable_equals_a_loop_by_hand():
    how = Settings(epochs=3, batch_size=8, optimizer=RMSPROP, learning_rate=0.01, schedule="cosine", clip=0.1)
    data, tram = make_data(dtype=torch.float64), make_method().double()
    hand = copy.deepcopy(tram)
    optimizer = torch.optim.RMSprop(hand.parameters(), alpha=0.9)
    marginal = [*hand.marginal.parameters()]
    others = [*hand.trunk.parameters(), *hand.tower.parameters(), *hand.conditional.parameters()]
    fit(tram, data, how, seed=SEED)
    for epoch in range(3):
        for step, index in enumerate(torch.split(shuffled(len(data), epoch), 8)):
            optimizer.param_groups[0]["lr"] = 0.01 * rate_by_hand(how, epoch + step / 3)
            optimizer.zero_grad()
            sum(tram_losses(hand, data, index)).backward()
            for group in (marginal, others):
                nn.utils.clip_grad_norm_(group, 0.1)
            optimizer.step()
    torch.testing.assert_close(weights(tram), weights(hand), rtol=1e-9, atol=1e-12)


def test_replicas_with_a_callable_equal_methods_that_train_alone():
    how = dataclasses.replace(HOW, optimizer=RMSPROP, learning_rates={"trunk": 0.002}, weight_decay=0.01)
    data, alone = make_data(dtype=torch.float64), [make_method(seed=seed).double() for seed in range(2)]
    together = copy.deepcopy(alone)
    for seed, member in enumerate(alone):
        fit(member, data, how, seed=seed)
    fit(Replicas(together), StackedAnnotations([data, data]), how, seed=[0, 1])
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(weights(one), weights(other), rtol=1e-6, atol=1e-9)


def test_an_optimizer_that_mixes_replicas_trains_them_one_after_another():
    how = dataclasses.replace(HOW, epochs=1, optimizer=torch.optim.Adafactor)
    data = StackedAnnotations([make_data(), make_data()])
    with pytest.raises(ValueError, match=r"^Expected `optimizer` to change every number .*Adafactor does not\.$"):
        fit(Replicas([make_method(), make_method()]), data, how, seed=[0, 1])
    history = fit(make_method("label-posterior", folds=4, rounds=1), make_data(), how)
    assert {row["stage"] for row in history} >= {"no-pi 1/4", "no-pi 4/4"}
    with pytest.warns(UserWarning, match="one after another, not together: Expected `optimizer`"):
        fit_seeds([make_method() for _ in range(4)], [make_data()] * 4, how, seeds=range(4))


def test_weight_decay_leaves_biases_alone():
    decayed = make_optimizer(make_method(), Settings(optimizer=torch.optim.AdamW, weight_decay=0.3)).param_groups
    assert {group["weight_decay"]: {one.ndim for one in group["params"]} for group in decayed} == {0.3: {2}, 0.0: {1}}
    own = make_optimizer(make_method(), Settings(optimizer=partial(torch.optim.AdamW, weight_decay=0.7))).param_groups
    assert [group["weight_decay"] for group in own] == [0.7]


class WithoutDecay(torch.optim.Optimizer):
    def __init__(self, groups, lr):
        super().__init__(groups, {"lr": lr})

    def step(self, closure=None):
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"optimizer": WithoutDecay, "weight_decay": 0.1},
            "`optimizer` with `weight_decay`, but WithoutDecay has none",
        ),
        ({"optimizer": lambda groups, lr: (groups, lr)}, "`optimizer` to make a torch.optim.Optimizer, but got tuple"),
        ({"optimizer": lambda groups, lr: torch.optim.LBFGS(groups[0]["params"], lr)}, "no function, but .*LBFGS do"),
    ],
)
def test_optimizers_that_cannot_be_used(options, message):
    with pytest.raises(ValueError, match=f"^Expected .*{message}"):
        fit(make_method(), make_data(), dataclasses.replace(HOW, **options))


def test_penalties_and_graphs_of_other_optimizers():
    with pytest.raises(ValueError, match="`weight_decay` rather than `l2` with an optimizer of your own"):
        Settings(optimizer=RMSPROP, l2=0.1)
    for name, value in (("optimizer", RMSPROP), ("accumulate", 2)):
        with pytest.raises(ValueError, match=f"`cuda_graph` to be off with this `{name}`, but got True"):
            Settings(cuda_graph=True, **{name: value})


def test_a_checkpoint_knows_the_optimizer(tmp_path):
    how = dataclasses.replace(HOW, optimizer=RMSPROP)
    checkpoint, whole, resumed = Checkpoint(tmp_path / "run.pt", every=1), make_method(), make_method()
    fit(whole, make_data(), how, seed=SEED)
    interrupted(fit, 5, make_method(), make_data(), how, seed=SEED, checkpoint=checkpoint)
    other = dataclasses.replace(HOW, optimizer=partial(torch.optim.RMSprop, alpha=0.8))
    with pytest.raises(ValueError, match=r"`optimizer` is 'torch\S+RMSprop\(alpha=0.9\)', not 'torch\S+alpha=0.8\)'"):
        fit(make_method(), make_data(), other, seed=SEED, checkpoint=checkpoint)
    fit(resumed, make_data(), how, seed=SEED, checkpoint=checkpoint)
    assert_equal(weights(resumed), weights(whole))


def make_own(groups, lr):
    return torch.optim.Adagrad(groups, lr=lr)


class Maker:
    def __call__(self, groups, lr):
        return torch.optim.Adagrad(groups, lr=lr)


def test_descriptions_have_no_addresses():
    assert describe_optimizer(make_own).endswith("test_optimizer.make_own")
    assert describe_optimizer(Maker()).endswith("test_optimizer.Maker")
    assert describe_optimizer(partial(partial(make_own, a=1), b=2)).endswith("make_own(a=1, b=2)")
    assert describe_optimizer("adam") == "adam"

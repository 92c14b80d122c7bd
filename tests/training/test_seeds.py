"""`fit_seeds` trains seeds together where that is possible and faster, with the same result as alone."""

import copy
import dataclasses

import pytest
import torch
from torch import nn

from lupi.methods import NoPI
from lupi.settings import Settings
from lupi.training import Replicas, fit, fit_seeds, fitting
from tests.training.helpers import HOW, assert_equal, make_data, make_method, weights


class Branching(nn.Module):
    """A trunk that looks at the inputs of an epoch's last batch, which vmap cannot take."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 8)

    def forward(self, x):
        return self.layer(-x if x.shape[0] < 8 and x.sum() > 0 else x)


def branching(seed):
    torch.manual_seed(seed)
    return NoPI(Branching(), nn.Linear(8, 3))


@pytest.fixture
def fits(monkeypatch):
    """The methods that `fit` trains."""
    seen, plain = [], fitting.fit

    def spied(method, *arguments, **options):
        seen.append(method)
        return plain(method, *arguments, **options)

    monkeypatch.setattr(fitting, "fit", spied)
    return seen


def seeds_and_alone(methods, sets, how=HOW, **options):
    """Train seeds, and copies of them alone; then compare all."""
    alone, numbers = copy.deepcopy(methods), range(5, 5 + len(methods))
    histories = fit_seeds(methods, sets, how, seeds=numbers, **options)
    held_out = options.get("validation") or [None] * len(methods)
    for method, other, history, part, held, seed in zip(
        methods, alone, histories, sets, held_out, numbers, strict=True
    ):
        expected = fit(other, part, how, seed=seed, validation=held)
        assert [row["epoch"] for row in history] == [row["epoch"] for row in expected]
        for name in ("train_marginal", "validation_marginal"):
            if name in expected[-1]:
                assert history[-1][name] == pytest.approx(expected[-1][name], rel=1e-4)
        for name, value in weights(other).items():
            torch.testing.assert_close(weights(method)[name], value, rtol=0, atol=1e-4, msg=name)
        for own, value in zip(method.parameters(), other.parameters(), strict=True):
            assert own.requires_grad == value.requires_grad
            assert own.untyped_storage().nbytes() == value.untyped_storage().nbytes()
    return alone


def test_four_seeds_train_together(fits):
    methods, sets = [make_method(seed=seed) for seed in range(4)], [make_data(seed=seed) for seed in range(4)]
    seeds_and_alone(methods, sets, validation=[make_data(seed=9)] * 4)
    assert [type(method) for method in fits] == [Replicas]
    assert list(fits[0].members) == methods


def test_fewer_seeds_train_one_after_the_other(fits):
    methods, sets = [make_method(seed=seed) for seed in range(3)], [make_data(seed=seed) for seed in range(3)]
    seeds_and_alone(methods, sets)
    assert fits == methods


def test_seeds_train_with_those_that_are_alike(fits):
    """By their layers, their options and the number of their annotations."""
    alike = [make_method(seed=seed) for seed in range(4)]
    others = [make_method(beta=0.5, seed=seed) for seed in range(4)]
    wide, small = make_method(width=9), make_method()
    methods = [part for pair in zip(alike, others, strict=True) for part in pair] + [wide, small]
    sets = [make_data(seed=seed) for seed in range(9)] + [make_data(annotations=17)]
    seeds_and_alone(methods, sets)
    assert [list(method.members) for method in fits[:2]] == [alike, others]
    assert fits[2:] == [wide, small]


def test_unlike_privileged_information_does_not_matter_without_it(fits):
    sets = [dataclasses.replace(make_data(seed=seed), a=torch.ones(23, 1 + seed)) for seed in range(4)]
    seeds_and_alone([make_method("no-pi", seed=seed) for seed in range(4)], sets, validation=sets[::-1])
    assert [type(method) for method in fits] == [Replicas]


@pytest.mark.parametrize("case", ["branching", "ragged"])
def test_seeds_that_cannot_train_together_train_as_if_never_tried(case, fits):
    how, sets = HOW, [make_data(seed=seed) for seed in range(4)]
    methods = [make_method(seed=seed) for seed in range(4)]
    if case == "branching":
        methods, reason = [branching(seed) for seed in range(4)], "vmap: "
    if case == "ragged":
        how = dataclasses.replace(HOW, draw="examples")
        reason = r"number of annotations .*\[1, "
    start = copy.deepcopy(methods)
    with pytest.warns(UserWarning, match=f"^Training 4 seeds one after another.*{reason}"):
        histories = fit_seeds(methods, sets, how, seeds=range(5, 9))
    assert all(part.requires_grad for method in methods for part in method.parameters())
    assert fits[1:] == methods
    for method, alone, history, part, seed in zip(methods, start, histories, sets, range(5, 9), strict=True):
        assert fit(alone, part, how, seed=seed) == history
        assert_equal(weights(method), weights(alone))


def test_a_seed_that_diverges_is_named():
    methods = [make_method("no-pi", seed=seed) for seed in range(4)]
    with pytest.raises(FloatingPointError, match=r"marginal loss .*with seed 0"):
        fit_seeds(methods, [make_data()] * 4, Settings(learning_rate=1e30, optimizer="sgd"), seeds=[0, 0, 0, 0])


def test_large_networks_train_one_after_the_other_on_a_cpu():
    small, large = (NoPI(nn.Identity(), nn.Linear(4, outputs)) for outputs in (3, 50_000))
    assert fitting.pays_to_stack([small] * 4, "cpu")
    assert not fitting.pays_to_stack([small] * 3, "cpu")
    assert not fitting.pays_to_stack([large] * 4, "cpu")
    assert fitting.pays_to_stack([large] * 4, "cuda")

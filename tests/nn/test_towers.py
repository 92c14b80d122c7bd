import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi.nn import Tower
from lupi.nn.parts import FixedTower

properties = settings(deadline=None, max_examples=40)
shapes = given(
    privileged=st.integers(1, 4),
    features=st.integers(1, 4),
    widths=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    skip=st.booleans(),
    seed=st.integers(0, 2**31),
)


def make(privileged, features, widths, skip, seed):
    """A tower, features of three examples and privileged information of five annotations."""
    torch.manual_seed(seed)
    return Tower(privileged, features, widths, skip=skip), torch.randn(3, features), torch.randn(5, privileged)


def formula(tower, features, a):
    """[relu(W₂ [relu(W₁ a + b₁), φ] + b₂), φ if it skips], in numpy and float64, for one pair."""
    w1, b1, w2, b2 = (
        parameter.detach().double().numpy()
        for parameter in (tower.first.weight, tower.first.bias, tower.second.weight, tower.second.bias)
    )
    hidden = np.maximum(w1 @ a.double().numpy() + b1, 0)
    features = features.double().numpy()
    psi = np.maximum(w2 @ np.concatenate([hidden, features]) + b2, 0)
    return np.concatenate([psi, features]) if tower.skip else psi


@properties
@shapes
def test_tower_is_its_formula(privileged, features, widths, skip, seed):
    tower, phi, a = make(privileged, features, widths, skip, seed)
    row = torch.tensor([2, 0, 0, 1, 2])
    output = tower(phi[row], a).detach()
    expected = [formula(tower, phi[r], a[i]) for i, r in enumerate(row)]
    np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-5)
    assert output.shape == (5, tower.width) == (5, widths[1] + skip * features)


@properties
@shapes
def test_layer_one_sees_privileged_information_alone(privileged, features, widths, skip, seed):
    tower, phi, a = make(privileged, features, widths, skip, seed)
    assert tower.first.weight.shape == (widths[0], privileged)
    seen = []
    tower.first.register_forward_hook(lambda _, inputs, output: seen.append((inputs[0], output)))
    tower(phi[[0, 1, 2, 0, 1]], a)
    tower(phi[[2, 2, 1, 1, 0]] * 100, a)
    (first_input, first), (_, second) = seen
    assert torch.equal(first_input, a)
    assert torch.equal(first, second)


@properties
@shapes
def test_tower_at_fixed_rows(privileged, features, widths, skip, seed):
    tower, phi, a = make(privileged, features, widths, skip, seed)
    on_features, offset = tower.split_at(a)
    assert offset.shape == (5, widths[1])
    assert not offset.requires_grad
    psi = torch.relu((phi @ on_features.T)[:, None] + offset).detach()
    expected = [[formula(tower, phi[i], a[s])[: widths[1]] for s in range(5)] for i in range(3)]
    np.testing.assert_allclose(psi, expected, rtol=1e-5, atol=1e-5)


@properties
@shapes
def test_fixed_tower_is_the_tower_at_that_row(privileged, features, widths, skip, seed):
    tower, phi, a = make(privileged, features, widths, skip, seed)
    fixed = FixedTower(tower, a[1])
    torch.testing.assert_close(fixed(phi), tower(phi, a[1].expand(3, -1)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("skip", [False, True])
def test_fixed_tower_holds_neither_layer_one_nor_the_row(skip):
    tower, a = Tower(7, 5, (3, 4), skip=skip), torch.randn(7)
    state = FixedTower(tower, a).state_dict()
    assert {name: tuple(value.shape) for name, value in state.items()} == {"on_features": (4, 5), "offset": (4,)}
    for value in state.values():  # nor a view into a storage that does
        assert value.untyped_storage().nbytes() == value.numel() * 4


def test_fixed_tower_is_a_copy():
    tower = Tower(2, 3)
    fixed, phi = FixedTower(tower, torch.ones(2)), torch.randn(4, 3)
    before = fixed(phi).detach().clone()
    with torch.no_grad():
        for parameter in tower.parameters():
            parameter.mul_(2)
    assert torch.equal(fixed(phi), before)


def test_fixed_tower_of_a_tower_in_double_precision():
    tower = Tower(2, 3).double()
    phi, a = torch.randn(4, 3).double(), torch.randn(2).double()
    torch.testing.assert_close(FixedTower(tower, a)(phi), tower(phi, a.expand(4, -1)))


def test_fixing_a_tower_draws_no_random_number():
    tower = Tower(2, 3)
    before = torch.get_rng_state()
    FixedTower(tower, torch.ones(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_gradients_reach_both_layers_and_the_features():
    tower = Tower(2, 3, skip=True)
    phi = torch.randn(4, 3, requires_grad=True)
    tower(phi, torch.randn(4, 2)).sum().backward()
    assert all(parameter.grad.abs().sum() > 0 for parameter in (*tower.parameters(), phi))


def test_widths_of_the_paper_by_default():
    tower = Tower(2, 3)
    assert [layer.out_features for layer in tower.children() if isinstance(layer, nn.Linear)] == [64, 64]

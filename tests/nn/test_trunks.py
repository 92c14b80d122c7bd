import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lupi.nn import MLP


@settings(deadline=None, max_examples=40)
@given(
    inputs=st.integers(1, 5),
    widths=st.lists(st.integers(1, 6), max_size=3),
    outputs=st.none() | st.integers(1, 4),
    seed=st.integers(0, 2**31),
)
def test_mlp_is_its_formula(inputs, widths, outputs, seed):
    torch.manual_seed(seed)
    mlp = MLP(inputs, widths, outputs)
    layers = [layer for layer in mlp if isinstance(layer, nn.Linear)]
    assert [layer.out_features for layer in layers] == [*widths, *([] if outputs is None else [outputs])]
    x = torch.randn(7, inputs)
    expected = x.double().numpy()
    for number, layer in enumerate(layers):
        expected = expected @ layer.weight.detach().double().numpy().T + layer.bias.detach().double().numpy()
        if number < len(widths):
            expected = np.maximum(expected, 0)
    np.testing.assert_allclose(mlp(x).detach(), expected, rtol=1e-5, atol=1e-5)


def test_no_layer_is_the_identity():
    x = torch.randn(3, 4)
    mlp = MLP(4, ())
    assert torch.equal(mlp(x), x)
    assert list(mlp.parameters()) == []


def test_widths_of_the_paper_by_default():
    assert [layer.out_features for layer in MLP(5) if isinstance(layer, nn.Linear)] == [64, 64]


@pytest.mark.parametrize("outputs", [None, 2])
def test_every_layer_has_an_activation_of_its_own(outputs):
    mlp = MLP(3, (5, 5), outputs, activation=nn.Tanh)
    activations = [layer for layer in mlp if isinstance(layer, nn.Tanh)]
    assert len(set(map(id, activations))) == 2
    assert isinstance(mlp[-1], nn.Linear if outputs else nn.Tanh)
    features = nn.Sequential(*list(mlp)[:4])(torch.randn(10, 3) * 100)
    assert features.abs().max() <= 1
    assert features.min() < 0  # tanh, not relu

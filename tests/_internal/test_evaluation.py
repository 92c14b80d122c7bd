import pytest
import torch
from torch import nn

from lupi._internal.devices import evaluation


def modes(module):
    return [part.training for part in module.modules()]


@pytest.mark.parametrize("training", [True, False])
def test_evaluation_and_back(training):
    module = nn.Sequential(nn.Linear(2, 2), nn.Dropout()).train(training)
    with evaluation(module):
        assert not any(modes(module))
        assert not module(torch.ones(1, 2)).requires_grad
    assert modes(module) == [training] * 3
    assert torch.is_grad_enabled()


def test_evaluation_ends_with_an_error():
    module = nn.Dropout()
    with pytest.raises(KeyError), evaluation(module):
        raise KeyError
    assert module.training
    assert torch.is_grad_enabled()


def test_a_part_that_was_in_evaluation_mode_is_so_afterwards():
    module = nn.Sequential(nn.BatchNorm1d(2).eval(), nn.Sequential(nn.Dropout()))
    before = modes(module)
    with evaluation(module):
        pass
    assert modes(module) == before == [True, False, True, True]

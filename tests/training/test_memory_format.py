import pytest
import torch
from torch import nn

from lupi.training.optimizer import channels_last

GPU = torch.device("cuda")


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, groups=4), nn.Flatten())


def train(network, order):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(0)
    with channels_last([network], order):
        last = [part.weight.is_contiguous(memory_format=torch.channels_last) for part in (network[0], network[3])]
        for _ in range(3):
            optimizer.zero_grad()
            network(torch.randn(6, 3, 9, 9, generator=generator)).square().mean().backward()
            optimizer.step()
    return last


def test_the_order_changes_no_number_and_is_restored():
    one, other = make(), make()
    assert train(one, GPU) == [True, True]
    assert not any(train(other, torch.device("cpu")))
    for name, value in one.state_dict().items():
        assert value.is_contiguous()
        torch.testing.assert_close(value, other.state_dict()[name])


def test_the_order_is_restored_after_an_error():
    network = make()
    network.forward = lambda _: 1 / 0
    with pytest.raises(ZeroDivisionError):
        train(network, GPU)
    assert network[0].weight.is_contiguous()

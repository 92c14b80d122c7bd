import pytest
import torch
from torch import nn

from lupi.likelihoods import Categorical
from lupi.nn import MLP, Parts


def make(**options):
    return Parts(lambda: MLP(5, (8,)), features=8, privileged=3, outputs=4, likelihood=Categorical(), **options)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("random", [0, 6])
def test_parts_fit_together(skip, random):
    parts = make(tower_widths=(7, 9), tower_skip=skip)
    trunk, tower = parts.trunk(), parts.tower(random)
    features = trunk(torch.randn(2, 5))
    psi = tower(features, torch.randn(2, 3 + random))
    assert (tower.first.out_features, tower.second.out_features) == (7, 9)
    assert psi.shape == (2, parts.tower_features) == (2, 9 + 8 * skip)
    assert parts.tower_features == tower.width
    assert parts.tower_head()(psi).shape == parts.head()(features).shape == (2, 4)


@pytest.mark.parametrize("part", ["trunk", "tower", "head", "tower_head"])
def test_every_call_makes_a_new_part_that_the_seed_decides(part):
    parts = make()
    torch.manual_seed(0)
    first, second = (nn.utils.parameters_to_vector(getattr(parts, part)().parameters()) for _ in range(2))
    torch.manual_seed(0)
    again = nn.utils.parameters_to_vector(getattr(parts, part)().parameters())
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


def test_parts_do_not_change():
    with pytest.raises(AttributeError):
        make().features = 9

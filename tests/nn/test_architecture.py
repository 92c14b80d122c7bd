"""A trunk is built again from its architecture and its weights."""

import json

import pytest
import torch
from torch import nn

from lupi._internal.pretrained import ImageTrunk
from lupi.nn import pretrained
from lupi.nn.architecture import build_trunk, describe_trunk
from tests.nn.test_hub import IMAGES, ITSELF, MEAN, STD, make_model, save


@ITSELF
@pytest.mark.parametrize("kind", ["mobilenet", "resnet", "vit"])
def test_a_trunk_is_built_again(tmp_path, kind):
    hub = pytest.importorskip("transformers", reason="needs the extra `vision`")
    trunk = pretrained(save(make_model(hub, kind), tmp_path, {"image_mean": MEAN, "image_std": STD}))
    described = json.dumps(describe_trunk(trunk))
    assert str(tmp_path) not in described
    built = build_trunk(json.loads(described))
    assert built.features == trunk.features
    assert built.example == trunk.example
    built.load_state_dict(trunk.state_dict())
    # Weights read from a file may lie anywhere in memory, and some processors round matrix products by that.
    torch.testing.assert_close(built(IMAGES), trunk(IMAGES), rtol=1e-4, atol=1e-4)


@ITSELF
def test_a_trunk_without_its_pooling_layer(tmp_path):
    hub = pytest.importorskip("transformers", reason="needs the extra `vision`")
    trunk = pretrained(save(make_model(hub, "vit"), tmp_path))
    trunk.model.register_module("pooler", None)
    built = build_trunk(describe_trunk(trunk))
    built.load_state_dict(trunk.state_dict())
    assert torch.equal(built(IMAGES), trunk(IMAGES))


def test_other_trunks_have_no_description():
    other = ImageTrunk(nn.Flatten(), [0.0] * 3, [1.0] * 3, None, (8, 8))
    for trunk in (other, nn.Flatten()):
        with pytest.raises(ValueError, match=r"^Expected `trunk` to be an image model of Hugging Face"):
            describe_trunk(trunk)

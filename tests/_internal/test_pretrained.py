"""Preprocessing and pooling of pretrained models; `tests/nn/test_hub.py` loads them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from lupi._internal.pretrained import NO_CODE, ImageTrunk, TextTrunk, colour_statistics, hub_options, pool, pretrained
from lupi.tabular import text_encoders

IMAGES = torch.randint(256, (12, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
MEAN, STD = [0.4, 0.5, 0.6], [0.2, 0.25, 0.3]


def test_images_are_scaled():
    trunk = ImageTrunk(nn.Flatten(), *colour_statistics({"image_mean": MEAN, "image_std": STD}), None, (32, 32))
    assert trunk.features == 3 * 32 * 32
    mean, std = (np.reshape(values, (3, 1, 1)) for values in (MEAN, STD))
    expected = torch.from_numpy(((IMAGES.numpy() / 255 - mean) / std).astype(np.float32))
    torch.testing.assert_close(trunk(IMAGES), expected.flatten(1), rtol=1e-5, atol=1e-5)
    assert torch.equal(trunk(IMAGES), trunk(IMAGES.float()))
    assert trunk.double()(IMAGES).dtype == torch.float64


@pytest.mark.parametrize("size", [(16, 16), (48, 40), (16, 64), (32, 32)])
def test_images_are_resized(size):
    trunk = ImageTrunk(nn.Flatten(), [0.0] * 3, [1.0] * 3, size, size)
    smaller = min(size) < 32
    expected = F.interpolate(IMAGES.float(), size, mode="bilinear", antialias=smaller).flatten(1)
    torch.testing.assert_close(trunk(IMAGES), expected)
    assert f"size={size}" in repr(trunk)  # which tells networks apart


def test_finding_the_features_leaves_the_model_as_it_was():
    model = nn.Sequential(nn.Conv2d(3, 5, 4, 4), nn.BatchNorm2d(5), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    nn.init.ones_(model[0].bias)
    trunk = ImageTrunk(model, [0.0] * 3, [1.0] * 3, None, (4, 4))  # one value per channel, too few to train on
    assert trunk.features == 5
    assert torch.equal(model[1].running_mean, torch.zeros(5))
    assert all(module.training for module in trunk.modules())


def test_colours_of_a_processor():
    assert colour_statistics({}) == ([127.5] * 3, [127.5] * 3)
    assert colour_statistics({"image_mean": None, "image_std": None}) == ([127.5] * 3, [127.5] * 3)
    assert colour_statistics({"do_rescale": False, "image_mean": [99.0], "image_std": [9.0]}) == ([99.0], [9.0])
    assert colour_statistics({"rescale_factor": 1 / 128, "image_mean": [0.5], "image_std": [0.25]}) == ([64.0], [32.0])
    assert colour_statistics({"do_normalize": False, "image_mean": MEAN, "image_std": STD}) == ([0.0] * 3, [255.0] * 3)


def test_pooling():
    tokens = torch.randn(2, 5, 4)
    places = torch.randn(2, 4, 3, 3)
    own = torch.randn(2, 4, 1, 1)
    assert torch.equal(pool(own[:, :, 0, 0]), own[:, :, 0, 0])
    assert torch.equal(pool(SimpleNamespace(last_hidden_state=places, pooler_output=own)), own[:, :, 0, 0])
    assert torch.equal(pool(SimpleNamespace(last_hidden_state=tokens, pooler_output=None)), tokens.mean(1))
    torch.testing.assert_close(pool(SimpleNamespace(last_hidden_state=places)), places.mean((2, 3)))


class Words(nn.Module):
    """What a trunk uses of a Hugging Face model of texts: words that do not see one another."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(9, 4)

    def forward(self, input_ids, attention_mask):
        assert attention_mask.dtype == torch.int64
        return SimpleNamespace(last_hidden_state=self.words(input_ids))


@pytest.mark.parametrize("pad", [0, 1, None])
def test_the_mean_is_over_tokens(pad):
    trunk = TextTrunk(Words(), pad)
    ids = torch.tensor([[3, 4, 0, 0], [5, 0, 0, 0], [0, 0, 0, 0]])
    table = trunk.model.words.weight
    assert trunk.features == 4
    of_tokens = torch.stack([(table[3] + table[4]) / 2, table[5], torch.zeros(4)])
    expected = of_tokens if pad == 0 else table[ids].mean(1)
    torch.testing.assert_close(trunk(ids), expected)


class AnswerError(Exception):
    """An error of a hub that answers with a status."""

    def __init__(self, status):
        self.response = SimpleNamespace(status_code=status)


@pytest.mark.parametrize("error", [ConnectionError("Name or service not known"), TimeoutError(), AnswerError(503)])
def test_a_hub_that_does_not_answer_is_not_asked_again(error, monkeypatch, tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra `text`")
    asked = []

    def ask(name, **options):
        asked.append((name, options))
        raise error

    monkeypatch.setattr(hub, "model_info", ask)
    for load in (pretrained, lambda name: text_encoders.make_text_encoder(name).fit([])):
        with pytest.raises(ValueError, match=r"got 'nobody/nothing': the Hugging Face hub does not answer, and its "):
            load("nobody/nothing")
    assert asked == [("nobody/nothing", {"timeout": 10.0})] * 2
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda name, file: f"{name}/{file}")
    assert hub_options("nobody/cached") == {**NO_CODE, "local_files_only": True}
    assert hub_options(str(tmp_path)) == NO_CODE  # a folder needs no hub


@pytest.mark.parametrize("error", [AnswerError(404), ValueError("no name of the hub")])
def test_what_a_hub_refuses_is_explained_by_transformers(error, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="needs the extra `text`")
    monkeypatch.setattr(hub, "model_info", lambda *_, **__: (_ for _ in ()).throw(error))
    assert hub_options("nobody/nothing") == NO_CODE

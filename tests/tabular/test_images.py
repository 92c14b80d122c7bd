"""Images as columns: how files are read and encoded."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import skops.io
import torch
import torch.nn.functional as F
from lupi.tabular.features import encode_columns, fit_encoders
from PIL import Image

from lupi.tabular import images
from lupi.tabular.images import UnreadableImageError, read_image
from lupi.tabular.schema import InputColumn, clean_inputs

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(256, size=(6, 6, 3), dtype=np.uint8)
PHOTO = {"photo": InputColumn("image", "string")}


def save(path, pixels=PICTURE, **options):
    Image.fromarray(pixels).save(path, **options)
    return path


@pytest.mark.parametrize("suffix", ["png", "bmp", "tiff"])
def test_pixels_come_back(tmp_path, suffix):
    np.testing.assert_array_equal(read_image(save(tmp_path / f"a.{suffix}"), (6, 6)), PICTURE)


def test_the_middle_is_cut_out(tmp_path):
    wide = np.zeros((4, 12, 3), np.uint8)
    wide[:, 4:8] = 200
    assert (read_image(save(tmp_path / "wide.png", wide), (4, 4)) == 200).all()
    assert read_image(tmp_path / "wide.png", (2, 6)).shape == (2, 6, 3)


def test_images_of_other_modes(tmp_path):
    grey = save(tmp_path / "grey.png", np.full((3, 3), 7, np.uint8))
    assert (read_image(grey, (3, 3)) == 7).all()
    deep = save(tmp_path / "deep.png", np.full((3, 3), 0x8000, np.uint16))
    assert (read_image(deep, (3, 3)) == 0x80).all()
    clear = save(tmp_path / "clear.png", np.zeros((3, 3, 4), np.uint8))
    assert (read_image(clear, (3, 3)) == 255).all()
    Image.new("P", (3, 3), 5).save(tmp_path / "palette.gif", transparency=5)
    assert (read_image(tmp_path / "palette.gif", (3, 3)) == 255).all()


def test_photos_are_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    path = save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(read_image(path, (6, 6)), np.rot90(PICTURE, -1))


@pytest.mark.parametrize("content", [b"", b"no image", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", None])
def test_files_that_are_no_images(tmp_path, content):
    path = tmp_path / "a.png"
    path.write_bytes(content if content is not None else save(tmp_path / "b.png").read_bytes()[:60])
    with pytest.raises(UnreadableImageError, match=r"^Expected \S+a.png to be an image, but got: "):
        read_image(path, (6, 6))


def test_too_many_pixels(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 30)
    with pytest.raises(UnreadableImageError, match="decompression bomb"):
        read_image(save(tmp_path / "a.png"), (6, 6))


# -------------------------------------------------------------------------------- encoders


def test_pixels_as_features(tmp_path):
    save(tmp_path / "a.png", RNG.integers(256, size=(16, 16, 3), dtype=np.uint8))
    frame = pd.DataFrame({"photo": ["a.png", "a.png"]})
    X = clean_inputs(frame, PHOTO, range(2), tmp_path)
    encoders = fit_encoders(X, PHOTO)
    features = encode_columns(X, encoders)
    assert features.shape == (2, 16 * 16 * 3)
    expected = np.asarray(Image.open(tmp_path / "a.png")).reshape(-1) / 255
    np.testing.assert_allclose(features.to_numpy(), [expected, expected], rtol=1e-6)
    stored = skops.io.dumps(encoders["photo"])
    loaded = skops.io.loads(stored, trusted=list(images.TRUSTED))
    np.testing.assert_array_equal(encode_columns(X, {"photo": loaded}), features)


def test_an_unreadable_image_has_a_row(tmp_path):
    save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"nothing")
    X = clean_inputs(pd.DataFrame({"photo": ["a.png", "b.png"]}), PHOTO, range(40, 42), tmp_path)
    with pytest.raises(ValueError, match=r"^Expected column 'photo' to name images, but \S+b.png in row 41 is none: "):
        encode_columns(X, fit_encoders(X, PHOTO))


@pytest.fixture
def folder(tmp_path):
    """A ResNet of a few weights."""
    transformers = pytest.importorskip("transformers", reason="needs the extra `vision`")
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], image_size=32)
    transformers.ResNetModel(config).save_pretrained(tmp_path / "resnet")
    (tmp_path / "resnet" / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.5] * 3}))
    return tmp_path / "resnet"


@pytest.mark.filterwarnings("ignore")  # what transformers says of itself
def test_a_pretrained_model(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    pixels = RNG.integers(256, size=(2, 224, 224, 3), dtype=np.uint8)
    paths = [str(save(tmp_path / f"{i}.png", image)) for i, image in enumerate(pixels)]
    encoder = images.make_image_encoder(str(folder)).fit([])
    rows = encoder.transform(paths)
    trunk, size = encoder._load_trained()
    assert rows.shape == (2, 16)
    assert size == (32, 32)
    x = torch.from_numpy(np.stack([read_image(path, size) for path in paths])).permute(0, 3, 1, 2)
    with torch.no_grad():
        np.testing.assert_allclose(rows, F.normalize(trunk(x), dim=1), atol=1e-5)
    monkeypatch.setattr(images, "read_image", None)  # all are cached, by content
    shutil.copy(paths[0], tmp_path / "copy.png")
    loaded = skops.io.loads(skops.io.dumps(encoder), trusted=list(images.TRUSTED))
    np.testing.assert_array_equal(loaded.transform([str(tmp_path / "copy.png")]), rows[:1])
    (folder / "more").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    changed = skops.io.loads(skops.io.dumps(encoder), trusted=list(images.TRUSTED))
    with pytest.raises(ValueError, match=r"^Expected image encoder \S+resnet to be unchanged since training"):
        changed.transform(paths)


@pytest.mark.filterwarnings("ignore")
def test_models_that_are_no_image_encoders(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(
        ValueError, match=r"^Expected `image_encoder` to be a pretrained image model, but got '\S+none'"
    ):
        images.make_image_encoder(str(tmp_path / "none")).fit([])

"""Images as columns: how files are found, read and encoded."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from lupi.tabular import TableEncoder, images
from lupi.tabular.formats import folder_of
from lupi.tabular.images import UnreadableImageError, read_image
from lupi.tabular.kinds.embedded import embed
from lupi.tabular.kinds.image import find_files, resolve_beside_table
from tests.estimators.helpers import through_json

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(256, size=(6, 6, 3), dtype=np.uint8)


def save(path, pixels=PICTURE, **options):
    Image.fromarray(pixels).save(path, **options)
    return path


@pytest.mark.parametrize("name", ["", "..", "../a", "a/../../b", "/etc/passwd", "a\0b", "./../x"])
def test_tables_reach_only_what_lies_beside_them(name):
    assert resolve_beside_table(Path("data"), name) is None


@pytest.mark.parametrize("name", ["a", "b/../a", "./a"])
def test_names_inside(name):
    assert resolve_beside_table(Path("data"), name) == Path("data/a")


def test_the_folder_of_a_table(tmp_path):
    assert folder_of(tmp_path) == tmp_path
    assert folder_of(tmp_path / "t.csv") == tmp_path


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "a.png").touch()
    column = pd.Series(["a.png", "a.png", "b.png"], name="photo")
    with pytest.raises(
        ValueError, match=r"^Expected column 'photo' to name files in \S+, but 'b.png' in row 9 does not"
    ):
        find_files(column.set_axis([7, 8, 9]), tmp_path)
    with pytest.raises(ValueError, match=r"'\.\./a.png' in row 0 leads out of the folder\.$"):
        find_files(pd.Series(["../a.png"], name="photo"), tmp_path)
    with pytest.raises(ValueError, match=r"does not exist\.$"):
        find_files(pd.Series(["."], name="photo"), tmp_path)


# -------------------------------------------------------------------------------- reading


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
    for name in ("a", "b"):
        save(tmp_path / f"{name}.png", RNG.integers(256, size=(16, 16, 3), dtype=np.uint8))
    X = pd.DataFrame({"photo": [str(tmp_path / f"{name}.png") for name in "aba"]})
    pixels = np.stack([np.asarray(Image.open(path)).reshape(-1) / 255 for path in X["photo"]])
    np.testing.assert_allclose(embed(images.PixelEncoder().fit([]), X["photo"]), pixels, rtol=1e-6)
    encoder = TableEncoder({"photo": "image"}).fit(X)
    features = encoder.transform(X)
    differ = pixels.std(0) > 0
    expected = (pixels - pixels.mean(0))[:, differ] / pixels.std(0)[differ]
    np.testing.assert_allclose(features[:, differ], expected, rtol=1e-4)
    loaded = through_json(encoder)
    np.testing.assert_array_equal(loaded.transform(X), features)


def test_an_unreadable_image_has_a_row(tmp_path):
    save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"nothing")
    X = pd.DataFrame({"photo": [str(tmp_path / "a.png"), str(tmp_path / "b.png")]}, index=[40, 41])
    with pytest.raises(ValueError, match=r"^Expected column 'photo' to name images, but \S+b.png in row 41 is none: "):
        TableEncoder({"photo": "image"}).fit(X)


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
    loaded = through_json(encoder)
    np.testing.assert_array_equal(loaded.transform([str(tmp_path / "copy.png")]), rows[:1])
    (folder / "more").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    changed = through_json(encoder)
    with pytest.raises(ValueError, match=r"^Expected image encoder \S+resnet to be unchanged since training"):
        changed.transform(paths)


@pytest.mark.filterwarnings("ignore")
def test_models_that_are_no_image_encoders(tmp_path):
    pytest.importorskip("transformers")
    with pytest.raises(
        ValueError, match=r"^Expected `image_encoder` to be a pretrained image model, but got '\S+none'"
    ):
        images.make_image_encoder(str(tmp_path / "none")).fit([])

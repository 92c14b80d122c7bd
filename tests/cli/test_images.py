"""Columns of images, in every command that reads a table."""

import re

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import lupi
from tests.cli.helpers import refused, run

N = 40
RNG = np.random.default_rng(0)
BRIGHT = RNG.random(N) > 0.5
FRAME = pd.DataFrame({"photo": [f"photos/{i}.png" for i in range(N)], "judge": RNG.choice(["a", "b"], N)})
FRAME["label"] = np.where(BRIGHT, "day", "night")
ROLES = ["--target", "label", "--privileged", "judge", "--kind", "photo=image", "--epochs", 3]


def good(*arguments):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "photos").mkdir()
    for path, bright in zip(FRAME["photo"], BRIGHT, strict=True):
        pixels = RNG.integers(100 * bright, 100 * bright + 100, size=(20, 24, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(folder / path)
    FRAME.to_csv(folder / "labels.csv", index=False)
    return folder / "labels.csv"


@pytest.fixture(scope="module")
def model(table):
    shown = good("train", table, *ROLES, "--method", "no-pi", "--epochs", 30, "-o", table.parent / "model").stdout
    assert "1 image (photo)" in shown
    return table.parent / "model"


def test_predictions_read_the_files_beside_the_table(model, table, tmp_path):
    good("predict", model, table, "-o", tmp_path / "p.csv")
    assert (pd.read_csv(tmp_path / "p.csv")["prediction"] == FRAME["label"]).mean() > 0.9
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (9, 9), "white").save(tmp_path / "photos" / "0.png")
    FRAME[:1].to_csv(tmp_path / "new.csv", index=False)
    good("predict", model, tmp_path / "new.csv", "-o", tmp_path / "q.csv")
    assert pd.read_csv(tmp_path / "q.csv")["prediction"].tolist() == ["day"]  # another image of this name
    assert lupi.load(model).predict(FRAME, folder=table.parent).shape == (N, 3)


def test_the_model_has_no_paths(model):
    for file in model.iterdir():
        assert b"photos/" not in file.read_bytes(), file
    assert "Image encoder: the pixels of a thumbnail." in (model / "README.md").read_text()


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("photos/none.png", "'photos/none.png' in row 1 does not exist"),
        ("../data/labels.csv", "'../data/labels.csv' in row 1 leads out of the folder"),
        ("/etc/hostname", "'/etc/hostname' in row 1 leads out of the folder"),
        ("labels.csv", "labels.csv in row 1 is none: cannot identify image file"),
        (None, "row 1 has none"),
    ],
)
def test_images_that_cannot_be_read(model, table, tmp_path, path, part):
    FRAME[:3].assign(photo=["photos/0.png", path, "photos/1.png"]).to_csv(table.parent / "new.csv", index=False)
    refused(run("predict", model, table.parent / "new.csv", "-o", tmp_path / "p.csv"), "'photo'", part)
    assert not (tmp_path / "p.csv").exists()


def test_images_are_proposed_and_not_exported(model, table, tmp_path):
    refused(run("train", table, *ROLES[:4], "-o", tmp_path / "model"), "'photo'", "`--kind photo=image`")
    refused(run("export", model, "--onnx", tmp_path / "m.onnx"), "column 'photo' is of kind 'image'")
    options = ["--target", "label", "--privileged", "photo", "--ignore", "judge", "--kind", "photo=image"]
    FRAME.assign(size=1.5).to_csv(table.parent / "more.csv", index=False)
    refused(run("train", table.parent / "more.csv", *options, "-o", tmp_path / "model"), "'photo'", "photo=image")


def test_comparisons_know_the_images(table, tmp_path):
    options = ["--methods", "tram", "--epochs", 1, "--seeds", 2, "--jobs", 1, "-o", tmp_path / "run"]
    good("compare", table, *ROLES, *options)
    image = table.parent / FRAME["photo"][0]
    before = image.read_bytes()
    Image.new("RGB", (9, 9), "red").save(image)
    refused(run("compare", table, *ROLES, *options), "run")  # other data than those of the runs that are there
    image.write_bytes(before)
    good("compare", table, *ROLES, *options)


@pytest.fixture
def resnet(tmp_path):
    """A ResNet of a few weights."""
    transformers = pytest.importorskip("transformers", reason="needs the extra `vision`")
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], image_size=32)
    transformers.ResNetModel(config).save_pretrained(tmp_path / "resnet")
    return tmp_path / "resnet"


@pytest.mark.filterwarnings("ignore")  # what transformers says of itself
def test_a_pretrained_encoder_that_moves(table, tmp_path, resnet, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    options = ["--image-encoder", resnet, "--method", "no-pi", "-o", tmp_path / "model"]
    good("train", table, *ROLES, *options)
    good("predict", tmp_path / "model", table, "--image-encoder", resnet, "-o", tmp_path / "p.csv")
    resnet.rename(tmp_path / "moved")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    refused(run("predict", tmp_path / "model", table, "-o", tmp_path / "q.csv"), "`--image-encoder`", "resnet")
    good("predict", tmp_path / "model", table, "--image-encoder", tmp_path / "moved", "-o", tmp_path / "q.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "p.csv"), pd.read_csv(tmp_path / "q.csv"), rtol=1e-4)


def test_suspicious_labels_are_shown_with_their_images(table, tmp_path):
    good("diagnose", table, *ROLES, "--folds", 2, "--jobs", 1, "-o", tmp_path / "run")
    labels = pd.read_csv(tmp_path / "run" / "labels.csv")
    assert labels["photo"].tolist() == [f"photos/{row}.png" for row in labels["row"]]
    page = (tmp_path / "run" / "report.html").read_text()
    shown = re.findall(r'<img src="data:image/jpeg;base64,[^"]+" alt="photo: (.*?)">', page)
    assert shown == labels["photo"].tolist()

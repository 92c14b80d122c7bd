import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from scipy import stats

from lupi.data import Annotations
from lupi.tabular import TableEncoder
from lupi_paper.datasets import load_imagenet_pi
from lupi_paper.datasets.imagenet_pi import MODELS, URL

IMAGES = 50


def names_of(split, images=IMAGES):
    if split == "validation":
        return [f"ILSVRC2012_val_{number + 1:08d}.JPEG" for number in range(images)]
    return [f"n{number % 7:08d}_{number}.JPEG" for number in range(images)]


def table(names, seed):
    rng = np.random.default_rng(seed)
    labels = pd.DataFrame(rng.integers(1000, size=(len(names), 16)), index=names)
    confidences = pd.DataFrame(rng.random((len(names), 16)).round(4), index=names)
    return labels, confidences


def write(folder, noise="high", split="train", names=None, seed=0):
    """The repository's layout; confidences in another order than labels."""
    inside = folder / f"{noise}_noise"
    labels, confidences = table(names_of(split) if names is None else names, seed)
    for kind, content in {"labels": labels, "confidences": confidences.iloc[::-1]}.items():
        (inside / kind).mkdir(parents=True, exist_ok=True)
        content.to_csv(inside / kind / f"{split}.csv", header=False)
    features = pd.DataFrame({"accuracy": np.linspace(-1, 1, 16), "size": np.linspace(14, 18, 16)})
    features.to_csv(inside / "annotator_features.csv", header=False, index=False)
    return labels, confidences


def test_table(tmp_path):
    labels, confidences = write(tmp_path)
    write(tmp_path, noise="low", seed=1)
    got = load_imagenet_pi(tmp_path, tmp_path)
    np.testing.assert_array_equal(got.y, labels)
    np.testing.assert_allclose(got.confidence, confidences, rtol=1e-6)
    assert (got.y.dtype, got.confidence.dtype) == (np.int16, np.float32)
    assert got.path[8] == "n00000001/n00000001_8.JPEG"
    assert list(got.annotators.index) == MODELS
    assert len(MODELS) == 16
    assert got.annotators["accuracy"]["Xception"] == 1
    assert got.gold is None  # seven classes are not ImageNet
    assert not np.array_equal(load_imagenet_pi(tmp_path, tmp_path, noise="low").y, labels)


def test_gold_is_the_place_of_the_class(tmp_path):
    rng = np.random.default_rng(0)
    number = rng.permutation(np.arange(2000) % 1000)
    write(tmp_path, names=[f"n{12345 + 3 * place:08d}_{row}.JPEG" for row, place in enumerate(number)])
    np.testing.assert_array_equal(load_imagenet_pi(tmp_path, str(tmp_path)).gold, number)


def test_names_of_the_description(tmp_path):
    labels, _ = write(tmp_path)
    inside = tmp_path / "high_noise"
    for kind in ("labels", "confidences"):
        (inside / kind / "train.csv").rename(inside / f"{kind}-train.csv")
    (inside / "annotator_features.csv").rename(inside / "annotator-features.csv")
    np.testing.assert_array_equal(load_imagenet_pi(tmp_path, tmp_path).y, labels)


def test_validation_images_in_one_folder_or_in_one_per_class(tmp_path):
    write(tmp_path, split="validation")
    images = tmp_path / "val"
    images.mkdir()
    names = names_of("validation")
    assert list(load_imagenet_pi(tmp_path, images, split="validation").path) == names
    for name in names:
        (images / f"n{len(name):08d}").mkdir(exist_ok=True)
        (images / f"n{len(name):08d}" / name).touch()
    expected = [f"n{len(name):08d}/{name}" for name in names]
    assert list(load_imagenet_pi(tmp_path, images, split="validation").path) == expected


@pytest.mark.parametrize("annotations", [1, 3, 16])
def test_annotations(tmp_path, annotations):
    write(tmp_path)
    got = load_imagenet_pi(tmp_path, tmp_path)
    row, label, privileged = got.annotations(annotations, random_state=3)
    np.testing.assert_array_equal(row, np.repeat(np.arange(IMAGES), annotations))
    who = privileged["annotator"].cat.codes.to_numpy()
    np.testing.assert_array_equal(label, got.y[row, who])
    np.testing.assert_array_equal(privileged["probability"], got.confidence[row, who])
    np.testing.assert_array_equal(privileged["log_parameters"], got.annotators["log_parameters"].to_numpy()[who])
    assert all(len(set(some)) == annotations for some in who.reshape(IMAGES, annotations))
    again = got.annotations(annotations, random_state=3)
    pd.testing.assert_frame_equal(again.privileged, privileged)
    encoder = TableEncoder(privileged=True).fit(privileged)
    assert "annotator" in encoder.categories()


def test_annotators_are_drawn_evenly(tmp_path):
    write(tmp_path, names=names_of("train", 3000))
    who = load_imagenet_pi(tmp_path, tmp_path).annotations(2).privileged["annotator"]
    assert stats.chisquare(who.value_counts()).pvalue > 1e-3


@pytest.mark.parametrize("annotations", [0, 17])
def test_bad_annotations(tmp_path, annotations):
    write(tmp_path)
    with pytest.raises(ValueError, match=f"annotations.*16.*{annotations}"):
        load_imagenet_pi(tmp_path, tmp_path).annotations(annotations)


def test_images_are_read_when_they_are_drawn(tmp_path):
    write(tmp_path)
    got = load_imagenet_pi(tmp_path, tmp_path)
    colours = np.random.default_rng(0).integers(256, size=(IMAGES, 3))
    pixels = got.pixels(size=16)
    assert len(pixels) == IMAGES
    for path, colour in zip(got.path[:10], colours, strict=False):  # the others are not there, and not asked for
        (tmp_path / path).parent.mkdir(exist_ok=True)
        Image.new("RGB", (300, 200), tuple(map(int, colour))).save(tmp_path / path)
    for row in (7, 2):
        assert pixels[row].shape == (3, 16, 16)
        assert pixels[row].dtype == torch.uint8
        np.testing.assert_allclose(pixels[row][:, 8, 8], colours[row], atol=3)  # JPEG
    with pytest.raises(FileNotFoundError, match=r"n00000003_10\.JPEG"):
        pixels[10]


def test_images_are_cropped_around_the_middle_and_have_three_channels(tmp_path):
    write(tmp_path, names=["n00000000_0.JPEG"])
    got = load_imagenet_pi(tmp_path, tmp_path)
    (tmp_path / got.path[0]).parent.mkdir()
    picture = np.zeros((40, 120), np.uint8)
    picture[:20, 40:80], picture[20:, 40:80] = 200, 100  # the middle third of a wide grey picture
    Image.fromarray(picture).save(tmp_path / got.path[0], format="PNG")
    pixels = got.pixels(size=20)[0]
    np.testing.assert_array_equal(pixels[:, 2:8, 2:-2], 200)
    np.testing.assert_array_equal(pixels[:, 12:-2, 2:-2], 100)


def test_pixels_are_inputs(tmp_path):
    write(tmp_path)
    got = load_imagenet_pi(tmp_path, tmp_path)
    for path in got.path:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        Image.new("RGB", (20, 20)).save(tmp_path / path)
    row, label, _ = got.annotations(2)
    row, label = torch.from_numpy(row), torch.from_numpy(label)
    batch = Annotations(got.pixels(8), row, torch.zeros(len(row), 1), label).by_annotation(torch.tensor([0, 1, 9]))
    assert batch.x.shape == (2, 3, 8, 8)
    assert batch.row.tolist() == [0, 0, 1]


def test_missing_files_say_what_to_download(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"folder.*high_noise/labels/train\.csv.*clone {URL}"):
        load_imagenet_pi(tmp_path, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"images.*nowhere.*https://www\.image-net"):
        load_imagenet_pi(tmp_path, tmp_path / "nowhere")
    write(tmp_path)
    (tmp_path / "high_noise" / "labels" / "train.csv").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:885b4f1b\nsize 632\n"
    )
    with pytest.raises(FileNotFoundError, match=r"train\.csv.*run 'git lfs pull'"):
        load_imagenet_pi(tmp_path, tmp_path)


def test_bad_options(tmp_path):
    with pytest.raises(ValueError, match=r"noise.*some"):
        load_imagenet_pi(tmp_path, tmp_path, noise="some")
    with pytest.raises(ValueError, match=r"split.*test"):
        load_imagenet_pi(tmp_path, tmp_path, split="test")


def test_other_tables(tmp_path):
    write(tmp_path)
    inside = tmp_path / "high_noise"
    (inside / "annotator_features.csv").write_text("1,2\n3,4\n")
    with pytest.raises(ValueError, match=r"annotator_features.*16.*2"):
        load_imagenet_pi(tmp_path, tmp_path)
    write(tmp_path, names=names_of("train", 9))
    confidences = inside / "confidences" / "train.csv"
    confidences.write_text("\n".join(confidences.read_text().splitlines()[1:]))
    with pytest.raises(ValueError, match=r"confidences.*n00000001_8\.JPEG"):
        load_imagenet_pi(tmp_path, tmp_path)
    (inside / "labels" / "train.csv").write_text("n00000001_8.JPEG,1,2\n")
    with pytest.raises(ValueError, match=r"labels/train\.csv.*16"):
        load_imagenet_pi(tmp_path, tmp_path)

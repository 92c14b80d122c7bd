from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lupi.compare.cache import open_run_folder
from lupi.settings import Settings
from lupi_paper.experiments.annotators import (
    EACH,
    MALICIOUS,
    WIDTHS,
    assign_annotators,
    draw_labels,
    list_names,
    raise_to_power,
    train_annotators,
)
from lupi_paper.experiments.relabelled_data import Lesson

NETWORKS = len(WIDTHS) * EACH
NAMES = list_names()
TRAINING = Settings(epochs=10, batch_size=16, learning_rate=0.02, schedule="cosine")


def make_images(count=96, classes=3, seed=0):
    """Images whose colour tells the class."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (count,), generator=generator)
    x = (60 + 70 * y)[:, None, None, None] + 30 * torch.randn(count, 3, 32, 32, generator=generator)
    x = x.clamp(0, 255).to(torch.uint8)
    read = []

    def lesson(size):
        read.append(size)
        return Lesson(x, y, x)

    return SimpleNamespace(classes=classes, true=y.numpy(), lesson=lesson, read=read)


def annotate(images, who, folder, **changes):
    options = {"width": 0.1, "size": 32, "training": TRAINING, "seed": 0, "device": torch.device("cpu")}
    return train_annotators(images, who, folder, **options | changes)


def test_every_image_has_one_annotator():
    who = assign_annotators(20_000, 0.1, seed=0)
    count = np.bincount(who, minlength=NETWORKS + 1)
    assert count[-1] == pytest.approx(2000, abs=150)
    assert count[:-1] == pytest.approx(np.full(NETWORKS, 18_000 / NETWORKS), rel=0.12)
    np.testing.assert_array_equal(who, assign_annotators(20_000, 0.1, seed=0))


def test_networks_learn_differ_and_are_kept(tmp_path):
    images = make_images()
    who = assign_annotators(96, 0.1, seed=0)
    with open_run_folder(tmp_path / "run", {}) as kept:
        first = annotate(images, who, kept)
        assert [len(p) for p in first] == [np.sum(who == number) for number in range(NETWORKS)]
        right = np.concatenate([p.argmax(1) == images.true[who == number] for number, p in enumerate(first)])
        assert right.mean() > 0.6  # 0.71 to 0.78 with three seeds, and below 0.5 if labels are shuffled
        labels = draw_labels(first, who, images.true, names=NAMES, right=0.0, seed=0)
        assert len(set(labels.relabelled.privileged["probability"].round(6))) > NETWORKS
        kept.file("annotator", 5).unlink()
        again = annotate(images, who, kept)
        assert images.read == [32, 32]
        annotate(images, who, kept)
        assert images.read == [32, 32]  # nothing is read if all networks are kept
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_annotator_without_images(tmp_path):
    images, who = make_images(6), np.array([0, 0, 3, 16, 16, 15])
    with open_run_folder(tmp_path / "run", {}) as kept:
        predictions = annotate(images, who, kept, training=Settings(epochs=1, batch_size=6))
    assert [len(p) for p in predictions] == [2, 0, 0, 1, *[0] * 11, 1]
    labels = draw_labels(predictions, who, images.true, names=NAMES, right=0.6, seed=0)
    assert np.isnan(labels.accuracies[1])
    assert labels.relabelled.row.tolist() == list(range(6))


def spread_over(p, who):
    return [p[who == number].astype(np.float32) for number in range(NETWORKS)]


def test_labels_are_the_annotators():
    """Sure networks give true labels with probability 1; the malicious annotator's are uniform."""
    who, true = assign_annotators(30_000, 0.1, seed=0), np.random.default_rng(0).integers(10, size=30_000)
    labels = draw_labels(spread_over(np.eye(10)[true], who), who, true, names=NAMES, right=0.0, seed=0)
    given, malicious = labels.relabelled, who == NETWORKS
    assert ((given.privileged["annotator"] == MALICIOUS) == malicious).all()
    assert (given.label == true)[~malicious].all()
    assert (given.label == true)[malicious].mean() == pytest.approx(0.1, abs=0.02)
    np.testing.assert_allclose(given.privileged["probability"], np.where(malicious, 0.1, 1.0))
    assert labels.accuracies == [1.0] * NETWORKS
    assert (given.privileged["annotator"].cat.codes.to_numpy() == who).all()


@pytest.mark.parametrize("right", [0.4, 0.683])
def test_as_many_labels_are_right_as_asked(right):
    rng = np.random.default_rng(0)
    who, true = assign_annotators(30_000, 0.1, seed=0), rng.integers(10, size=30_000)
    logits = rng.normal(size=(30_000, 10)) + 3 * np.eye(10)[true]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = draw_labels(spread_over(p, who), who, true, names=NAMES, right=right, seed=0)
    assert (labels.relabelled.label == true).mean() == pytest.approx(right, abs=0.01)
    ours = who == 3
    raised = p[ours] ** labels.power
    chosen = labels.relabelled.label[ours]
    expected = (raised / raised.sum(1, keepdims=True))[np.arange(len(chosen)), chosen]
    np.testing.assert_allclose(labels.relabelled.privileged["probability"][ours], expected, rtol=1e-4)


def test_networks_that_know_too_little_come_as_near_as_they_can():
    rng = np.random.default_rng(0)
    who, true = assign_annotators(2000, 0.0, seed=0), rng.integers(10, size=2000)
    wrong = np.where(rng.random(2000) < 0.5, true, (true + 1) % 10)
    labels = draw_labels(spread_over(0.5 * np.eye(10)[wrong] + 0.05, who), who, true, names=NAMES, right=0.9, seed=0)
    assert labels.power == 8
    assert (labels.relabelled.label == true).mean() == pytest.approx(0.5, abs=0.05)


def test_powers_of_distributions():
    p = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(raise_to_power(p, 1), p)
    np.testing.assert_allclose(raise_to_power(p, 0.5)[0], np.sqrt(p[0]) / np.sqrt(p[0]).sum())
    np.testing.assert_array_equal(raise_to_power(p, 3)[1], p[1])

"""Sixteen networks that label images, and a malicious annotator.

The networks are trained on true labels, including those of images that they label later, as in the paper. Every image
is labelled by one annotator, so a network predicts a sixteenth of the images. All predictive distributions are raised
to the same power, so that the share of correct labels is that of the paper.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import softmax
from torch import nn

from lupi.compare import RunFolder
from lupi.data import Annotations
from lupi.datasets import Relabelled, relabel
from lupi.methods import NoPI
from lupi.nn import over_examples
from lupi.settings import Settings
from lupi.training import fit_seeds
from lupi_paper.experiments.relabelled_data import Images
from lupi_paper.mobilenet import MobileNet
from lupi_paper.progress import show_progress

WIDTHS = (0.25, 0.35, 0.5, 0.75)
EACH = 4
"""Widths of the networks, and number of networks of each width."""
MALICIOUS = "malicious"
"""Name of the annotator that answers at random."""
STEEPEST = 8.0
"""Largest power of the distributions; its inverse is the smallest."""
SAMPLE = 10_000
"""Number of images from which the power is estimated."""
MOMENTUM = 0.1
"""Weight of a batch in the running statistics of batch norm, for networks that start from random weights."""


def list_names(width: float = 1.0) -> list[str]:
    """List the names of the sixteen networks."""
    return [f"width {width * factor:g}, {number + 1}" for factor in WIDTHS for number in range(EACH)]


def assign_annotators(images: int, malicious: float, seed: int) -> NDArray[np.int64]:
    """Draw the annotator of each image: a network, uniformly, or the malicious annotator, who has the last number."""
    rng = np.random.default_rng(seed)
    who = rng.integers(len(WIDTHS) * EACH, size=images)
    who[rng.random(images) < malicious] = len(WIDTHS) * EACH
    return who


def train_annotators(
    images: Images,
    who: NDArray[np.int64],
    folder: RunFolder,
    *,
    width: float,
    size: int,
    training: Settings,
    seed: int,
    device: torch.device,
    progress: bool = False,
) -> list[NDArray[np.float32]]:
    """Train the networks that are not yet in the folder; return the predictions of each for its own images."""
    found = [folder.load("annotator", number) or {} for number in range(len(WIDTHS) * EACH)]
    if all(found):
        return [one["probabilities"] for one in found]
    lesson = images.lesson(size)
    nothing = torch.zeros(0, images.classes)
    labels = Annotations(lesson.x, torch.arange(len(lesson.y)), torch.zeros(len(lesson.y), 0), lesson.y)
    for place, factor in enumerate(show_progress(WIDTHS, "annotators", show=progress)):
        numbers = range(place * EACH, (place + 1) * EACH)
        if all(found[number] for number in numbers):
            continue
        networks = [make_network(width * factor, images.classes, seed + number) for number in numbers]
        seeds = [seed + number for number in numbers]
        fit_seeds(networks, [labels] * EACH, training, seeds=seeds, device=device)
        for number, network in zip(numbers, networks, strict=True):
            own = torch.from_numpy(np.flatnonzero(who == number))
            p = over_examples(network.predictor(), lesson.new, rows=own).softmax(1) if len(own) else nothing
            found[number] = {"probabilities": p.cpu().numpy()}
            folder.save("annotator", number, found[number])
    return [one["probabilities"] for one in found]


def make_network(width: float, classes: int, seed: int) -> NoPI:
    """Make a network with the initial weights of a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk = MobileNet(width, momentum=MOMENTUM)
        return NoPI(trunk, nn.Linear(trunk.features, classes))


class Labels(NamedTuple):
    """Labels of images, and facts about the annotators."""

    relabelled: Relabelled
    accuracies: list[float]
    """Accuracy of each network on its own images; NaN if it has none."""
    power: float
    """The power to which the predictive distributions are raised."""


def draw_labels(
    predictions: Sequence[NDArray[np.float32]],
    who: NDArray[np.int64],
    true: NDArray[np.int64],
    *,
    names: Sequence[str],
    right: float,
    seed: int,
) -> Labels:
    """Draw one label for each image."""
    classes, networks = predictions[0].shape[1], len(predictions)
    rows = [np.flatnonzero(who == number) for number in range(networks + 1)]
    hits = [p.argmax(1) == true[own] for p, own in zip(predictions, rows, strict=False)]
    power = 1.0
    if right and len(rows[-1]) < len(who):
        malicious = len(rows[-1]) / len(who)
        share = (right - malicious / classes) / (1 - malicious)
        power = find_power(np.concatenate(predictions), true[np.concatenate(rows[:-1])], share)
    label, probability = np.empty(len(who), np.int64), np.empty(len(who))
    for number, own in enumerate(rows):
        if len(own):
            uniform = np.full((len(own), classes), 1 / classes)
            distributions = uniform if number == networks else raise_to_power(predictions[number], power)
            drawn = relabel([distributions], malicious=0, random_state=np.random.default_rng((seed, number)))
            label[own], probability[own] = drawn.label, drawn.privileged["probability"]
    annotator = pd.Categorical.from_codes(who, pd.Index([*names, MALICIOUS]))
    privileged = pd.DataFrame({"annotator": annotator, "probability": probability})
    relabelled = Relabelled(np.arange(len(who)), label, privileged)
    return Labels(relabelled, [float(hit.mean()) if len(hit) else math.nan for hit in hits], power)


def raise_to_power(p: NDArray[Any], power: float) -> NDArray[np.float64]:
    """Raise distributions to a power, and normalize them."""
    with np.errstate(divide="ignore"):
        result: NDArray[np.float64] = softmax(power * np.log(p.astype(np.float64)), axis=1)
    return result


def find_power(p: NDArray[Any], true: NDArray[np.int64], share: float) -> float:
    """Find the power of distributions for which true labels have the given mean probability, within limits."""
    some = np.random.default_rng(0).permutation(len(p))[:SAMPLE]

    def excess(log: float) -> float:
        return float(raise_to_power(p[some], math.exp(log))[np.arange(len(some)), true[some]].mean() - share)

    steepest = math.log(STEEPEST)
    if excess(steepest) <= 0:
        return STEEPEST
    if excess(-steepest) >= 0:
        return 1 / STEEPEST
    return math.exp(brentq(excess, -steepest, steepest))

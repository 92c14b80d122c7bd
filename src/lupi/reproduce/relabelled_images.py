"""Images that networks and a malicious annotator label anew: the paper's experiment on ImageNet, and its ablations.

Sixteen networks label images that they have not seen, each label drawn from the predictive distribution of one of them;
one time in ten a malicious annotator answers at random. Privileged information is who gave the label, and how probable
it was to them. Networks that learn from these labels are tested on true ones.

With CIFAR-10 the sixteen are trained here, on other images; with ImageNet and the published labels of ImageNet-PI the
same code runs on those.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 5.2 and the appendices on two steps, capacity and reduced
privileged information.
"""

from __future__ import annotations

import copy
import hashlib
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi._internal.checks import check_integer, check_number, check_positive
from lupi._internal.devices import pick_device
from lupi._internal.progress import Steps
from lupi.compare.cache import RUNS, keep, kept, open_folder
from lupi.compare.statistics import Difference, paired
from lupi.data import Annotations, Rows
from lupi.datasets import MALICIOUS, Relabelled, load_cifar10, load_imagenet_pi, relabel
from lupi.datasets.imagenet_pi import CLASSES, ImageRows
from lupi.likelihoods import Categorical
from lupi.methods import NoPI, build, kind
from lupi.nn import Parts, Tower
from lupi.nn.inference import over_examples
from lupi.nn.mobilenet import MobileNet
from lupi.reproduce.findings import COLOURS, Findings, figure, markdown_table
from lupi.reproduce.tables import (
    METRICS,
    TITLES,
    Case,
    Claim,
    Published,
    Score,
    claims_table,
    differences,
    file_of,
    in_words,
    results_table,
    score_on,
    train_cases,
    verdict,
)
from lupi.tabular.encoding import PrivilegedEncoder
from lupi.training import Checkpoint, fit, seed_noise
from lupi.training import Settings as Training

WIDTHS = (0.25, 0.35, 0.5, 0.75)
TRAININGS = ((1.0, 1.0), (1.0, 0.4), (0.5, 0.6), (0.25, 0.6))
"""Of annotators: factors of the width of the network; of the number of images and of epochs that they learn from."""
L2, FACTORS, TEMPERATURE = 1e-4, 15, 1.5
MOMENTUM = 0.1
"""Weight of a batch in the running statistics of batch norm, for networks that start from random weights."""
QUARTER = 0.5
"""Factor of the width of a network that leaves about a quarter of its parameters."""
MAIN = (
    *("no-pi", "zero-imputation", "mean-imputation", "heteroscedastic-dropout", "full-marginalization", "tram"),
    *("het-tram", "distillation", "generalized-distillation", "distilled-tram"),
)
TABLES = {
    "One step against two": ("no-pi", "two-step-no-pi", "tram", "two-step-tram"),
    "A quarter of the capacity": ("no-pi", "tram", "no-pi-quarter", "tram-quarter"),
    "Less privileged information": ("no-pi", "tram-reduced", "tram"),
}
"""Rows of the ablations."""
CLAIMS = {
    "": (
        Claim("tram", "no-pi"),
        Claim("tram", "full-marginalization", par=True),
        Claim("het-tram", "tram"),
        Claim("het-tram", "full-marginalization"),
        Claim("no-pi", "zero-imputation"),
        Claim("no-pi", "mean-imputation"),
        Claim("distilled-tram", "distillation"),
        Claim("distilled-tram", "generalized-distillation"),
    ),
    "One step against two": (Claim("two-step-tram", "tram", par=True), Claim("two-step-tram", "two-step-no-pi")),
    "Less privileged information": (Claim("tram", "tram-reduced"), Claim("tram-reduced", "no-pi")),
}
SHORT = tuple(Claim(f"{name}-short", "no-pi-short") for name in MAIN[1:])
"""Of the rows of a third of the epochs, which the paper does not have: what one would expect."""
PUBLISHED = {
    "no-pi": Published(1.264, 0.007, 71.7, 0.2),
    "zero-imputation": Published(1.895, 0.008, 63.5, 0.2),
    "mean-imputation": Published(1.619, 0.007, 65.1, 0.3),
    "heteroscedastic-dropout": Published(1.264, 0.006, 71.8, 0.1),
    "full-marginalization": Published(1.217, 0.004, 72.6, 0.2),
    "tram": Published(1.225, 0.006, 72.5, 0.2),
    "het-tram": Published(1.207, 0.008, 72.8, 0.2),
    "distillation": Published(1.207, 0.004, 72.6, 0.2),
    "generalized-distillation": Published(1.216, 0.003, 72.7, 0.2),
    "distilled-tram": Published(1.154, 0.004, 73.8, 0.2),
    "two-step-tram": Published(1.226, 0.002, 72.7, 0.2),
    "two-step-no-pi": Published(1.265, 0.008, 71.7, 0.3),
    "no-pi-quarter": Published(1.717, 0.717, 62.1, 0.3),
    "tram-quarter": Published(1.720, 0.415, 62.4, 0.2),
    "tram-reduced": Published(1.246, 0.004, 72.0, 0.2),
}
"""Of ImageNet and ResNet-50, ten seeds."""
AGREEMENT = 0.683
"""How often the paper's labels agree with the truth."""


@dataclass(frozen=True)
class Settings:
    """Images, annotators, network and training.

    Parameters
    ----------
    seed, seeds : int
        First seed, which the annotators and their labels have too, and number of seeds: of initial weights, batches
        and noise.
    images : int
        Images of CIFAR-10 that are labelled anew, at most.
    annotators_images, annotators_epochs : int
        True labels that the annotators learn from, and epochs; some learn from fewer, or for fewer.
    annotators_width : float
        Factor of the number of channels of their MobileNets, beside their own factors.
    annotators_size : int
        Height and width to which images are enlarged for the annotators: a multiple of 32.
    malicious : float
        How often the malicious annotator answers.
    noise : "high" or "low"
        Which labels of ImageNet-PI.
    trunk : str
        "mobilenet", or a name for `lupi.nn.hub.pretrained`: a model of timm starts from random weights, one of
        Hugging Face from its published weights.
    width : float
        Factor of the number of channels of the MobileNet that learns from them.
    size : int
        Height and width of the images: a multiple of 32, to which those of CIFAR-10 are enlarged.
    epochs, batch_size : int
    learning_rate : float
        The paper's, divided by 10 after 1/3, 2/3 and 8/9 of the epochs.
    het_longer : int
        How many times as long Het-TRAM trains; three times in the paper.
    samples : int
        Rows of privileged information that full marginalization averages over.
    device : str
        Where to train: "cpu", "cuda", or "auto".
    devices : int
        With several, a Lightning Fabric trains one seed after the other on all of them.
    """

    seed: int = 0
    seeds: int = 5
    images: int = 20_000
    annotators_images: int = 30_000
    annotators_epochs: int = 20
    annotators_width: float = 1.0
    annotators_size: int = 64
    malicious: float = 0.1
    noise: str = "high"
    trunk: str = "mobilenet"
    width: float = 1.0
    size: int = 32
    epochs: int = 30
    batch_size: int = 128
    learning_rate: float = 0.1
    het_longer: int = 3
    samples: int = 1000
    device: str = "auto"
    devices: int = 1

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, 0)
        check_integer("seeds", self.seeds, 2)
        for name in ("images", "annotators_images", "annotators_epochs", "epochs", "batch_size", "het_longer"):
            check_integer(name, getattr(self, name), 1)
        for name in ("samples", "devices"):
            check_integer(name, getattr(self, name), 1)
        for name in ("width", "annotators_width", "learning_rate"):
            check_positive(name, getattr(self, name))
        check_number("malicious", self.malicious, maximum=1)
        if self.noise not in ("high", "low"):
            raise ValueError(f"Expected `noise` to be 'high' or 'low', but got {self.noise!r}.")
        for name in ("size", "annotators_size"):
            if check_integer(name, getattr(self, name), 32) % 32:
                raise ValueError(f"Expected `{name}` to be a multiple of 32, but got {getattr(self, name)}.")
        if len(set(annotator_plans(self))) < len(WIDTHS) * len(TRAININGS):
            raise ValueError(
                "Expected `annotators_images` and `annotators_epochs` to be enough for annotators that differ, but got "
                f"{self.annotators_images} and {self.annotators_epochs}."
            )

    def training(self, epochs: int) -> Training:
        """How a network trains for so many epochs: the paper's way."""
        return Training(
            epochs=epochs,
            batch_size=self.batch_size,
            optimizer="sgd",
            learning_rate=self.learning_rate,
            l2=L2,
            schedule="step",
            milestones=(epochs / 3, 2 * epochs / 3, 8 * epochs / 9),
            precision="tfloat32",
            cuda_graph=True,
        )


class Lesson(NamedTuple):
    """Images with true labels for annotators to learn from, and the images that they label then."""

    x: Tensor
    y: Tensor
    new: Tensor


@dataclass(frozen=True, eq=False)
class Images:
    """Images to learn from and to test on, with numbers from 0 to 255."""

    x: Rows
    x_test: Any
    y_test: Tensor
    classes: int
    true: NDArray[np.int64] | None
    """True labels of `x`, where they are known: for counting how many of the labels are right."""
    digest: str
    """Of everything that the results depend on; of images in files only of their names and labels."""
    given: Relabelled | None = None
    """Labels that come with the images."""
    lesson: Lesson | None = None
    """For annotators, where no labels come with the images."""


@dataclass(frozen=True)
class Bytes:
    """Images in files, with numbers from 0 to 255, which is what trunks take."""

    rows: ImageRows

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Images, channels, height and width."""
        return self.rows.shape

    def __getitem__(self, index: Tensor) -> Tensor:
        return 255 * self.rows[index]


def read_images(data: Path, settings: Settings) -> Images:
    """Read ImageNet and its labels where the folder has them, CIFAR-10 otherwise."""
    clone = next((path for path in (data / "imagenet_pi", data) if (path / f"{settings.noise}_noise").is_dir()), None)
    return read_cifar(data, settings) if clone is None else read_imagenet(clone, data, settings)


def read_cifar(data: Path, settings: Settings) -> Images:
    """Read CIFAR-10, or as many of its training batches as there are."""
    inside = data / "cifar-10-batches-py" if (data / "cifar-10-batches-py").is_dir() else data
    there = takewhile(lambda number: (inside / f"data_batch_{number}").is_file(), range(1, 6))
    cifar = load_cifar10(data, batches=max(there, default=1))
    first, count = settings.annotators_images, len(cifar.y_train)
    if count <= first:
        raise ValueError(f"Expected more than {first} training images, `annotators_images`, but got {count}.")
    old, new = slice(0, first), slice(first, first + settings.images)
    digest = hashlib.sha256()
    for array in (cifar.X_train[: new.stop], cifar.y_train[: new.stop], cifar.X_test, cifar.y_test):
        digest.update(array.data)
    x, y = torch.from_numpy(cifar.X_train), torch.from_numpy(cifar.y_train)
    return Images(
        enlarged(x[new], settings.size),
        enlarged(torch.from_numpy(cifar.X_test), settings.size),
        torch.from_numpy(cifar.y_test),
        len(cifar.classes),
        cifar.y_train[new],
        digest.hexdigest()[:16],
        lesson=Lesson(x[old], y[old], x[new]),
    )


def enlarged(images: Tensor, size: int) -> Tensor:
    """Repeat the pixels of images up to a height and width.

    Examples
    --------
    >>> enlarged(torch.zeros(2, 3, 32, 32), 64).shape
    torch.Size([2, 3, 64, 64])
    """
    times = size // images.shape[-1]
    return images.repeat_interleave(times, 2).repeat_interleave(times, 3)


def read_imagenet(clone: Path, data: Path, settings: Settings) -> Images:
    """Read the published labels of ImageNet's training images, in `train`; those of `validation` are for testing."""
    noise: Any = settings.noise
    train = load_imagenet_pi(clone, data / "train", noise=noise)
    test = load_imagenet_pi(clone, data / "validation", noise=noise, split="validation")
    if test.gold is None:
        raise ValueError(
            f"Expected {data / 'validation'} to hold a folder for each of {CLASSES} classes, but got others."
        )
    digest = hashlib.sha256()
    for array in (train.y, train.confidence, test.gold):
        digest.update(np.ascontiguousarray(array).data)
    for names in (train.path, test.path):
        digest.update("\n".join(names).encode())
    return Images(
        Bytes(train.pixels(settings.size)),
        Bytes(test.pixels(settings.size)),
        torch.from_numpy(test.gold),
        CLASSES,
        train.gold,
        digest.hexdigest()[:16],
        train.annotations(random_state=settings.seed),
    )


class AnnotatorPlan(NamedTuple):
    """How an annotator comes about."""

    width: float
    images: int
    epochs: int

    @property
    def name(self) -> str:
        """A name for it."""
        return f"width {self.width:g}, {self.images} images, {self.epochs} epochs"


def annotator_plans(settings: Settings) -> list[AnnotatorPlan]:
    """List sixteen annotators of different size and training.

    Examples
    --------
    >>> annotator_plans(Settings())[-1].name
    'width 0.75, 7500 images, 12 epochs'
    """
    images, epochs = settings.annotators_images, settings.annotators_epochs
    return [
        AnnotatorPlan(settings.annotators_width * width, max(1, round(share * images)), max(1, round(longer * epochs)))
        for width, (share, longer) in product(WIDTHS, TRAININGS)
    ]


def annotate(
    images: Images, settings: Settings, folder: Path, device: torch.device, progress: bool
) -> list[NDArray[np.float32]]:
    """Train the annotators that are not kept in the folder yet, and give their predictive distributions for `x`."""
    lesson = images.lesson
    assert lesson is not None
    x, new = (enlarged(part, settings.annotators_size) for part in (lesson.x, lesson.new))
    plans, made = annotator_plans(settings), []
    with Steps("annotators", len(plans), show=progress) as steps:
        for number, plan in enumerate(plans):
            path, seed = file_of(folder, "annotator", number), settings.seed + number
            found = kept(path)
            if found is None:
                with seed_noise(seed, torch.device("cpu")):
                    trunk = MobileNet(plan.width, momentum=MOMENTUM)
                    network = NoPI(trunk, nn.Linear(trunk.features, images.classes))
                some = x[: plan.images]
                seen, y = torch.cat([some, some.flip(3)]), lesson.y[: plan.images].repeat(2)
                labels = Annotations(seen, torch.arange(len(y)), torch.zeros(len(y), 0), y)
                fit(network, labels, settings.training(plan.epochs), seed=seed, device=device)
                found = {"probabilities": over_examples(network.predictor(), new).softmax(1).cpu().numpy()}
                keep(path, found)
            made.append(found["probabilities"])
            steps.advance(1, plan.name)
    return made


class Through(Tower):
    """A tower that hands on φ(x): a conditional head on it sees no privileged information. Its layers are not used."""

    def __init__(self, privileged: int, features: int) -> None:
        super().__init__(privileged, features, (1, 1))
        self.requires_grad_(False)

    def forward(self, features: Tensor, a: Tensor) -> Tensor:  # noqa: ARG002
        """φ(x)."""
        return features


@dataclass(frozen=True)
class WithoutTower(Parts):
    """Parts with which two-step TRAM is No PI in two steps: learn φ with a head, freeze it, fit another head."""

    def tower(self, random: int = 0) -> Tower:  # noqa: ARG002
        """Make a tower that does nothing."""
        return Through(self.privileged, self.features)

    @property
    def tower_features(self) -> int:
        """Width of φ(x)."""
        return self.features


def make_trunk(settings: Settings, capacity: float = 1.0) -> tuple[Callable[[], nn.Module], int]:
    """Give what makes trunks, and the width of φ(x)."""
    make: Callable[[], Any]
    if settings.trunk == "mobilenet":
        make = partial(MobileNet, capacity * settings.width, momentum=MOMENTUM)
    else:
        from lupi.nn.hub import pretrained

        if settings.trunk.startswith("timm:"):
            make = partial(pretrained, settings.trunk, pretrained=False)
        else:
            make = partial(copy.deepcopy, pretrained(settings.trunk))
    with seed_noise(0, torch.device("cpu")):
        return make, int(make().features)


def make_cases(images: Images, given: Relabelled, settings: Settings) -> dict[str, Case]:
    """List what is trained."""
    y, row = torch.from_numpy(given.label), torch.from_numpy(given.row)
    privileged = given.privileged[["annotator", "probability"]]

    def annotations(columns: pd.DataFrame) -> Annotations:
        encoded = PrivilegedEncoder(numbers="standardize").fit_transform(columns)
        return Annotations(images.x, row, torch.from_numpy(encoded.toarray()), y)

    def parts(data: Annotations, capacity: float = 1.0) -> Parts:
        trunk, features = make_trunk(settings, capacity)
        return Parts(
            trunk,
            features=features,
            privileged=data.a.shape[1],
            outputs=images.classes,
            likelihood=Categorical(),
            tower_widths=(128, 128),
            tower_skip=True,
        )

    full, reduced = annotations(privileged), annotations(privileged[["annotator"]])
    whole, how = parts(full), settings.training(settings.epochs)
    factors = min(FACTORS, images.classes - 1)  # the softmax does not see noise that all classes share
    options: Mapping[str, Mapping[str, Any]] = {
        "full-marginalization": {"samples": settings.samples},
        "het-tram": {"factors": factors, "temperature": TEMPERATURE},
    }

    def case(name: str, epochs: int) -> Case:
        how = settings.training(epochs * (settings.het_longer if name == "het-tram" else 1))
        return Case(name, TITLES[name], name, whole, full, how, options.get(name, {}))

    cases = [case(name, settings.epochs) for name in (*MAIN, "two-step-tram")]
    without = WithoutTower(**{name: getattr(whole, name) for name in whole.__dataclass_fields__})
    cases.append(Case("two-step-no-pi", "Two-step No PI", "two-step-tram", without, full, how))
    if settings.trunk == "mobilenet":
        quarter = parts(full, QUARTER)
        cases.append(Case("no-pi-quarter", "No PI, a quarter of the parameters", "no-pi", quarter, full, how))
        cases.append(Case("tram-quarter", "TRAM, a quarter of the parameters", "tram", quarter, full, how))
    cases.append(Case("tram-reduced", "TRAM, annotator alone", "tram", parts(reduced), reduced, how))
    short = [case(name, max(1, settings.epochs // 3)) for name in MAIN]
    cases += [replace(one, name=f"{one.name}-short", title=f"{one.title}, ⅓ of the epochs") for one in short]
    return {case.name: case for case in cases}


def launched(settings: Settings) -> Any:
    """Start the processes of several devices, of which each runs everything from here on; None for one device."""
    if settings.devices == 1:
        return None
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator=settings.device, devices=settings.devices, strategy="ddp")
    fabric.launch()
    return fabric


def train_on_all(fabric: Any, cases: Sequence[Case], seeds: Sequence[int], folder: Path, score: Score) -> None:
    """Train every case with every seed on all devices, one after the other; the first process keeps the scores."""
    for case, seed in product(cases, seeds):
        path = file_of(folder, case.name, seed)
        if fabric.broadcast(kept(path) is not None):
            continue
        start, checkpoint = time.monotonic(), path.with_suffix(".pt")
        with seed_noise(seed, torch.device("cpu")):
            method = build(case.method, case.parts, **case.options)
        how = replace(case.how, cuda_graph=False)
        fit(method, case.data, how, seed=seed, fabric=fabric, checkpoint=Checkpoint(checkpoint))
        if fabric.global_rank == 0:
            keep(path, {**score(case, method), "seconds": time.monotonic() - start})
            checkpoint.unlink()
        fabric.barrier()


def run(settings: Settings, *, data: Path | None, folder: Path, overwrite: bool, progress: bool) -> Findings:
    """Relabel the images, train every case with every seed, and compare.

    Annotators, and pairs of case and seed, that are kept in the folder are not trained again.

    Parameters
    ----------
    settings : Settings
        How.
    data : Path
        A folder with ``cifar-10-batches-py``; or with a clone of ImageNet-PI (``imagenet_pi``, or the folders
        ``high_noise`` and ``low_noise``) and ImageNet's images in ``train`` and ``validation``, a folder per class.
    folder : Path
        Where results are kept.
    overwrite : bool
        Begin again where the folder has results of other settings or data.
    progress : bool
        Show progress.
    """
    if data is None:
        raise ValueError(
            "Expected `--data` to be a folder with cifar-10-batches-py, or with ImageNet-PI and ImageNet's train and "
            "validation, but got none."
        )
    make_trunk(settings)  # what cannot be made fails before annotators train
    images, device, fabric = read_images(data, settings), pick_device(settings.device), launched(settings)
    first = fabric is None or fabric.global_rank == 0
    if first:
        about = {name: value for name, value in asdict(settings).items() if name not in ("seeds", "device")}
        open_folder(folder, {"experiment": "relabelled-images", **about, "data": images.digest}, overwrite=overwrite)
        if overwrite:
            for old in folder.glob(f"{RUNS}/*.pt"):  # checkpoints
                old.unlink()
        if images.given is None:
            annotate(images, settings, folder, device, progress)
    if fabric is not None:
        fabric.barrier()
    given, accuracies = images.given, None
    if given is None:
        probabilities = annotate(images, settings, folder, device, progress=False)
        names = [plan.name for plan in annotator_plans(settings)]
        given = relabel(probabilities, malicious=settings.malicious, names=names, random_state=settings.seed)
        accuracies = [float((one.argmax(1) == images.true).mean()) for one in probabilities]
    cases, seeds = make_cases(images, given, settings), range(settings.seed, settings.seed + settings.seeds)
    score = score_on(images.x_test, images.y_test)
    if fabric is not None:
        train_on_all(fabric, list(cases.values()), seeds, folder, score)
        if not first:
            raise SystemExit(0)  # the first process reports
    runs = train_cases(list(cases.values()), seeds, folder, score, device=device, progress=progress)
    text = report(runs, cases, images, given, accuracies, settings)
    return Findings(runs, text, {"relabelled-images-methods": methods_figure(runs, cases)})


def report(
    runs: pd.DataFrame,
    cases: Mapping[str, Case],
    images: Images,
    given: Relabelled,
    accuracies: Sequence[float] | None,
    settings: Settings,
) -> str:
    """Say what was done and what it shows."""
    sections = []
    for title, names in TABLES.items():
        rows = [cases[name] for name in names if name in cases]
        if len(rows) < len(names):
            continue
        checked = [claims_table(runs, rows, CLAIMS[title], PUBLISHED)] if title in CLAIMS else []
        sections.append("\n\n".join([f"## {title}", results_table(runs, rows, PUBLISHED), *checked]))
    third = [replace(cases[f"{name}-short"], title=TITLES[name]) for name in MAIN]
    ablations = "\n\n".join(sections)
    het, times = cases["het-tram"], settings.het_longer
    long = f"{times} times as long{', as in the paper' if times == 3 else ''}" if times > 1 else "as long as the others"
    network = f"a MobileNet of width {settings.width:g} from random weights"
    network = network if settings.trunk == "mobilenet" else settings.trunk
    sizes = [f"it has {parameters(cases['tram']):.2f} million parameters"]
    if "tram-quarter" in cases:
        sizes.append(f"the smaller one of the ablation {parameters(cases['tram-quarter']):.2f} million")
    return f"""\
# Relabelled images: networks as annotators, one of them malicious

{labels_in_words(images, given, accuracies, settings)}

Privileged information is the annotator (one-hot) and the probability of the label to them (standardized). φ is
{network} on images of {settings.size} × {settings.size};
{", ".join(sizes)}. The tower has widths 128-128, and φ(x)
skips it too.
All train by SGD with momentum 0.9, learning rate {settings.learning_rate:g}, divided by 10 after 1/3, 2/3 and 8/9 of
{settings.epochs} epochs, L2 {L2:g} and batches of {settings.batch_size}, without augmentation. Het-TRAM trains
{long}; its heads have {het.options["factors"]} factors (the paper's {FACTORS} are for 1000
classes; more than the number of classes less one add nothing) and τ = {TEMPERATURE:g}. Full marginalization averages
over {settings.samples} rows of privileged information.

Tested on the true labels of {len(images.y_test)} images; mean ± standard deviation over {settings.seeds} seeds of
weights, batches and noise. The labels are the same for all seeds. The paper's numbers are those of ImageNet and
ResNet-50.

{results_table(runs, [cases[name] for name in MAIN], PUBLISHED)}

![Accuracy and NLL of every method and seed](relabelled-images-methods.svg)

## What the paper says of these rows
Differences are paired by seed, with 95 % intervals over the seeds; "surely" is p < 0.05, without a correction for the
number of claims.

{claims_table(runs, [cases[name] for name in MAIN], CLAIMS[""], PUBLISHED)}

{ablations}

## A third of the epochs
Everything else is as in the first table.

{results_table(runs, third)}

{claims_table(runs, third, SHORT, heading="statement")}

## What it shows
{shown(runs, cases, images.classes)}"""


def labels_in_words(images: Images, given: Relabelled, accuracies: Sequence[float] | None, settings: Settings) -> str:
    """Say where the labels come from, and how good they are."""
    right = ""
    if images.true is not None:
        share = 100 * float((given.label == images.true[given.row]).mean())
        right = f"The labels agree with the truth {share:.1f} % of the time (the paper's {100 * AGREEMENT:.1f} %)."
    if accuracies is None:
        return f"{len(given.label)} images of ImageNet with labels of ImageNet-PI ({settings.noise} noise). {right}"
    malicious = 100 * float((given.privileged["annotator"] == MALICIOUS).mean())
    rows: dict[str, dict[str, str]] = {}
    for plan, accuracy in zip(annotator_plans(settings), accuracies, strict=True):
        row = rows.setdefault(f"{plan.width:g}", {"width": f"{plan.width:g}"})
        row[f"{plan.images} images, {plan.epochs} epochs"] = f"{100 * accuracy:.1f}"
    return f"""\
Sixteen MobileNets of different width and training learned the true labels of {settings.annotators_images} training
images of CIFAR-10, or of the first of them, and of their mirror images, enlarged to {settings.annotators_size} ×
{settings.annotators_size}. Then they labelled {len(given.label)} others: one label per image, drawn from the predictive
distribution of one of them; {malicious:.1f} % of the labels are a malicious annotator's, drawn at random.
{right}

Accuracy of the annotators on the images that they label, in per cent, from {100 * min(accuracies):.1f} to
{100 * max(accuracies):.1f}:

{markdown_table(pd.DataFrame(rows.values()))}"""


def parameters(case: Case) -> float:
    """Millions of parameters of φ."""
    with seed_noise(0, torch.device("cpu")):
        return sum(value.numel() for value in case.parts.trunk().parameters()) / 1e6


def shown(runs: pd.DataFrame, cases: Mapping[str, Case], classes: int) -> str:
    """Say what the differences show."""
    claims = [claim for some in CLAIMS.values() for claim in some]
    told = [verdict(runs, claim) for claim in claims]
    yes, sure = sum(one.startswith("yes") for one in told), sum(one.startswith("yes, surely") for one in told)
    better = sum(not claim.par for claim in claims)
    nll, accuracy = differences(runs, "tram", "no-pi")
    lines = [
        f"- TRAM against No PI: {in_words(nll, accuracy)}.",
        f"- Of {len(claims)} things that the paper says of pairs of rows, {yes} are so here; of the {better} that one "
        f"row is better than another, {sure} surely (5 %), in NLL, accuracy or both.",
    ]
    nlls, guess = runs.groupby("method")["nll"].mean(), math.log(classes)
    if above := [case.title for name, case in cases.items() if nlls[name] > guess]:
        lines.append(
            f"- Above ln {classes} = {guess:.3f}, the NLL of a uniform guess: {'; '.join(above)}. They are "
            "surer of wrong classes than they should be, and others gain in NLL by being less so."
        )
    if "tram-quarter" in cases:
        gains = gain_lost(runs)
        smaller = gains[0].mean > 0 and gains[1].mean < 0
        told_of = "smaller, as in the paper" if smaller else "not smaller in both, unlike in the paper"
        quarter = differences(runs, "tram-quarter", "no-pi-quarter")
        lines.append(
            f"- At a quarter of the capacity TRAM against No PI: {in_words(*quarter)}. The gain is {told_of}; it "
            f"changes by {in_words(*gains)}."
        )
    reduced = differences(runs, "tram-reduced", "no-pi")
    lines.append(f"- Without the probability, TRAM against No PI: {in_words(*reduced)}.")
    shorter = [("no-pi-short", "no-pi"), ("tram-short", "no-pi-short"), ("tram", "no-pi-short")]
    stops, both, one = (in_words(*differences(runs, *pair)) for pair in shorter)
    ahead = [cases[claim.method].title for claim in SHORT if verdict(runs, claim).startswith("yes, surely")]
    lines.append(
        f"- A third of the epochs changes No PI by {stops}. TRAM against No PI then: {both}; TRAM of all epochs "
        f"against No PI of a third: {one}. Surely above No PI with a third of the epochs, in NLL, accuracy or both, "
        f"and below in neither: {'; '.join(ahead) or 'none'}."
    )
    if cases["het-tram-short"].how == cases["tram"].how:
        alike = in_words(*differences(runs, "het-tram-short", "tram"))
        lines.append(
            "- Het-TRAM with a third of the epochs trains as long as TRAM does with all of them. Against TRAM: "
            f"{alike}."
        )
    return "\n".join(lines)


def gain_lost(runs: pd.DataFrame) -> tuple[Difference, Difference]:
    """How the difference of TRAM to No PI, in NLL and accuracy, changes at a quarter of the capacity."""
    changes = []
    for metric in METRICS:
        table: Any = runs.pivot(index="seed", columns="method", values=metric)
        lost = (table["tram-quarter"] - table["no-pi-quarter"]) - (table["tram"] - table["no-pi"])
        changes.append(paired(lost.to_numpy()))
    return changes[0], changes[1]


def methods_figure(runs: pd.DataFrame, cases: Mapping[str, Case]) -> Figure:
    """Accuracy and NLL of every seed and case."""

    def colour(case: Case) -> str:
        if case.name.startswith("two-step-no") or not kind(case.method).uses_privileged:
            return COLOURS["no-pi"]
        return COLOURS["pi" if "tram" in case.method else "control"]

    def draw(axes: Sequence[Any]) -> None:
        for axis, (metric, scale, label) in zip(
            axes, (("accuracy", 100, "accuracy, %"), ("nll", 1, "NLL")), strict=True
        ):
            for place, case in enumerate(cases.values()):
                value = scale * runs.loc[runs["method"] == case.name, metric]
                spread = place + np.linspace(-0.15, 0.15, len(value))
                axis.plot(value, spread, "o", ms=4, color=colour(case), alpha=0.5)
                axis.plot(value.mean(), place, "|", ms=14, mew=2.5, color=colour(case))
            names = [re.sub(r" \(.*\)", "", case.title) for case in cases.values()]
            axis.set_yticks(range(len(cases)), names)
            axis.invert_yaxis()
            axis.set_xlabel(f"{label} (seeds, and their mean)")
        axes[1].tick_params(labelleft=False)
        for role, label in (("no-pi", "without PI"), ("pi", "TRAM and its kin"), ("control", "others with PI")):
            axes[1].plot([], [], "o", ms=4, color=COLOURS[role], label=label)
        axes[1].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, fontsize=8)

    return figure(draw, 2, figsize=(9.6, 1 + 0.26 * len(cases)))

"""Images relabelled by networks and a malicious annotator: the paper's experiment on ImageNet, and its ablations.

The label of each image is drawn from the predictive distribution of one of sixteen networks or, one time in ten, given
at random by a malicious annotator. The privileged information is the annotator and the probability of the label.
Networks that learn from these labels are tested on true labels.

With an ImageNet-style folder of files this is the paper's experiment: ResNet-50 and the labels of ImageNet-PI, if they
are there. Without them, and with CIFAR-10, the sixteen networks are trained here.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 5.2 and the appendices on two steps, capacity and reduced
privileged information.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

import pandas as pd
import torch
from torch import Tensor, nn

from lupi.compare import RunFolder, open_run_folder, to_frame
from lupi.data import Annotations
from lupi.datasets import Relabelled
from lupi.likelihoods import Categorical
from lupi.nn import Parts, Tower, resnet, use_workers
from lupi.settings import Settings as Training
from lupi.tabular import TableEncoder
from lupi.training import pick_device
from lupi_paper.augmentation import RandomCrop, RandomFlip, RandomResizedCrop
from lupi_paper.cases import Case, make_score, train_cases
from lupi_paper.experiments.annotators import (
    MOMENTUM,
    Labels,
    assign_annotators,
    draw_labels,
    list_names,
    train_annotators,
)
from lupi_paper.experiments.relabelled_data import AT_ONCE, Images, is_image_folder, read_images
from lupi_paper.experiments.relabelled_report import CASES, LATER, MAIN, PAPER, SHORT, report
from lupi_paper.findings import Findings
from lupi_paper.mobilenet import MobileNet
from lupi_paper.settings import LARGEST, check_number, check_settings, seed_range
from lupi_paper.tables import strips_figure

L2, FACTORS, TEMPERATURE = 1e-4, 15, 1.5
QUARTER = 0.5
"""Factor of the width of a network that leaves about a quarter of its parameters."""
CIFAR: dict[str, Any] = {
    "methods": CASES,
    "trunk": "mobilenet",
    "size": 32,
    "epochs": 30,
    "batch_size": 128,
    "images": 20_000,
}
FILES: dict[str, Any] = {
    "methods": PAPER,
    "trunk": "resnet",
    "size": 224,
    "epochs": 90,
    "batch_size": 256,
    "images": LARGEST,
}
"""Settings that depend on the data set."""
PATIENCE = timedelta(days=1)
"""How long processes wait for the first one, which trains annotators and tests."""
SAME_RUNS = ("seeds", "methods", "device", "workers", "checkpoint")
"""Settings that do not change the result of a run."""


WIDEST, DEEPEST, TALLEST = 16, 1000, 4096
"""Largest factor of the channels, number of blocks of a stage, and height of images: more would exhaust any memory."""


@dataclass(frozen=True)
class Settings:
    """Images, annotators, network and training."""

    seed: int = 0
    seeds: int = 5
    methods: tuple[str, ...] = ()
    images: int = 0
    annotators_images: int = 50_000
    annotators_epochs: int = 12
    annotators_width: float = 1.0
    annotators_size: int = 64
    malicious: float = 0.1
    right: float = 0.683
    noise: str = "high"
    trunk: str = ""
    width: float = 1.0
    depths: tuple[int, ...] = (3, 4, 6, 3)
    size: int = 0
    epochs: int = 0
    batch_size: int = 0
    learning_rate: float = 0.1
    het_longer: int = 3
    samples: int = 1000
    precision: str = "tfloat32"
    device: str = "auto"
    devices: int = 1
    workers: int = 8
    checkpoint: int = 1000

    def __post_init__(self) -> None:
        counts = ("annotators_images", "annotators_epochs", "het_longer", "samples", "devices", "checkpoint")
        least = {"seeds": 2, "annotators_size": 32, **dict.fromkeys(counts, 1)}
        least |= dict.fromkeys(("seed", "workers", "images", "size", "epochs", "batch_size"), 0)
        positive = ["width", "annotators_width", "learning_rate"]
        check_settings(self, least, positive=positive, choices={"noise": ("high", "low")})
        for depth in self.depths or (0,):
            check_number("depths", depth, 1, DEEPEST, whole=True)
        for name in ("width", "annotators_width"):
            check_number(name, getattr(self, name), maximum=WIDEST)
        for name in ("size", "annotators_size"):
            check_number(name, getattr(self, name), maximum=TALLEST, whole=True)
        for name in ("malicious", "right"):
            check_number(name, getattr(self, name), maximum=1)
        if self.annotators_size % 32:
            raise ValueError(f"Expected `annotators_size` to be a multiple of 32, but got {self.annotators_size}.")
        if not set(self.methods) <= set(CASES):
            raise ValueError(f"Expected `methods` to be among {', '.join(CASES)}, but got {', '.join(self.methods)}.")
        replace(Training(), precision=self.precision)  # type: ignore[arg-type]

    def complete(self, data: Path) -> Self:
        """Fill in the settings that depend on the data set."""
        defaults = FILES if is_image_folder(data) else CIFAR
        whole = replace(self, **{name: getattr(self, name) or value for name, value in defaults.items()})
        if whole.size % 32 and (whole.trunk == "mobilenet" or defaults is CIFAR):
            raise ValueError(f"Expected `size` to be a multiple of 32, but got {whole.size}.")
        return whole

    def training(self, epochs: int, augment: nn.Module | None = None) -> Training:
        """Return how a network trains for a number of epochs, as in the paper."""
        return Training(
            epochs=epochs,
            batch_size=self.batch_size,
            optimizer="sgd",
            learning_rate=self.learning_rate,
            l2=L2,
            schedule="step",
            milestones=(epochs / 3, 2 * epochs / 3, 8 * epochs / 9),
            precision=self.precision,  # type: ignore[arg-type]
            augment=augment,
            workers=self.workers,
        )


class Identity(Tower):
    """A tower that returns φ(x), so that the conditional head sees no privileged information."""

    def __init__(self, privileged: int, features: int) -> None:
        super().__init__(privileged, features, (1, 1))
        self.requires_grad_(False)

    def forward(self, features: Tensor, a: Tensor) -> Tensor:  # noqa: ARG002
        """Return φ(x)."""
        return features


@dataclass(frozen=True)
class WithoutTower(Parts):
    """Parts with which two-step TRAM is No PI in two steps: learn φ with a head, freeze it, fit another head."""

    def tower(self, random: int = 0) -> Tower:  # noqa: ARG002
        """Make a tower that returns φ(x)."""
        return Identity(self.privileged, self.features)

    @property
    def tower_features(self) -> int:
        """Width of φ(x)."""
        return self.features


def make_trunk(settings: Settings, capacity: float = 1.0) -> tuple[Callable[[], nn.Module], int]:
    """Return a function that makes trunks, and the width of φ(x)."""
    make: Callable[[], Any]
    if settings.trunk == "mobilenet":
        make = partial(MobileNet, capacity * settings.width, momentum=MOMENTUM)
    elif settings.trunk == "resnet":
        make = partial(resnet, capacity * settings.width, settings.depths)
    else:
        from lupi.nn import pretrained

        if settings.trunk.startswith("timm:"):
            make = partial(pretrained, settings.trunk, pretrained=False)
        else:
            make = partial(copy.deepcopy, pretrained(settings.trunk))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make, int(make().features)


def make_cases(images: Images, relabelled: Relabelled, settings: Settings) -> dict[str, Case]:
    """Make all cases, by name."""
    y, row = torch.from_numpy(relabelled.label), torch.from_numpy(relabelled.row)
    privileged = relabelled.privileged[["annotator", "probability"]]
    annotator = torch.from_numpy(pd.factorize(privileged["annotator"])[0])

    def annotations(columns: pd.DataFrame) -> Annotations:
        kind = {str(name): "standardized" for name in columns.select_dtypes("number")}
        encoded = TableEncoder(kind, privileged=True).fit_transform(columns)
        return Annotations(images.x, row, torch.from_numpy(encoded.toarray()), y, annotator=annotator)

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
    whole = parts(full)
    factors = min(FACTORS, images.classes - 1)  # the softmax does not see noise that all classes share
    options: Mapping[str, Mapping[str, Any]] = {
        "full-marginalization": {"samples": settings.samples},
        "het-tram": {"factors": factors, "temperature": TEMPERATURE},
    }

    augment = make_augmentation(images, settings)  # one for all: cases with equal training share their networks

    def case(name: str, epochs: int) -> Case:
        longer = epochs * (settings.het_longer if name == "het-tram" else 1)
        training = settings.training(longer, augment)
        return Case.of(name, parts=whole, data=full, training=training, options=options.get(name, {}))

    cases = [case(name, settings.epochs) for name in (*MAIN, *LATER, "two-step-tram")]
    plain = case("tram", settings.epochs)
    without = WithoutTower(**{name: getattr(whole, name) for name in whole.__dataclass_fields__})
    cases.append(replace(plain, name="two-step-no-pi", title="Two-step No PI", method="two-step-tram", parts=without))
    if settings.trunk in ("mobilenet", "resnet"):
        small = replace(plain, parts=parts(full, QUARTER))
        title = "No PI, a quarter of the parameters"
        cases.append(replace(small, name="no-pi-quarter", title=title, method="no-pi"))
        cases.append(replace(small, name="tram-quarter", title="TRAM, a quarter of the parameters"))
    cases.append(replace(plain, name="tram-reduced", title="TRAM, annotator only", parts=parts(reduced), data=reduced))
    short = [case(name, max(1, settings.epochs // 3)) for name in SHORT]
    cases += [replace(one, name=f"{one.name}-short", title=f"{one.title}, ⅓ of the epochs") for one in short]
    return {case.name: case for case in cases if case.name in settings.methods}


def make_augmentation(images: Images, settings: Settings) -> nn.Module:
    """Return how training images are augmented: random crops, and mirror images of half of them."""
    if isinstance(images.x, Tensor):  # CIFAR-10
        return nn.Sequential(RandomCrop(settings.size // 8), RandomFlip())
    return nn.Sequential(RandomResizedCrop(settings.size), RandomFlip())


def launch_fabric(settings: Settings) -> Any:
    """Start the processes of several devices, each of which runs everything from here on; None for one device."""
    if settings.devices == 1:
        return None
    from lightning.fabric import Fabric
    from lightning.fabric.strategies.ddp import DDPStrategy

    fabric = Fabric(
        accelerator=settings.device,
        devices=settings.devices,
        strategy=DDPStrategy(timeout=PATIENCE),
        precision="bf16-mixed" if settings.precision == "bfloat16" else "32-true",
    )
    fabric.launch()
    return fabric


def run(
    settings: Settings,
    *,
    data: Path | None,
    folder: Path,
    overwrite: bool,
    progress: bool,
    cluster: Any = None,
) -> Findings:
    """Relabel the images, train every case with every seed, and compare.

    Annotators and runs that are kept in the folder are not trained again.
    """
    if data is None:
        raise ValueError(
            "Expected `data` to be a folder with cifar-10-batches-py, or with images in train and validation, but got "
            "none."
        )
    if cluster is not None and settings.devices > 1:
        raise ValueError(f"Expected one of `devices` on each worker of a cluster, but got {settings.devices}.")
    settings = settings.complete(data)
    make_trunk(settings)  # fails before annotators are trained
    names = ("size", "images", "annotators_images", "noise", "seed")
    images = read_images(data, **{name: getattr(settings, name) for name in names})
    device, fabric = pick_device(settings.device), launch_fabric(settings)
    first = fabric is None or fabric.global_rank == 0
    about = {name: value for name, value in asdict(settings).items() if name not in SAME_RUNS}
    about |= {"experiment": "relabelled-images", "data": images.digest}
    with (
        open_run_folder(folder, about, overwrite=overwrite) if first else nullcontext(RunFolder(folder, about)) as kept,
        use_workers(settings.workers),
    ):
        if first:
            labels = label_images(images, settings, kept, device, progress)
        if fabric is not None:
            fabric.barrier()
        if not first:
            labels = label_images(images, settings, kept, device, progress=False)
        cases, seeds = make_cases(images, labels.relabelled, settings), seed_range(settings)
        found = train_cases(
            list(cases.values()),
            seeds,
            kept,
            make_score(images.x_test, images.y_test, AT_ONCE),
            device=device,
            fabric=fabric,
            cluster=cluster,
            every=settings.checkpoint,
            progress=progress and first,
        )
    if not first:
        raise SystemExit(0)  # the first process reports
    runs = to_frame(found)
    text = report(runs, cases, images, labels, settings)
    figure = strips_figure(runs, list(cases.values()), {"accuracy": "accuracy, %", "nll": "NLL"})
    return Findings(runs, text, {"relabelled-images-methods": figure})


def label_images(images: Images, settings: Settings, folder: RunFolder, device: torch.device, progress: bool) -> Labels:
    """Return the labels that come with the images, or those of annotators that learn here."""
    if images.published is not None:
        return Labels(images.published, [], 1.0)
    who = assign_annotators(len(images.true), settings.malicious, settings.seed)
    predictions = train_annotators(
        images,
        who,
        folder,
        width=settings.annotators_width,
        size=settings.annotators_size,
        training=replace(settings.training(settings.annotators_epochs), precision="tfloat32"),
        seed=settings.seed,
        device=device,
        progress=progress,
    )
    names = list_names(settings.annotators_width)
    return draw_labels(predictions, who, images.true, names=names, right=settings.right, seed=settings.seed)

"""Images relabelled by networks and a malicious annotator: the paper's experiment on ImageNet, and its ablations.

Sixteen networks label images that they have not seen; each label is drawn from the predictive distribution of one of
them, and one time in ten a malicious annotator answers at random. The privileged information is who gave the label and
with which probability. Networks that learn from these labels are tested on true ones.

With CIFAR-10 the sixteen networks are trained here, on other images. With ImageNet and the published labels of
ImageNet-PI the same code runs on those.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 5.2 and the appendices on two steps, capacity and reduced
privileged information.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from lupi._internal.checks import check_number
from lupi._internal.devices import pick_device
from lupi._internal.parallel import Cluster
from lupi.compare.cache import RunFolder, open_run_folder
from lupi.compare.engine import to_frame
from lupi.data import Annotations
from lupi.datasets import MALICIOUS, Relabelled, relabel
from lupi.likelihoods import Categorical
from lupi.nn import Parts, Tower
from lupi.nn.mobilenet import MobileNet
from lupi.reproduce.cases import TITLES, Case, make_score, train_cases
from lupi.reproduce.findings import Findings, render_report
from lupi.reproduce.relabelled_data import MOMENTUM, Annotator, Images, list_annotators, read_images, train_annotators
from lupi.reproduce.settings import check_settings, seed_range
from lupi.reproduce.tables import Claim, Published, claims_table, compare_in, results_table, strips_figure
from lupi.tabular.encoding import PrivilegedEncoder
from lupi.training import Settings as Training
from lupi.training import seed_noise

L2, FACTORS, TEMPERATURE = 1e-4, 15, 1.5
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
"""The rows of the ablations."""
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
"""What one would expect with a third of the epochs, which the paper does not have."""
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
"""ImageNet with ResNet-50, ten seeds."""


@dataclass(frozen=True)
class Settings:
    """Images, annotators, network and training.

    Parameters
    ----------
    seed, seeds : int
        First seed, also of the annotators and their labels, and number of seeds: of initial weights, batches and noise.
    images : int
        Maximum number of CIFAR-10 images to label anew.
    annotators_images, annotators_epochs : int
        True labels that annotators learn from, and epochs; some get fewer.
    annotators_width : float
        Factor of the number of channels of their MobileNets, besides their own factors.
    annotators_size : int
        Height and width to which images are enlarged for annotators, a multiple of 32.
    malicious : float
        Share of the labels that the malicious annotator gives.
    noise : "high" or "low"
        Which labels of ImageNet-PI.
    trunk : str
        "mobilenet", or a name for `lupi.nn.hub.pretrained`: a timm model starts from random weights, a Hugging Face
        model from its published weights.
    width : float
        Factor of the number of channels of the MobileNet that learns from the labels.
    size : int
        Height and width of the images, a multiple of 32, to which those of CIFAR-10 are enlarged.
    epochs, batch_size : int
        How to train.
    learning_rate : float
        The paper's, divided by 10 after 1/3, 2/3 and 8/9 of the epochs.
    het_longer : int
        Factor of the epochs of Het-TRAM; 3 in the paper.
    samples : int
        Rows of privileged information that full marginalization averages over.
    device : str
        "cpu", "cuda", or "auto" for a GPU where there is one.
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
        counts = ("images", "annotators_images", "annotators_epochs", "epochs", "batch_size", "het_longer", "samples")
        least = {"seed": 0, "seeds": 2, "size": 32, "annotators_size": 32, "devices": 1, **dict.fromkeys(counts, 1)}
        positive = ["width", "annotators_width", "learning_rate"]
        check_settings(self, least, positive=positive, choices={"noise": ("high", "low")})
        check_number("malicious", self.malicious, maximum=1)
        for name in ("size", "annotators_size"):
            if getattr(self, name) % 32:
                raise ValueError(f"Expected `{name}` to be a multiple of 32, but got {getattr(self, name)}.")
        if len(set(self.annotators)) < len(self.annotators):
            raise ValueError(
                "Expected `annotators_images` and `annotators_epochs` to be large enough for different annotators, "
                f"but got {self.annotators_images} and {self.annotators_epochs}."
            )

    @property
    def annotators(self) -> list[Annotator]:
        """The networks that label the images."""
        return list_annotators(self.annotators_images, self.annotators_epochs, self.annotators_width)

    def training(self, epochs: int) -> Training:
        """Return how a network trains for a number of epochs, as in the paper."""
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
    else:
        from lupi.nn.hub import pretrained

        if settings.trunk.startswith("timm:"):
            make = partial(pretrained, settings.trunk, pretrained=False)
        else:
            make = partial(copy.deepcopy, pretrained(settings.trunk))
    with seed_noise(0, torch.device("cpu")):
        return make, int(make().features)


def make_cases(images: Images, given: Relabelled, settings: Settings) -> dict[str, Case]:
    """Make all cases, by name."""
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
    whole = parts(full)
    factors = min(FACTORS, images.classes - 1)  # the softmax does not see noise that all classes share
    options: Mapping[str, Mapping[str, Any]] = {
        "full-marginalization": {"samples": settings.samples},
        "het-tram": {"factors": factors, "temperature": TEMPERATURE},
    }

    def case(name: str, epochs: int) -> Case:
        training = settings.training(epochs * (settings.het_longer if name == "het-tram" else 1))
        return Case.of(name, parts=whole, data=full, training=training, options=options.get(name, {}))

    cases = [case(name, settings.epochs) for name in (*MAIN, "two-step-tram")]
    plain = case("tram", settings.epochs)
    without = WithoutTower(**{name: getattr(whole, name) for name in whole.__dataclass_fields__})
    cases.append(replace(plain, name="two-step-no-pi", title="Two-step No PI", method="two-step-tram", parts=without))
    if settings.trunk == "mobilenet":
        small = replace(plain, parts=parts(full, QUARTER))
        title = "No PI, a quarter of the parameters"
        cases.append(replace(small, name="no-pi-quarter", title=title, method="no-pi"))
        cases.append(replace(small, name="tram-quarter", title="TRAM, a quarter of the parameters"))
    cases.append(replace(plain, name="tram-reduced", title="TRAM, annotator only", parts=parts(reduced), data=reduced))
    short = [case(name, max(1, settings.epochs // 3)) for name in MAIN]
    cases += [replace(one, name=f"{one.name}-short", title=f"{one.title}, ⅓ of the epochs") for one in short]
    return {case.name: case for case in cases}


def launch_fabric(settings: Settings) -> Any:
    """Start the processes of several devices, each of which runs everything from here on; None for one device."""
    if settings.devices == 1:
        return None
    from lightning.fabric import Fabric

    fabric = Fabric(accelerator=settings.device, devices=settings.devices, strategy="ddp")
    fabric.launch()
    return fabric


def run(
    settings: Settings,
    *,
    data: Path | None,
    folder: Path,
    overwrite: bool,
    progress: bool,
    cluster: Cluster | None = None,
) -> Findings:
    """Relabel the images, train every case with every seed, and compare.

    Annotators and runs that are kept in the folder are not trained again.

    Parameters
    ----------
    settings : Settings
        What to do.
    data : Path
        A folder with ``cifar-10-batches-py``; or with a clone of ImageNet-PI (``imagenet_pi``, or the folders
        ``high_noise`` and ``low_noise``) and ImageNet's images in ``train`` and ``validation``, a folder per class.
    folder : Path
        Folder for finished runs.
    overwrite : bool
        Whether to start again if the folder has results of other settings or data.
    progress : bool
        Whether to show progress.
    cluster : Cluster, optional
        From `lupi.compare.open_cluster`; its workers train.
    """
    if data is None:
        raise ValueError(
            "Expected `data` to be a folder with cifar-10-batches-py, or with ImageNet-PI and ImageNet's train and "
            "validation, but got none."
        )
    if cluster is not None and settings.devices > 1:
        raise ValueError(f"Expected one of `devices` on each worker of a cluster, but got {settings.devices}.")
    make_trunk(settings)  # fails before annotators are trained
    names = ("size", "images", "annotators_images", "noise", "seed")
    images = read_images(data, **{name: getattr(settings, name) for name in names})
    device, fabric = pick_device(settings.device), launch_fabric(settings)
    first = fabric is None or fabric.global_rank == 0
    about = {name: value for name, value in asdict(settings).items() if name not in ("seeds", "device")}
    about |= {"experiment": "relabelled-images", "data": images.digest}
    with (
        open_run_folder(folder, about, overwrite=overwrite) if first else nullcontext(RunFolder(folder, about)) as kept
    ):
        annotate = partial(
            train_annotators,
            images,
            settings.annotators,
            kept,
            size=settings.annotators_size,
            training=settings.training,
            seed=settings.seed,
            device=device,
        )
        if first and images.given is None:
            annotate(progress=progress)
        if fabric is not None:
            fabric.barrier()
        given, accuracies = images.given, None
        if given is None:
            predictions = annotate()
            named = [annotator.name for annotator in settings.annotators]
            given = relabel(predictions, malicious=settings.malicious, names=named, random_state=settings.seed)
            accuracies = [float((one.argmax(1) == images.true).mean()) for one in predictions]
        cases, seeds = make_cases(images, given, settings), seed_range(settings)
        score, show = make_score(images.x_test, images.y_test), progress and first
        how: Any = {"device": device, "fabric": fabric, "cluster": cluster, "progress": show}
        found = train_cases(list(cases.values()), seeds, kept, score, **how)
    if not first:
        raise SystemExit(0)  # the first process reports
    runs = to_frame(found)
    text = report(runs, cases, images, given, accuracies, settings)
    figure = strips_figure(runs, list(cases.values()), {"accuracy": "accuracy, %", "nll": "NLL"})
    return Findings(runs, text, {"relabelled-images-methods": figure})


# -------------------------------------------------------------------------------- report


def report(
    runs: pd.DataFrame,
    cases: Mapping[str, Case],
    images: Images,
    given: Relabelled,
    accuracies: Sequence[float] | None,
    settings: Settings,
) -> str:
    """Write the report."""
    main = [cases[name] for name in MAIN]
    short = [replace(cases[f"{name}-short"], title=TITLES[name]) for name in MAIN]
    ablations = {}
    for title, names in TABLES.items():
        if set(names) <= cases.keys():
            rows = [cases[name] for name in names]
            claims = claims_table(runs, rows, CLAIMS.get(title, ()), PUBLISHED)
            ablations[title] = f"{results_table(runs, rows, PUBLISHED)}\n\n{claims}"
    return render_report(
        "relabelled_images",
        settings=settings,
        given=given,
        malicious=(given.privileged["annotator"] == MALICIOUS).mean(),
        right=None if images.true is None else (given.label == images.true[given.row]).mean(),
        accuracies=accuracies,
        sizes=[count_parameters(cases[name]) if name in cases else 0 for name in ("tram", "tram-quarter")],
        het_tram=cases["het-tram"],
        tested=len(images.y_test),
        classes=images.classes,
        guess=math.log(images.classes),
        results=results_table(runs, main, PUBLISHED),
        claims=claims_table(runs, main, CLAIMS[""], PUBLISHED),
        ablations=ablations,
        short=results_table(runs, short),
        short_claims=claims_table(runs, short, SHORT, heading="statement"),
        compare=compare_in(runs),
    )


def count_parameters(case: Case) -> float:
    """Return the number of parameters of φ in millions."""
    with seed_noise(0, torch.device("cpu")):
        return sum(value.numel() for value in case.parts.trunk().parameters()) / 1e6

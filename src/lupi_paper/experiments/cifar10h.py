"""CIFAR-10H: human labels of CIFAR-10 images, by annotators of different reliability.

A MobileNet pretrained on ImageNet learns from 16,400 labels of 82 annotators, half of them unreliable. The privileged
information of a label is who gave it, how long it took, and how many labels came before. Training is on CIFAR-10's test
images, evaluation on its training images with true labels.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 4.1 and the appendix on experiments.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi.compare import open_run_folder, to_frame
from lupi.data import Annotations, SparseRows
from lupi.likelihoods import Categorical
from lupi.methods import Conditional, Method, build, kind, names
from lupi.nn import Parts, Projected, over_annotations, over_examples, pretrained
from lupi.settings import Settings as Training
from lupi.tabular import TableEncoder
from lupi.training import pick_device
from lupi_paper.cases import Case, Score, hash_arrays, make_score, train_cases
from lupi_paper.datasets import load_cifar10, load_cifar10h
from lupi_paper.findings import COLOURS, Findings, format_mean, make_figure, markdown_table, render_report
from lupi_paper.mobilenet import MobileNet
from lupi_paper.settings import check_number, check_settings, seed_range
from lupi_paper.tables import Claim, Published, claims_table, format_differences, make_comparer, results_table

PUBLISHED = {
    "no-pi": Published(1.058, 0.050, 67.0, 1.7),
    "zero-imputation": Published(1.009, 0.032, 68.7, 1.4),
    "mean-imputation": Published(0.963, 0.058, 70.1, 1.5),
    "heteroscedastic-dropout": Published(1.033, 0.044, 67.1, 1.3),
    "full-marginalization": Published(1.119, 0.058, 70.3, 2.5),
    "tram": Published(0.980, 0.037, 70.1, 1.4),
    "het-tram": Published(0.972, 0.038, 70.4, 1.5),
    "distillation": Published(1.118, 0.037, 70.1, 1.4),
    "generalized-distillation": Published(1.121, 0.040, 70.2, 1.4),
    "distilled-tram": Published(0.941, 0.039, 71.8, 1.4),
}
"""The paper's table, 20 runs."""
LATER = ("miml-fcn-plus", "tram-plus-plus", "pi-dual", "pi-transition")
"""Methods that the paper's table does not have."""
CLAIMS = (
    *(Claim(name, "no-pi") for name in ("zero-imputation", "mean-imputation", "full-marginalization", "tram")),
    *(Claim(name, "no-pi") for name in ("heteroscedastic-dropout", "het-tram", "distilled-tram")),
    Claim("tram", "full-marginalization", par=True),
    Claim("het-tram", "tram"),
    Claim("generalized-distillation", "distillation", par=True),
    Claim("distilled-tram", "distillation"),
    Claim("distilled-tram", "generalized-distillation"),
)
"""The paper's claims. Those of the second line are not stated, but its table shows them in both metrics."""
LATER_CLAIMS = tuple(Claim(name, "tram") for name in LATER)
CLASSES, WIDTH, CALIBRATION = 10, 64, 2000
"""Classes, units of the projection, and images that set the statistics of batch norm."""
GOOD = 0.85
"""Annotators who agree with the truth less often than this are all kept."""
PAIR = ("no-pi", "tram")
"""Methods that the ablation trains, and whose confidence in each annotator's labels is recorded."""
ABLATION: dict[str, dict[str, Any]] = {
    "5 epochs": {"epochs": 5},
    "10 epochs": {"epochs": 10},
    "learning rate 3e-4": {"learning_rate": 3e-4},
    "batch norm slow": {"momentum": 0.01},
    "float32": {"precision": "float32"},
}
"""Changes of settings, one at a time."""
HET_TRAM: dict[str, dict[str, Any]] = {
    "plain marginal head": {"heads": "conditional"},
    "plain conditional head": {"heads": "marginal"},
    "temperature 1": {"temperature": 1.0},
    "1000 draws": {"samples": 1000},
}
"""Changes of options of Het-TRAM, one at a time, with the settings that are changed for all methods."""
SAME_RUNS = ("seeds", "methods", "ablation", "changes", "for_all", "device", "annotators")
"""Settings that do not change the result of a run."""


@dataclass(frozen=True)
class Settings:
    """Settings of data, training and evaluation."""

    seed: int = 0
    seeds: int = 20
    methods: tuple[str, ...] = (*PUBLISHED, *LATER)
    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-3
    l2: float = 1e-3
    momentum: float = 0.1
    precision: str = "tfloat32"
    trunk: str = ""
    others: int = 41
    evaluate: int = 50_000
    ablation: int = 10
    changes: dict[str, dict[str, Any]] = field(default_factory=lambda: ABLATION)
    for_all: str = "learning rate 3e-4"
    annotators: str = "published"
    device: str = "auto"

    def __post_init__(self) -> None:
        check_settings(self, {"seed": 0, "seeds": 2}, choices={"annotators": ("published", "simulated")})
        check_number("momentum", self.momentum, maximum=1)
        self.training()
        if not set(PAIR) <= set(self.methods) <= set(names()):
            raise ValueError(f"Expected `methods` to be names with no-pi and tram among them, but got {self.methods}.")
        if self.evaluate not in range(10_000, 50_001, 10_000):
            raise ValueError(f"Expected `evaluate` to be 10000, 20000, … or 50000, but got {self.evaluate}.")
        if self.ablation and self.ablation < 2:
            raise ValueError(f"Expected `ablation` to be 0 or at least 2 seeds, but got {self.ablation}.")

    def training(self) -> Training:
        """Return how every network trains."""
        return Training(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            l2=self.l2,
            precision=self.precision,  # type: ignore[arg-type]
            cuda_graph=True,
        )

    def ablation_seeds(self) -> range:
        """Return the seeds of the ablation."""
        return range(self.seed, self.seed + min(self.ablation, self.seeds))

    def ablation_settings(self) -> dict[str, Settings]:
        """Return the settings of the ablation by name; batch norm can be changed in our own MobileNet only."""
        if not self.ablation:
            return {}
        possible = {name: new for name, new in self.changes.items() if not (self.trunk and "momentum" in new)}
        changed = {name: dataclasses.replace(self, **new) for name, new in possible.items()}
        return {name: settings for name, settings in changed.items() if settings != self}


@dataclass(frozen=True, eq=False)
class Task:
    """Training data and test set."""

    train: Annotations
    annotator: NDArray[np.intp]
    """[annotations] number of the annotator."""
    reliability: NDArray[np.float64]
    """[annotators] share of labels that agree with the truth, for the figure only."""
    agreement: float
    x: Tensor
    y: Tensor


def read_task(folder: Path, settings: Settings) -> Task:
    """Read images and labels, and encode the privileged information as in the paper."""
    labels = load_cifar10h(folder).subsample(settings.others)
    images = load_cifar10(folder, settings.evaluate // 10_000)
    a = SparseRows.from_matrix(TableEncoder(privileged=True).fit_transform(labels.privileged))
    annotator = labels.privileged["annotator"].cat.codes.to_numpy().astype(np.intp)
    right = labels.y == labels.gold
    return Task(
        Annotations(torch.from_numpy(images.X_test), torch.from_numpy(labels.example), a, torch.from_numpy(labels.y)),
        annotator,
        np.bincount(annotator, right) / np.bincount(annotator),
        float(right.mean()),
        torch.from_numpy(images.X_train),
        torch.from_numpy(images.y_train),
    )


def read_trunk(folder: Path, settings: Settings, images: Any) -> nn.Module:
    """Read the pretrained trunk; some of the images set the statistics of batch norm."""
    if settings.trunk:
        return pretrained(settings.trunk)
    some = images[torch.arange(min(CALIBRATION, images.shape[0]))]
    return MobileNet.from_npz(find_weights(folder), some, momentum=settings.momentum)


def find_weights(folder: Path) -> Path:
    """Find MobileNet's weights beside the data."""
    found = sorted(folder.glob("mobilenet*.npz"))
    if not found:
        raise FileNotFoundError(
            f"Expected {folder} to hold MobileNet's weights, mobilenet_v1_1.0_224.npz with batch norm folded into "
            "arrays such as Conv2d_0/weight (`MobileNet.from_npz`), but got none; with the extra `vision`, the "
            "setting trunk=google/mobilenet_v1_1.0_224 reads them from Hugging Face."
        )
    return found[0]


def make_parts(task: Task, trunk: nn.Module) -> Parts:
    """Return the parts of networks: a copy of the trunk and a new projection."""
    return Parts(
        lambda: Projected(copy.deepcopy(trunk), WIDTH),
        features=WIDTH,
        privileged=task.train.a.shape[1],
        outputs=CLASSES,
        likelihood=Categorical(),
    )


def make_case(method: str, task: Task, parts: Parts, settings: Settings, change: str = "") -> Case:
    """Make the case of a method; a change of the settings is part of its name."""
    case = Case.of(method, parts=parts, data=task.train, training=settings.training())
    return dataclasses.replace(case, name=case_name(method, change))


def case_name(method: str, change: str) -> str:
    """Return the name of the case of a method with a change."""
    return f"{method} {change}".strip().replace(" ", "-")


def score_with_confidence(task: Task, device: torch.device) -> Score:
    """Return a function that scores on the test set and, for two methods, on each annotator's labels."""
    on_test = make_score(task.x.to(device), task.y)

    def score(case: Case, method: Method) -> Mapping[str, Any]:
        found = on_test(case, method)
        return {**found, "confidence": mean_confidence(method, task)} if case.name in PAIR else found

    return score


def mean_confidence(method: Method, task: Task) -> NDArray[np.float64]:
    """Return the mean highest probability over each annotator's labels, given the privileged information if used."""
    if isinstance(method, Conditional):
        output = over_annotations(method, method.conditional_output, task.train)
    else:
        output = over_examples(method.predictor(), task.train.x)[task.train.row]
    highest = torch.softmax(output, -1).amax(-1).double().cpu().numpy()
    return np.asarray(np.bincount(task.annotator, highest) / np.bincount(task.annotator))


def run(
    settings: Settings,
    *,
    data: Path | None,
    folder: Path,
    overwrite: bool,
    progress: bool,
    cluster: Any = None,
) -> Findings:
    """Train every method with every seed, and the ablation; finished runs in the folder are not trained again."""
    if data is None:
        raise FileNotFoundError(
            "Expected `data` to be a folder with cifar-10-batches-py, cifar10h-raw.csv and mobilenet_v1_1.0_224.npz, "
            "but got none."
        )
    task, device = read_task(data, settings), pick_device(settings.device)
    about = {name: value for name, value in dataclasses.asdict(settings).items() if name not in SAME_RUNS}
    parts = make_parts(task, read_trunk(data, settings, task.train.x))
    about |= {"experiment": "cifar10h", "data": digest(task), "weights": weights_digest(data, settings)}
    cases = [make_case(method, task, parts, settings) for method in settings.methods]
    with open_run_folder(folder, about, overwrite=overwrite) as kept:
        train = partial(
            train_cases,
            folder=kept,
            score=score_with_confidence(task, device),
            device=device,
            cluster=cluster,
            progress=progress,
        )
        found = train(cases, seed_range(settings))
        ablated = []
        if settings.ablation_settings():
            ablated = train(make_ablation(task, data, settings), settings.ablation_seeds())
    confidence = {
        name: np.mean([run.values["confidence"] for run in found if run.arm == name], axis=0) for name in PAIR
    }
    found += ablated
    runs = to_frame(found)
    text = report(runs, cases, task, confidence, settings)
    return Findings(runs, text, {"cifar10h-annotators": annotators_figure(task.reliability, confidence)})


def digest(task: Task) -> str:
    """Return a hash of images, labels and privileged information."""
    train, a = task.train, task.train.a
    assert isinstance(a, SparseRows)
    tensors: tuple[Any, ...] = (train.x, task.x, train.y, train.row, a.index, a.value, task.y)
    return hash_arrays(*(tensor.numpy() for tensor in tensors), task.annotator)


def weights_digest(folder: Path, settings: Settings) -> str:
    """Return a hash of the trunk's files, or its name if it is not a folder."""
    if settings.trunk:
        trunk = Path(settings.trunk)
        files = sorted(path for path in trunk.rglob("*") if path.is_file())
        parts = (part for path in files for part in (bytes(path.relative_to(trunk)), path.read_bytes()))
        return hash_arrays(*parts) if trunk.is_dir() else settings.trunk
    with find_weights(folder).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def make_ablation(task: Task, folder: Path, settings: Settings) -> list[Case]:
    """Make the cases with each changed setting."""
    cases = []
    for change, other in settings.ablation_settings().items():
        parts = make_parts(task, read_trunk(folder, other, task.train.x))
        methods = settings.methods if change == settings.for_all else PAIR
        cases += [make_case(method, task, parts, other, change) for method in methods]
        if change == settings.for_all and "het-tram" in methods:
            plain = make_case("het-tram", task, parts, other, change)
            for name, options in HET_TRAM.items():
                cases.append(dataclasses.replace(plain, name=case_name(plain.name, name), options=options))
    return cases


# -------------------------------------------------------------------------------- report


def report(
    runs: pd.DataFrame,
    cases: Sequence[Case],
    task: Task,
    confidence: Mapping[str, NDArray[np.float64]],
    settings: Settings,
) -> str:
    """Write the report."""
    good, change = task.reliability >= GOOD, confidence["tram"] - confidence["no-pi"]
    own = runs["method"].isin([case.name for case in cases])
    for_all = None
    if settings.for_all in settings.ablation_settings():
        few = select_change(runs, settings.for_all, settings)
        for_all = {
            "results": results_table(few, cases, PUBLISHED),
            "claims": claims_table(few, cases, [*CLAIMS, *LATER_CLAIMS], PUBLISHED, heading="statement"),
            "het_tram": het_tram_table(runs, settings) if "het-tram" in settings.methods else "",
        }
    return render_report(
        "cifar10h",
        settings=settings,
        task=task,
        minutes=[runs.loc[part, "seconds"].sum() / 60 for part in (own, ~own)],
        results=results_table(runs, cases, PUBLISHED),
        claims=claims_table(runs, cases, CLAIMS, PUBLISHED),
        later=claims_table(runs, cases, LATER_CLAIMS, heading="statement"),
        correlation={name: correlate(task.reliability, confidence[name]) for name in PAIR},
        slope={name: np.polyfit(task.reliability, confidence[name], 1)[0] for name in PAIR},
        above=float(change[good].mean()) if good.any() else 0.0,
        below=float(change[~good].mean()) if not good.all() else 0.0,
        ablation=ablation_table(runs, settings) if settings.ablation_settings() else "",
        compare=make_comparer(runs[runs["seed"].isin(settings.ablation_seeds())]),
        case_name=case_name,
        for_all=for_all,
        het_head=build("het-tram", cases[0].parts).marginal,
    )


def correlate(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return the correlation of two quantities, 0 if one of them is constant."""
    constant = np.ptp(one) == 0 or np.ptp(other) == 0
    return 0.0 if constant else float(np.corrcoef(one, other)[0, 1])


def select_change(runs: pd.DataFrame, change: str, settings: Settings) -> pd.DataFrame:
    """Select the runs of the ablation's seeds with a change, under the names of the methods."""
    names = {case_name(method, change): method for method in settings.methods}
    few = runs[runs["seed"].isin(settings.ablation_seeds()) & runs["method"].isin(list(names))]
    return few.assign(method=few["method"].map(names))


def ablation_table(runs: pd.DataFrame, settings: Settings) -> str:
    """Make the table of No PI and TRAM with each change."""
    lines = []
    for change in ("", *settings.ablation_settings()):
        few = select_change(runs, change, settings)
        line = {"": change or "as above"}
        for method in PAIR:
            own = few[few["method"] == method]
            line[kind(method).title] = f"{own['nll'].mean():.3f} / {format_mean(100 * own['accuracy'], 1)}"
        nll, accuracy = format_differences(few, "tram", "no-pi")
        lines.append(line | {"TRAM − No PI, NLL": nll, "TRAM − No PI, points": accuracy})
    return markdown_table(lines)


def het_tram_table(runs: pd.DataFrame, settings: Settings) -> str:
    """Make the table of Het-TRAM's options, with the settings that are changed for all methods."""
    few = runs[runs["seed"].isin(settings.ablation_seeds())]
    tram, plain = (case_name(method, settings.for_all) for method in ("tram", "het-tram"))
    lines = []
    for name in ("", *HET_TRAM):
        case = case_name(plain, name)
        mean = few[few["method"] == case][["nll", "accuracy"]].mean()
        line = {"Het-TRAM": name or "as above"}
        line["NLL / accuracy, %"] = f"{mean['nll']:.3f} / {100 * mean['accuracy']:.1f}"
        for other, whose in ((tram, "TRAM's"), (plain, "the first row's")):
            nll, accuracy = format_differences(few, case, other) if case != other else ("", "")
            line |= {f"NLL minus {whose}": nll, f"accuracy minus {whose}, points": accuracy}
        lines.append(line)
    return markdown_table(lines)


def annotators_figure(reliability: NDArray[np.float64], confidence: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Draw the confidence of both methods in each annotator's labels against reliability, and their difference."""
    colours = {"no-pi": COLOURS["no-pi"], "tram": COLOURS["pi"]}

    def draw(axes: Sequence[Any]) -> None:
        for name in PAIR:
            axes[0].plot(
                reliability, confidence[name], "o", ms=4, alpha=0.7, color=colours[name], label=kind(name).title
            )
        axes[0].set_ylabel("mean confidence in the annotator's labels")
        axes[0].legend()
        axes[1].plot(reliability, confidence["tram"] - confidence["no-pi"], "o", ms=4, alpha=0.7, color=COLOURS["pi"])
        axes[1].axhline(0, color=COLOURS["control"], lw=1)
        axes[1].set_ylabel("confidence of TRAM − that of No PI")
        for axis in axes:
            axis.set_xlabel("share of the annotator's labels that are right")

    return make_figure(draw, 2, figsize=(9.6, 4.0))

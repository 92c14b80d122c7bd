"""CIFAR-10H: people's labels of CIFAR-10 images, whose annotators differ in how much they can be trusted.

MobileNet pretrained on ImageNet, 16 400 labels of 82 annotators, half of them bad; the privileged information of a
label is who gave it, how long it took, and how many labels came before. Training is on CIFAR-10's test images,
evaluation on its training images with true labels.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 4.1 and the appendix on experiments.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor, nn

from lupi._internal.checks import check_integer, check_number
from lupi._internal.devices import pick_device
from lupi.compare.cache import kept, open_folder
from lupi.data import Annotations, SparseRows
from lupi.datasets import load_cifar10, load_cifar10h
from lupi.likelihoods import Categorical
from lupi.methods import Conditional, Method
from lupi.methods.tram import het_tram
from lupi.nn import MobileNet, Parts, Projected, pretrained
from lupi.nn.inference import over_annotations, over_examples
from lupi.reproduce import tables
from lupi.reproduce.findings import COLOURS, Findings, figure, markdown_table
from lupi.reproduce.tables import (
    TITLES,
    Case,
    Claim,
    Published,
    claims_table,
    differences,
    file_of,
    in_words,
    interval,
    results_table,
    train_cases,
    verdict,
)
from lupi.tabular.encoding import PrivilegedEncoder
from lupi.tabular.text import content
from lupi.training import Settings as Training

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
METHODS = (*PUBLISHED, *LATER)
CLAIMS = (
    *(Claim(name, "no-pi") for name in ("zero-imputation", "mean-imputation", "full-marginalization", "tram")),
    *(Claim(name, "no-pi") for name in ("heteroscedastic-dropout", "het-tram", "distilled-tram")),
    Claim("tram", "full-marginalization", par=True),
    Claim("het-tram", "tram"),
    Claim("generalized-distillation", "distillation", par=True),
    Claim("distilled-tram", "distillation"),
    Claim("distilled-tram", "generalized-distillation"),
)
"""What the paper says; in the second line what its table shows in both metrics, without words."""
AFTER = tuple(Claim(name, "tram") for name in LATER)
CLASSES, WIDTH, CALIBRATION = 10, 64, 2000
"""Classes, units of the projection, and images that set the statistics of batch norm."""
GOOD = 0.85
"""Annotators who agree with the truth less often than this are kept all."""
CONFIDENT = ("no-pi", "tram")
"""Methods whose confidence in each annotator's labels is kept."""


@dataclass(frozen=True)
class Settings:
    """Data, training, evaluation.

    Parameters
    ----------
    seed, seeds : int
        First seed, and number of seeds: of initial weights, batches and noise. The data are the same for all.
    epochs, batch_size : int
        The paper's 20 epochs; its batch size is not known.
    learning_rate, l2 : float
        The paper's, of Adam; λ of λ‖w‖².
    momentum : float
        Weight of a batch in the running statistics of batch norm; 0 keeps those of the start.
    precision : str
        As of `lupi.training.Settings`.
    trunk : str
        "" for the MobileNet weights that lie beside the data, else a name for `lupi.nn.hub.pretrained`.
    others : int
        Annotators beside those who agree with the truth less than 85 % of the time.
    evaluate : int
        Official training images to evaluate on, in ten thousands.
    ablation : int
        Seeds of the ablation: No PI and TRAM with other settings, all methods with another learning rate, and with it
        Het-TRAM with other options; 0 leaves it out.
    annotators : str
        What the report calls them: "published", or "simulated" where the table of labels is a simulation.
    device : str
        "auto" is a GPU where there is one.
    """

    seed: int = 0
    seeds: int = 20
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
    annotators: str = "published"
    device: str = "auto"

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, 0)
        check_integer("seeds", self.seeds, 2)
        check_number("momentum", self.momentum, maximum=1)
        self.training()
        if self.evaluate not in range(10_000, 50_001, 10_000):
            raise ValueError(f"Expected `evaluate` to be 10000, 20000 and so on to 50000, but got {self.evaluate}.")
        if self.ablation and self.ablation < 2:
            raise ValueError(f"Expected `ablation` to be 0 or at least 2 seeds, but got {self.ablation}.")
        if self.annotators not in ("published", "simulated"):
            raise ValueError(f"Expected `annotators` to be published or simulated, but got {self.annotators!r}.")

    def training(self) -> Training:
        """How every network trains."""
        return Training(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            l2=self.l2,
            precision=self.precision,  # type: ignore[arg-type]
            cuda_graph=True,
        )

    def few(self) -> range:
        """Seeds of the ablation."""
        return range(self.seed, self.seed + min(self.ablation, self.seeds))

    def changes(self) -> dict[str, dict[str, Any]]:
        """What the ablation changes; only of our own MobileNet batch norm can be."""
        if not self.ablation:
            return {}
        possible = {name: new for name, new in ABLATION.items() if not (self.trunk and "momentum" in new)}
        return {name: new for name, new in possible.items() if dataclasses.replace(self, **new) != self}


ABLATION: dict[str, dict[str, Any]] = {
    "5 epochs": {"epochs": 5},
    "10 epochs": {"epochs": 10},
    "learning rate 3e-4": {"learning_rate": 3e-4},
    "batch norm slow": {"momentum": 0.01},
    "float32": {"precision": "float32"},
}
"""What is changed, one by one."""
FOR_ALL = "learning rate 3e-4"
"""What is changed for all methods, the rest for No PI and TRAM."""
HET_TRAM: dict[str, dict[str, Any]] = {
    "plain marginal head": {"heads": "conditional"},
    "plain conditional head": {"heads": "marginal"},
    "temperature 1": {"temperature": 1.0},
    "1000 draws": {"samples": 1000},
}
"""Options of Het-TRAM, one by one, under what is changed for all methods."""
DEFAULTS = inspect.signature(het_tram).parameters


@dataclass(frozen=True, eq=False)
class Task:
    """What is trained on, and the test set."""

    train: Annotations
    annotator: NDArray[np.intp]
    """[annotations] who gave the label, by number."""
    reliability: NDArray[np.float64]
    """[annotators] how often they agree with the truth; for the figure only."""
    agreement: float
    x: Tensor
    y: Tensor


def read_task(folder: Path, settings: Settings) -> Task:
    """Read images and labels, and encode the privileged information as the paper does."""
    labels = load_cifar10h(folder).subsample(settings.others)
    images = load_cifar10(folder, settings.evaluate // 10_000)
    a = SparseRows.from_matrix(PrivilegedEncoder().fit_transform(labels.privileged))
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
    """Read the pretrained trunk; some images set the statistics of batch norm."""
    if settings.trunk:
        return pretrained(settings.trunk)
    some = images[torch.arange(min(CALIBRATION, images.shape[0]))]
    return MobileNet.from_npz(weights_file(folder), some, momentum=settings.momentum)


def weights_file(folder: Path) -> Path:
    """Find MobileNet's weights beside the data."""
    found = sorted(folder.glob("mobilenet*.npz"))
    if not found:
        raise FileNotFoundError(
            f"Expected {folder} to hold MobileNet's weights, mobilenet_v1_1.0_224.npz with batch norm folded into "
            "arrays Conv2d_0/weight and so on (`lupi.nn.MobileNet.from_npz`), but there are none: with the extra "
            "`vision`, `--set trunk=google/mobilenet_v1_1.0_224` reads them from Hugging Face."
        )
    return found[0]


def make_parts(task: Task, trunk: nn.Module) -> Parts:
    """Say what networks are made of: a copy of the trunk, and a projection that is new."""
    return Parts(
        lambda: Projected(copy.deepcopy(trunk), WIDTH),
        features=WIDTH,
        privileged=task.train.a.shape[1],
        outputs=CLASSES,
        likelihood=Categorical(),
    )


def make_case(method: str, task: Task, parts: Parts, settings: Settings, change: str = "") -> Case:
    """Make the case of a method; a change of the settings is part of its name."""
    return Case(changed_name(method, change), TITLES[method], method, parts, task.train, settings.training())


def changed_name(method: str, change: str) -> str:
    """Name of the case of a method whose settings are changed."""
    return f"{method} {change}".strip().replace(" ", "-")


def scores(task: Task, device: torch.device) -> tables.Score:
    """Score on the test set and, for two methods, how confident they are of each annotator's labels."""
    on_test = tables.score_on(task.x.to(device), task.y)

    def score(case: Case, method: Method) -> Mapping[str, Any]:
        found = on_test(case, method)
        return {**found, "confidence": confidence(method, task)} if case.name in CONFIDENT else found

    return score


def confidence(method: Method, task: Task) -> NDArray[np.float64]:
    """Mean over each annotator's labels of the highest probability, given the privileged information if it is seen."""
    if isinstance(method, Conditional):
        output = over_annotations(method, method.given, task.train)
    else:
        output = over_examples(method.predictor(), task.train.x)[task.train.row]
    highest = torch.softmax(output, -1).amax(-1).double().cpu().numpy()
    return np.asarray(np.bincount(task.annotator, highest) / np.bincount(task.annotator))


def run(settings: Settings, *, data: Path | None, folder: Path, overwrite: bool, progress: bool) -> Findings:
    """Train every method with every seed, and the ablation; what has finished in the folder is not trained again."""
    if data is None:
        raise FileNotFoundError(
            "Expected `--data` to be a folder with cifar-10-batches-py, cifar10h-raw.csv and mobilenet_v1_1.0_224.npz, "
            "but got none."
        )
    task, device = read_task(data, settings), pick_device(settings.device)
    about = {name: value for name, value in dataclasses.asdict(settings).items() if name not in NOT_RESULTS}
    parts = make_parts(task, read_trunk(data, settings, task.train.x))
    about |= {"experiment": "cifar10h", "data": digest(task), "weights": weights_digest(data, settings)}
    open_folder(folder, about, overwrite=overwrite)
    cases = [make_case(method, task, parts, settings) for method in METHODS]
    seeds = range(settings.seed, settings.seed + settings.seeds)
    score = scores(task, device)
    runs = train_cases(cases, seeds, folder, score, device=device, progress=progress)
    if settings.changes():
        changed = ablation(task, data, settings)
        more = train_cases(changed, settings.few(), folder, score, device=device, progress=progress)
        runs = pd.concat([runs, more])
    sure = {name: confidences(folder, name, seeds) for name in CONFIDENT}
    text = report(runs, cases, task, sure, settings)
    return Findings(runs, text, {"cifar10h-annotators": annotators_figure(task.reliability, sure)})


NOT_RESULTS = ("seeds", "ablation", "device", "annotators")
"""Settings that change no kept result."""


def digest(task: Task) -> str:
    """Hash of images, labels and privileged information."""
    a = task.train.a
    assert isinstance(a, SparseRows)
    images = (task.train.x, task.x)
    arrays = (*images, task.train.y, task.train.row, a.index, a.value, task.y, torch.from_numpy(task.annotator))
    total = hashlib.sha256()
    for value in arrays:
        assert isinstance(value, Tensor)
        total.update(value.numpy().tobytes())
    return total.hexdigest()[:16]


def weights_digest(folder: Path, settings: Settings) -> str:
    """Hash of the files that the trunk is read from; the name of a model that is not a folder."""
    if settings.trunk:
        return content(Path(settings.trunk)) if Path(settings.trunk).is_dir() else settings.trunk
    with weights_file(folder).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def ablation(task: Task, folder: Path, settings: Settings) -> list[Case]:
    """Cases with each changed setting."""
    cases = []
    for change, new in settings.changes().items():
        other = dataclasses.replace(settings, **new)
        parts = make_parts(task, read_trunk(folder, other, task.train.x))
        methods = METHODS if change == FOR_ALL else CONFIDENT
        cases += [make_case(method, task, parts, other, change) for method in methods]
        if change == FOR_ALL:
            plain = make_case("het-tram", task, parts, other, change)
            for name, options in HET_TRAM.items():
                cases.append(dataclasses.replace(plain, name=changed_name(plain.name, name), options=options))
    return cases


def confidences(folder: Path, method: str, seeds: Sequence[int]) -> NDArray[np.float64]:
    """Confidence in each annotator's labels, averaged over seeds."""
    every = [kept(file_of(folder, method, seed)) for seed in seeds]
    return np.asarray(np.mean([one["confidence"] for one in every if one is not None], axis=0))


def report(
    runs: pd.DataFrame,
    cases: Sequence[Case],
    task: Task,
    sure: Mapping[str, NDArray[np.float64]],
    settings: Settings,
) -> str:
    """Say what was done and what it shows."""
    labels, who = len(task.train), len(task.reliability)
    simulated = settings.annotators == "simulated"
    kind = (
        "**simulated annotators**: real images and label counts, invented annotators"
        if simulated
        else "the published file"
    )
    heading = "CIFAR-10H, simulated annotators" if simulated else "CIFAR-10H"
    related = {name: line(task.reliability, sure[name]) for name in CONFIDENT}
    good, change = task.reliability >= GOOD, sure["tram"] - sure["no-pi"]
    apart, below = (float(change[who].mean()) if who.any() else 0.0 for who in (good, ~good))
    trunk = settings.trunk or "MobileNet"
    own = runs["method"].isin([case.name for case in cases])
    took, longer = (f"{runs.loc[part, 'seconds'].sum() / 60:.1f} minutes" for part in (own, ~own))
    took += f", and what is below with other settings in {longer}" if settings.changes() else ""
    return f"""\
# {heading}

{labels} labels by {who} annotators ({kind}), of which {100 * task.agreement:.1f} % agree with the truth: the
annotators who agree less than 85 % of the time, and {settings.others} others. Privileged information: annotator,
reaction time and number of earlier labels, the last two in ten quantiles, all one-hot. φ(x): {trunk}, pretrained, on
images of 32 × 32, and a layer of 64 units; all of it is trained, {settings.epochs} epochs of Adam
({settings.learning_rate:g}, L2 {settings.l2:g}) on batches of {settings.batch_size}. Training is on CIFAR-10's test
images, evaluation on {len(task.y)} of its training images with true labels. Mean ± standard deviation over
{settings.seeds} seeds of weights and batches; the same labels for all. Trained in {took}.

{results_table(runs, cases, PUBLISHED)}

## The paper's order
Differences are paired by seed; in brackets 95 % intervals over seeds. NLL is better when lower.

{claims_table(runs, cases, CLAIMS, PUBLISHED)}

And the methods that the paper's table does not have, beside TRAM:

{claims_table(runs, cases, AFTER, heading="statement")}

## What it shows
{shown(runs, cases)}

## Annotators
![Confidence in the labels of each annotator against how often they are right](cifar10h-annotators.svg)

The mean confidence of TRAM's conditional head in an annotator's labels, against how often the annotator agrees with the
truth: correlation {related["tram"][0]:.2f}, slope {related["tram"][1]:.2f}. That of No PI, which does not see the
annotator but learns from these labels: correlation {related["no-pi"][0]:.2f}, slope {related["no-pi"][1]:.2f}. On
average TRAM's confidence less that of No PI is {apart:+.3f} for annotators who are right at least 85 % of the time, and
{below:+.3f} for the others.
{ablation_text(runs, cases, settings) if settings.changes() else ""}"""


def line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """Correlation, and slope of the line of least squares; NaN where one of them is constant.

    Examples
    --------
    >>> line(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0]))
    (1.0, 2.0)
    """
    spread = float(x.std() * y.std())
    if spread < 1e-12:
        return float("nan"), float("nan")
    together = float(np.mean((x - x.mean()) * (y - y.mean())))
    return round(together / spread, 12), round(together / float(x.var()), 12)


def under(runs: pd.DataFrame, change: str, settings: Settings) -> pd.DataFrame:
    """Take the runs of the ablation's seeds with a change, by the names of the methods."""
    names = {changed_name(method, change): method for method in METHODS}
    few = runs[runs["seed"].isin(settings.few()) & runs["method"].isin(list(names))]
    return few.assign(method=few["method"].map(names))


def ablation_text(runs: pd.DataFrame, cases: Sequence[Case], settings: Settings) -> str:
    """Tables of the ablation."""
    lines = []
    for change in ("", *settings.changes()):
        few = under(runs, change, settings)
        line = {"": change or "as above"}
        for method in CONFIDENT:
            own = few[few["method"] == method]
            percent = 100 * own["accuracy"]
            line[TITLES[method]] = f"{own['nll'].mean():.3f} / {percent.mean():.1f} ± {percent.std():.1f}"
        nll, accuracy = differences(few, "tram", "no-pi")
        line |= {"TRAM − No PI, NLL": interval(nll, 1, 3), "TRAM − No PI, points": interval(accuracy, 100, 1)}
        lines.append(line)
    seeds = len(settings.few())
    text = f"""
## What the open choices do
NLL / accuracy in per cent, {seeds} seeds; differences with 95 % intervals over seeds. Batch norm slow: its running
statistics follow ten times as slowly, as in Keras. Float32: without rounding in matrix products.

{markdown_table(pd.DataFrame(lines))}

{sensitive(runs, settings)}"""
    if FOR_ALL not in settings.changes():
        return text
    few = under(runs, FOR_ALL, settings)
    return f"""{text}

## All methods with {FOR_ALL}
Everything else is as in the first table; {seeds} seeds.

{results_table(few, cases, PUBLISHED)}

{claims_table(few, cases, (*CLAIMS, *AFTER), PUBLISHED, heading="statement")}

{shown(few, cases)}

## Het-TRAM with {FOR_ALL}
One option is changed in each row. By default both heads are heteroscedastic, the temperature of both is
{DEFAULTS["temperature"].default:g}, and training draws {DEFAULTS["samples"].default} times.

{het_tram_table(runs, settings)}"""


def het_tram_table(runs: pd.DataFrame, settings: Settings) -> str:
    """Tell how Het-TRAM's options do, under what is changed for all methods."""
    few = runs[runs["seed"].isin(settings.few())]
    tram, plain = (changed_name(method, FOR_ALL) for method in ("tram", "het-tram"))
    lines = []
    for name in ("", *HET_TRAM):
        case = changed_name(plain, name)
        own = few[few["method"] == case]
        line = {"Het-TRAM": name or "as above"}
        line["NLL / accuracy, %"] = f"{own['nll'].mean():.3f} / {100 * own['accuracy'].mean():.1f}"
        for other, whose in ((tram, "TRAM's"), (plain, "the first row's")):
            nll, accuracy = differences(few, case, other)
            line[f"NLL less {whose}"] = interval(nll, 1, 3) if case != other else ""
            line[f"accuracy less {whose}, points"] = interval(accuracy, 100, 1) if case != other else ""
        lines.append(line)
    return markdown_table(pd.DataFrame(lines))


def sensitive(runs: pd.DataFrame, settings: Settings) -> str:
    """Say what the changes do to No PI and TRAM."""
    few = runs[runs["seed"].isin(settings.few())]
    nll = few.groupby("method")["nll"].mean()
    best = {}
    for method in CONFIDENT:
        best[method] = min(("", *settings.changes()), key=lambda change: float(nll[changed_name(method, change)]))
    names = [changed_name(method, best[method]) for method in CONFIDENT]
    each = " and ".join(f"{TITLES[method]} with {best[method] or 'the settings above'}" for method in CONFIDENT)
    lines = [
        f"Lowest NLLs: {each}. TRAM against No PI then, both chosen by the test images: "
        f"{in_words(*differences(few, names[1], names[0]))}."
    ]
    for change in settings.changes():
        told = [
            f"{TITLES[name]} changes by {in_words(*differences(few, changed_name(name, change), name))}"
            for name in CONFIDENT
        ]
        lines.append(f"With {change} {'; '.join(told)}.")
    return "\n".join(f"- {line}" for line in lines)


def shown(runs: pd.DataFrame, cases: Sequence[Case]) -> str:
    """Say what the rows show."""
    titles = {case.name: case.title for case in cases}
    told = {claim: verdict(runs, claim) for claim in CLAIMS}
    held = [claim for claim, one in told.items() if one.startswith("yes")]
    sure = [claim for claim in held if "surely in" in told[claim]]
    other = [f"{claim.in_words(titles)} ({one})" for claim, one in told.items() if claim not in held]
    mean = runs[runs["method"].isin(titles)].groupby("method")[list(tables.METRICS)].mean()
    best, sharpest = str(mean["nll"].idxmin()), str(mean["accuracy"].idxmax())
    lines = [
        f"TRAM against No PI: {in_words(*differences(runs, 'tram', 'no-pi'))}.",
        f"Of {len(CLAIMS)} statements of the paper {len(held)} hold here; of those that one row is above another, "
        f"{len(sure)} surely (p < 0.05 in NLL, accuracy or both).",
        f"These do not: {'; '.join(other)}." if other else "None fails.",
        f"The lowest NLL is that of {titles[best]}, {mean['nll'][best]:.3f}; the highest accuracy that of "
        f"{titles[sharpest]}, {100 * mean['accuracy'][sharpest]:.1f} %.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def annotators_figure(reliability: NDArray[np.float64], sure: Mapping[str, NDArray[np.float64]]) -> Figure:
    """Confidence of both methods in each annotator's labels against reliability, and their difference."""
    colours = {"no-pi": COLOURS["no-pi"], "tram": COLOURS["pi"]}

    def draw(axes: Sequence[Any]) -> None:
        for name in CONFIDENT:
            axes[0].plot(reliability, sure[name], "o", ms=4, alpha=0.7, color=colours[name], label=TITLES[name])
        axes[0].set_ylabel("mean confidence in the annotator's labels")
        axes[0].legend()
        axes[1].plot(reliability, sure["tram"] - sure["no-pi"], "o", ms=4, alpha=0.7, color=COLOURS["pi"])
        axes[1].axhline(0, color=COLOURS["control"], lw=1)
        axes[1].set_ylabel("confidence of TRAM − that of No PI")
        for axis in axes:
            axis.set_xlabel("how often the annotator agrees with the truth")

    return figure(draw, 2, figsize=(9.6, 4.0))

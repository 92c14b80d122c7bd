"""Civil Comments: several labels of a text at once, with attributes of the text as privileged information.

The published comments if they are there; else a stand-in (`lupi_paper.experiments.civil_stand_in`) of real sentences
with synthetic labels and attributes, whose label noise the attributes explain in part.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 4.3: the paper gives no settings for this set.
"""

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lupi import metrics
from lupi.compare import open_run_folder, to_frame
from lupi.data import Annotations
from lupi.likelihoods import Bernoulli
from lupi.methods import TRAM, Method, kind
from lupi.nn import MLP, Parts, over_annotations
from lupi.settings import Settings as Training
from lupi.tabular import TableEncoder, TfidfEncoder, TransformerEncoder
from lupi.training import pick_device
from lupi_paper import tables
from lupi_paper.cases import Case, Score, make_score, train_cases
from lupi_paper.datasets.civil_comments import URL, load_civil_comments
from lupi_paper.experiments import civil_stand_in
from lupi_paper.experiments.civil_stand_in import ATTRIBUTES, KINDS, Drawn, Floats, StandIn
from lupi_paper.findings import Findings, markdown_table, render_report
from lupi_paper.settings import check_settings, seed_range
from lupi_paper.tables import Claim, Published

PUBLISHED = {
    "no-pi": Published(0.0849, 0.0110, 97.83, 0.12),
    "zero-imputation": Published(0.0731, 0.0036, 98.22, 0.01),
    "mean-imputation": Published(0.0689, 0.0028, 98.21, 0.02),
    "full-marginalization": Published(0.0645, 0.0037, 97.78, 0.00),
    "heteroscedastic-dropout": Published(0.0844, 0.0123, 97.85, 0.17),
    "tram": Published(0.0638, 0.0022, 98.19, 0.01),
    "het-tram": Published(0.0624, 0.0011, 98.13, 0.06),
    "distillation": Published(0.0940, 0.0111, 97.82, 0.10),
    "generalized-distillation": Published(0.0893, 0.0001, 97.78, 0.00),
    "distilled-tram": Published(0.0650, 0.0010, 98.20, 0.01),
}
"""The paper's table, from its source."""
CLAIMS = (
    Claim("zero-imputation", "no-pi"),
    Claim("mean-imputation", "no-pi"),
    Claim("tram", "no-pi"),
    Claim("het-tram", "no-pi"),
    Claim("tram", "heteroscedastic-dropout"),
    Claim("tram", "full-marginalization"),
    Claim("het-tram", "tram", par=True),
    Claim("distillation", "no-pi", par=True),
    Claim("generalized-distillation", "no-pi", par=True),
    Claim("distilled-tram", "tram", par=True),
    Claim("distilled-tram", "distillation"),
    Claim("distilled-tram", "generalized-distillation"),
)
METHODS = (*PUBLISHED, "miml-fcn-plus", "tram-plus-plus", "pi-dual", "pi-transition")
OPTIONS: dict[str, dict[str, Any]] = {"full-marginalization": {"samples": 1000}}
"""As many as the paper uses for ImageNet."""
WIDTH = 64
TRAIN, TESTS = "train.csv", ("test_private_expanded.csv", "test_public_expanded.csv")
SENTENCES = ("annotations.parquet", "test.parquet")
ACCURACY_DIGITS = 2


@dataclass(frozen=True)
class Settings:
    """Settings of data, encoder and training."""

    seed: int = 0
    seeds: int = 10
    encoder: str = ""
    comments: int = 0
    task: int = 0
    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-3
    l2: float = 1e-3
    shuffled: bool = True
    device: str = "auto"

    def __post_init__(self) -> None:
        check_settings(self, {"seeds": 2, "seed": 0, "comments": 0, "task": 0})
        self.training()

    def training(self) -> Training:
        """Return how every method trains."""
        return Training(epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate, l2=self.l2)


# -------------------------------------------------------------------------------- reading


class Texts(NamedTuple):
    """Texts to train and to test on and, of published ones, a and y."""

    train: Sequence[str]
    test: Sequence[str]
    known: tuple[Floats, Floats, Floats] | None
    """a and y of the training texts, and y of the test texts; None if the stand-in draws them."""

    def fingerprint(self) -> str:
        """Return a hash of everything."""
        total = hashlib.sha256()
        for part in (self.train, self.test):
            total.update("\0".join(part).encode())
        for numbers in self.known or ():
            total.update(np.ascontiguousarray(numbers).tobytes())
        return total.hexdigest()


def read_texts(data: Path | None, settings: Settings) -> Texts:
    """Read the published comments or, if there are none, the sentences of the stand-in."""
    if data is not None and (data / TRAIN).is_file():
        return read_comments(data, settings)
    if data is not None and all((data / name).is_file() for name in SENTENCES):
        return read_sentences(*(data / name for name in SENTENCES))
    got = "none" if data is None else f"{data}, which has neither"
    raise FileNotFoundError(
        f"Expected `data` to be a folder with {TRAIN} and {TESTS[0]} of Civil Comments, from {URL} (which needs an "
        "account; comment_text, target, its six kinds and the 24 identities), or for the stand-in with "
        f"{' and '.join(SENTENCES)}, tables of sentences in a column text, but got {got}."
    )


def read_comments(data: Path, settings: Settings) -> Texts:
    """Read the published comments whose identities are known."""
    test = next((data / name for name in TESTS if (data / name).is_file()), None)
    if test is None:
        raise FileNotFoundError(f"Expected {data} to have {' or '.join(TESTS)} beside {TRAIN}, but got neither.")
    fit, score = load_civil_comments(data / TRAIN), load_civil_comments(test)
    for path, part in ((data / TRAIN, fit), (test, score)):
        if len(part.X) == 0:
            raise ValueError(f"Expected {path} to have comments whose identities are annotated, but got none.")
    rows = np.arange(len(fit.X))
    if settings.comments:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[: settings.comments])
    a = fit.privileged.to_numpy(np.float64)[rows]
    return Texts(list(fit.X[rows]), list(score.X), (a, fit.y[rows].astype(float), score.y.astype(float)))


def read_sentences(fit: Path, score: Path) -> Texts:
    """Read the distinct training sentences, and the test sentences that are not among them."""
    found = []
    for path in (fit, score):
        try:
            found.append([str(text) for text in pd.read_parquet(path, columns=["text"])["text"].unique()])
        except (ValueError, KeyError) as error:
            raise ValueError(f"Expected {path} to have sentences in a column text, but it has none.") from error
    train, known = found[0], set(found[0])
    test = [text for text in found[1] if text not in known]
    if len(train) < 2 or len(test) < 2:
        raise ValueError(
            f"Expected {fit.parent} to have sentences to train and to test on, but got {len(train)} and {len(test)}."
        )
    return Texts(train, test, None)


class Task(NamedTuple):
    """Training data and test set."""

    data: Annotations
    x: Tensor
    y: Tensor
    drawn: tuple[Drawn, Drawn] | None
    """What the stand-in drew for training and test sentences."""


def make_task(texts: Texts, encoder: TfidfEncoder | TransformerEncoder, settings: Settings) -> Task:
    """Embed the texts, standardize each feature by the training texts, and draw what the stand-in needs."""
    scale = TableEncoder()
    fit = np.asarray(scale.fit_transform(encoder.transform(texts.train)))
    score = np.asarray(scale.transform(encoder.transform(texts.test)))
    drawn = None
    if texts.known is None:
        generator = np.random.default_rng(settings.task)
        stand_in = StandIn.fit(fit.astype(np.float64), generator)
        drawn = stand_in.draw(fit.astype(np.float64), generator), stand_in.draw(score.astype(np.float64), generator)
        a, y, truth = drawn[0].a, drawn[0].y, drawn[1].y
    else:
        a, y, truth = texts.known
    data = Annotations(torch.from_numpy(fit), torch.arange(len(fit)), as_tensor(a), as_tensor(y))
    return Task(data, torch.from_numpy(score), as_tensor(truth), drawn)


def as_tensor(values: Floats) -> Tensor:
    """Return a tensor of single precision."""
    return torch.from_numpy(values.astype(np.float32))


# -------------------------------------------------------------------------------- running


def make_cases(task: Task, settings: Settings) -> list[Case]:
    """Make a case for every method, on the same parts."""
    width = task.x.shape[1]
    parts = Parts(
        lambda: MLP(width, (WIDTH,)), features=WIDTH, privileged=ATTRIBUTES, outputs=KINDS, likelihood=Bernoulli()
    )
    return [
        Case.of(name, parts=parts, data=task.data, training=settings.training(), options=OPTIONS.get(name, {}))
        for name in METHODS
    ]


def shuffle_cases(cases: Sequence[Case]) -> list[Case]:
    """Make the cases of methods with PI again, with PI of other texts."""
    data = cases[0].data
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(data)))
    other = dataclasses.replace(data, a=data.a[order])
    return [
        dataclasses.replace(case, name=f"{case.name}-shuffled", title=f"{case.title}, shuffled PI", data=other)
        for case in cases
        if kind(case.method).uses_privileged
    ]


def score_task(task: Task) -> Score:
    """Return a function that scores on the test labels; with the stand-in also on clean labels, and given a."""
    reported_score = make_score(task.x, task.y)
    if task.drawn is None:
        return reported_score
    clean_score = make_score(task.x, as_tensor(task.drawn[1].clean))
    test = Annotations(task.x, torch.arange(len(task.x)), as_tensor(task.drawn[1].a), task.y)

    def score(case: Case, method: Method) -> Mapping[str, Any]:
        scores = dict(reported_score(case, method))
        scores |= {f"clean_{name}": value for name, value in clean_score(case, method).items()}
        if isinstance(method, TRAM) and case.method == "tram":
            for part, data in (("train", task.data), ("test", test)):
                output = over_annotations(method, method.conditional_output, data)
                scores[f"given_{part}_nll"] = float(method.likelihood.loss(output, data.y.to(output.device)))
        return scores

    return score


def run(
    settings: Settings,
    *,
    data: Path | None,
    folder: Path,
    overwrite: bool,
    progress: bool,
    cluster: Any = None,
) -> Findings:
    """Train every method with every seed on the comments or the stand-in, and report."""
    texts, device = read_texts(data, settings), pick_device(settings.device)
    encoder = TransformerEncoder(settings.encoder, str(device)) if settings.encoder else TfidfEncoder()
    encoder.fit(texts.train)
    about = dataclasses.asdict(settings) | {"data": texts.fingerprint()}
    if isinstance(encoder, TransformerEncoder):
        about["encoder"] = encoder.version_
    for name in ("seeds", "shuffled", "device"):  # they do not change the result of a run
        del about[name]
    task = make_task(texts, encoder, settings)
    cases = make_cases(task, settings)
    every = [*cases, *(shuffle_cases(cases) if settings.shuffled else [])]
    with open_run_folder(folder, {"experiment": "civil-comments", **about}, overwrite=overwrite) as kept:
        found = train_cases(
            every, seed_range(settings), kept, score_task(task), device=device, cluster=cluster, progress=progress
        )
    runs = to_frame(found)
    panels = {"nll": "NLL on reported labels", "clean_nll": "NLL on clean labels"}
    levels = reference_levels(task)
    shown = {title: levels[title][0] for title in list(levels)[:2]}  # p(y|x,a) is out of reach from x
    figure = tables.strips_figure(runs, cases, {name: label for name, label in panels.items() if name in runs}, shown)
    return Findings(runs, report(runs, cases, task, settings), {"civil-comments-nll": figure})


# -------------------------------------------------------------------------------- report


def reference_levels(task: Task) -> dict[str, tuple[float, float]]:
    """Return NLL and accuracy of predictions that need no learning.

    They are the training rates of the labels and, with the stand-in, the probabilities from which labels were drawn.
    """
    y = task.y.numpy().astype(float)
    known = {"the training rates": np.broadcast_to(task.data.y.numpy().astype(float).mean(0), y.shape)}
    if task.drawn is not None:
        known |= {"the true p(y|x)": task.drawn[1].given_x, "the true p(y|x,a)": task.drawn[1].given_both}
    return {title: (metrics.nll(y, p).mean(), metrics.accuracy(y, p).mean()) for title, p in known.items()}


def report(runs: pd.DataFrame, cases: Sequence[Case], task: Task, settings: Settings) -> str:
    """Write the report."""
    values: dict[str, Any] = {"stand_in": None, "label": ""}
    if task.drawn is not None:
        clean, y = task.drawn[0].clean > 0, task.drawn[0].y > 0
        cleanly = runs.assign(nll=runs["clean_nll"], accuracy=runs["clean_accuracy"])
        values = {
            "stand_in": civil_stand_in,
            "label": "Stand-in: real sentences, synthetic labels and attributes. ",
            "added": y[~clean].mean(),
            "removed": 1 - y[clean].mean(),
            "clean": tables.results_table(cleanly, cases, accuracy_digits=ACCURACY_DIGITS),
            "given": runs[runs["method"] == "tram"][["given_train_nll", "given_test_nll"]].mean(),
        }
    return render_report(
        "civil_comments",
        settings=settings,
        task=task,
        levels=reference_levels(task),
        width=WIDTH,
        samples=OPTIONS["full-marginalization"]["samples"],
        results=tables.results_table(runs, cases, PUBLISHED, accuracy_digits=ACCURACY_DIGITS),
        claims=tables.claims_table(runs, cases, CLAIMS, PUBLISHED, accuracy_digits=ACCURACY_DIGITS),
        shuffled=shuffled_table(runs, cases) if settings.shuffled else "",
        compare=tables.make_comparer(runs, ACCURACY_DIGITS),
        no_pi=runs.loc[runs["method"] == "no-pi", "nll"].mean(),
        **values,
    )


def shuffled_table(runs: pd.DataFrame, cases: Sequence[Case]) -> str:
    """Make the table of scores with shuffled PI, and of the differences from them."""
    lines = []
    for case in cases:
        if not kind(case.method).uses_privileged:
            continue
        mean = runs[runs["method"] == f"{case.name}-shuffled"][["nll", "accuracy"]].mean()
        nll, accuracy = tables.format_differences(runs, case.name, f"{case.name}-shuffled", ACCURACY_DIGITS)
        line = {
            "method": case.title,
            "NLL, shuffled": f"{mean['nll']:.3f}",
            "accuracy, shuffled": f"{100 * mean['accuracy']:.2f} %",
            "NLL, difference": nll,
            "accuracy, points": accuracy,
        }
        lines.append(line)
    return markdown_table(lines)

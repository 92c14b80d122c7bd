"""Several labels of a text at once, with attributes of the text as privileged information.

The published comments where they are to be had; else a stand-in of real sentences whose labels and attributes are
drawn, with label noise that the attributes explain in part.

Collier, Jenatton, Kokiopoulou and Berent (ICML 2022), section 4.3: the paper gives no settings for this set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import Tensor

from lupi._internal.checks import check_integer
from lupi._internal.devices import pick_device
from lupi.compare.cache import open_folder
from lupi.compare.cases import digest
from lupi.compare.statistics import difference
from lupi.data import Annotations
from lupi.datasets.civil_comments import IDENTITIES, LABELS, URL, load_civil_comments
from lupi.likelihoods import SMALLEST, Bernoulli
from lupi.methods import TRAM, Method, kind
from lupi.nn import MLP, Parts
from lupi.nn.inference import over_annotations
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
    in_words,
    interval,
    results_table,
    score_on,
    train_cases,
    verdict,
)
from lupi.tabular.encoding import InputEncoder
from lupi.tabular.text import TfidfEncoder, TransformerEncoder, make_encoder
from lupi.training import Settings as Training

Floats = NDArray[np.float64]

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
METHODS = tuple(name for name in TITLES if name != "two-step-tram")
OPTIONS: dict[str, dict[str, Any]] = {"full-marginalization": {"samples": 1000}}
"""As many as the paper takes for ImageNet."""
WIDTH = 64
TRAIN, TESTS = "train.csv", ("test_private_expanded.csv", "test_public_expanded.csv")
SENTENCES = ("annotations.parquet", "test.parquet")
STAND_IN = "Stand-in: real sentences, synthetic labels and attributes"
DIGITS, POINTS = 3, 2
"""Digits of NLLs and of accuracies in per cent."""


@dataclass(frozen=True)
class Settings:
    """Data, encoder, training.

    Parameters
    ----------
    seed, seeds : int
        First seed, and number of seeds: of initial weights, batches and noise.
    encoder : str
        What makes numbers of a text: a folder with a Hugging Face model, its name on the hub, or nothing for TF-IDF.
    comments : int
        Train on so many of the published comments, drawn at random; 0 is all.
    task : int
        Seed of the stand-in's labels and attributes.
    epochs, batch_size, learning_rate, l2
        As of `lupi.training.Settings`, with Adam.
    shuffled : bool
        Whether to train every method with PI on shuffled PI too, which tells what of its gain is of PI.
    device : str
        "cpu", "cuda", or "auto" for a GPU where there is one.
    """

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
        check_integer("seeds", self.seeds, 2)
        for name in ("seed", "comments", "task"):
            check_integer(name, getattr(self, name), 0)
        self.training()

    def training(self) -> Training:
        """How every method trains."""
        return Training(epochs=self.epochs, batch_size=self.batch_size, learning_rate=self.learning_rate, l2=self.l2)


# -------------------------------------------------------------------------------- the stand-in

KINDS, ATTRIBUTES = len(LABELS), len(IDENTITIES)
RATES = np.array([0.30, 0.20, 0.14, 0.10, 0.07, 0.05, 0.03])
"""Share of the sentences that have each label; Civil Comments' are smaller, too small to measure on a few thousand."""
MENTIONED = np.geomspace(0.05, 0.2, ATTRIBUTES)
"""Probability of each attribute in a sentence of average topic."""
BY_TOPIC = np.arange(ATTRIBUTES) % 2 == 0
"""Attributes whose probability depends on the sentence."""
ADDS, REMOVES = (np.arange(ATTRIBUTES) % 3 == part for part in (0, 1))
"""Attributes for which labels are over-reported, and under-reported; the others do nothing."""
ON_LABELS = np.array([[(kind - j // 3) % KINDS in (0, 1, 3) for kind in range(KINDS)] for j in range(ATTRIBUTES)])
"""[attributes, labels] the three labels that an attribute bears on."""
ADDED, REMOVED = np.outer(ADDS, RATES) * ON_LABELS, 0.5 * REMOVES[:, np.newaxis] * ON_LABELS
"""[attributes, labels] probability that an attribute of share 1 puts a label on, or takes it off: twice, or half."""
READERS, SEEN, IMAGINED = 10, 0.8, 0.02
"""Readers who are asked for an attribute, and how many say yes where it is mentioned and where it is not."""
COMPONENTS = 16
"""Principal components of the embedding that labels and topics depend on: few, since there are few sentences."""
TOPIC = 2.0
"""What one standard deviation of topic adds to the log-odds of an attribute."""


class Drawn(NamedTuple):
    """Labels and attributes of sentences, and the probabilities that they were drawn with."""

    a: Floats
    """[sentences, 24] share of the readers who see the attribute."""
    y: Floats
    """[sentences, 7] reported labels."""
    clean: Floats
    """[sentences, 7] labels without noise."""
    given_x: Floats
    """[sentences, 7] p(y | x)."""
    given_both: Floats
    """[sentences, 7] p(y | x, a)."""


@dataclass(frozen=True)
class StandIn:
    """Labels and attributes as functions of a sentence's embedding, up to chance.

    A label is on where a direction of the embedding exceeds a threshold; the directions of the labels share a part, as
    kinds of toxicity do. An attribute is mentioned with a probability that, for half of them, depends on another
    direction; its value is the share of readers who see it. Attributes put labels on that are off, take others off,
    or do nothing.

    Parameters
    ----------
    severity, topic : ndarray
        [features, labels] and [features, attributes] directions, of which the training sentences have variance 1.
    threshold : ndarray
        [labels] above which a label is on.
    """

    severity: Floats
    topic: Floats
    threshold: Floats

    @classmethod
    def make(cls, x: Floats, generator: np.random.Generator) -> StandIn:
        """Draw directions for the training sentences."""
        whiten = PCA(min(COMPONENTS, *x.shape), whiten=True, random_state=0).fit(x)
        axes = whiten.components_.T / np.sqrt(whiten.explained_variance_)
        shared, own = generator.normal(size=(axes.shape[1], 1)), generator.normal(size=(axes.shape[1], KINDS))
        severity, topic = axes @ (shared + own), axes @ generator.normal(size=(axes.shape[1], ATTRIBUTES))
        severity, topic = severity / (x @ severity).std(0), topic / (x @ topic).std(0)
        score = x @ severity
        threshold = [np.quantile(score[:, kind], 1 - rate) for kind, rate in enumerate(RATES)]
        return cls(severity, topic, np.array(threshold))

    def draw(self, x: Floats, generator: np.random.Generator) -> Drawn:
        """Draw labels and attributes of sentences."""
        clean = (x @ self.severity > self.threshold).astype(float)
        odds = MENTIONED / (1 - MENTIONED) * np.exp(TOPIC * BY_TOPIC * (x @ self.topic))
        mention = odds / (1 + odds)
        seen = np.where(generator.random(mention.shape) < mention, SEEN, IMAGINED)
        a = generator.binomial(READERS, seen) / READERS
        given_both = reported(clean, a)
        # Attributes are independent given x, and a product of independent factors has the product of their means.
        given_x = reported(clean, SEEN * mention + IMAGINED * (1 - mention))
        y = (generator.random(clean.shape) < given_both).astype(float)
        return Drawn(a, y, clean, given_x, given_both)


def reported(clean: Floats, a: Floats) -> Floats:
    """Probability that labels are reported as on, [sentences, labels], by the clean labels and the attributes.

    Examples
    --------
    No attributes, no noise; then the first attribute, which puts the first label on with its own rate:

    >>> nothing = np.zeros((1, ATTRIBUTES))
    >>> reported(np.zeros((1, KINDS)), nothing).sum()
    np.float64(0.0)
    >>> nothing[0, 0] = 1
    >>> reported(np.zeros((1, KINDS)), nothing)[0, :3].round(3)
    array([0.3, 0.2, 0. ])
    """
    stays_off, stays_on = (np.prod(1 - a[:, :, np.newaxis] * part, axis=1) for part in (ADDED, REMOVED))
    return np.asarray(np.where(clean > 0, stays_on, 1 - stays_off))


# -------------------------------------------------------------------------------- reading


class Texts(NamedTuple):
    """What the files hold: texts to train and to test on, and of the published ones a and y."""

    train: Sequence[str]
    test: Sequence[str]
    known: tuple[Floats, Floats, Floats] | None
    """a and y of the training texts, and y of the test texts; None where the stand-in draws them."""

    def fingerprint(self) -> str:
        """Digest of everything."""
        frames = [pd.DataFrame({"text": list(part)}) for part in (self.train, self.test)]
        return digest([*frames, *(pd.DataFrame(part) for part in self.known or ())])


def read(data: Path | None, settings: Settings) -> Texts:
    """Read the published comments or, where there are none, the sentences of the stand-in."""
    if data is not None and (data / TRAIN).is_file():
        return read_comments(data, settings)
    if data is not None and all((data / name).is_file() for name in SENTENCES):
        return read_sentences(*(data / name for name in SENTENCES))
    got = "none" if data is None else f"{data}, which has neither"
    raise FileNotFoundError(
        f"Expected `--data` to be a folder with {TRAIN} and {TESTS[0]} of Civil Comments, from {URL} (which needs an "
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
    """Read the distinct sentences to train on, and those to test on that are not among them."""
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
    """What to train on and to score on."""

    data: Annotations
    x: Tensor
    y: Tensor
    drawn: tuple[Drawn, Drawn] | None
    """Of the stand-in, for training and test sentences."""


def make_task(texts: Texts, encoder: TfidfEncoder | TransformerEncoder, settings: Settings) -> Task:
    """Embed the texts, each feature standardised by the training texts, and draw what the stand-in needs."""
    scale = InputEncoder()
    fit = scale.fit_transform(encoder.transform(texts.train))
    score = scale.transform(encoder.transform(texts.test))
    drawn = None
    if texts.known is None:
        generator = np.random.default_rng(settings.task)
        make = StandIn.make(fit.astype(np.float64), generator)
        drawn = make.draw(fit.astype(np.float64), generator), make.draw(score.astype(np.float64), generator)
        a, y, truth = drawn[0].a, drawn[0].y, drawn[1].y
    else:
        a, y, truth = texts.known
    data = Annotations(torch.from_numpy(fit), torch.arange(len(fit)), as_tensor(a), as_tensor(y))
    return Task(data, torch.from_numpy(score), as_tensor(truth), drawn)


def as_tensor(values: Floats) -> Tensor:
    """Single precision, as networks take it."""
    return torch.from_numpy(values.astype(np.float32))


# -------------------------------------------------------------------------------- running


def make_cases(task: Task, settings: Settings) -> list[Case]:
    """Every method on the same parts."""
    width = task.x.shape[1]
    parts = Parts(
        lambda: MLP(width, (WIDTH,)), features=WIDTH, privileged=ATTRIBUTES, outputs=KINDS, likelihood=Bernoulli()
    )
    how = settings.training()
    return [Case(name, TITLES[name], name, parts, task.data, how, OPTIONS.get(name, {})) for name in METHODS]


def shuffle(cases: Sequence[Case]) -> list[Case]:
    """The methods with PI once more, on PI that belongs to other texts."""
    data = cases[0].data
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(data)))
    other = dataclasses.replace(data, a=data.a[order])
    return [
        dataclasses.replace(case, name=shuffled(case.name), title=f"{case.title}, shuffled PI", data=other)
        for case in cases
        if kind(case.method).uses_privileged
    ]


def shuffled(name: str) -> str:
    """Name of a method's case with shuffled PI."""
    return f"{name}-shuffled"


def make_score(task: Task) -> Score:
    """Score on the test labels; of the stand-in also on the clean ones, and what TRAM's conditional head knows."""
    reported_score = score_on(task.x, task.y)
    if task.drawn is None:
        return reported_score
    clean_score = score_on(task.x, as_tensor(task.drawn[1].clean))
    test = Annotations(task.x, torch.arange(len(task.x)), as_tensor(task.drawn[1].a), task.y)

    def score(case: Case, method: Method) -> Mapping[str, Any]:
        scores = dict(reported_score(case, method))
        scores |= {f"clean_{name}": value for name, value in clean_score(case, method).items()}
        if isinstance(method, TRAM) and case.method == "tram":
            for part, data in (("train", task.data), ("test", test)):
                output = over_annotations(method, method.given, data)
                scores[f"given_{part}_nll"] = float(method.likelihood.loss(output, data.y.to(output.device)))
        return scores

    return score


def run(settings: Settings, *, data: Path | None, folder: Path, overwrite: bool, progress: bool) -> Findings:
    """Train every method with every seed on the comments, or on the stand-in, and write what it shows.

    Parameters
    ----------
    settings : Settings
        What to do.
    data : Path, optional
        Folder with the published files, or with those of the stand-in.
    folder : Path
        Where every method and seed that has finished is kept.
    overwrite : bool
        Whether to begin again where the folder has results of something else.
    progress : bool
        Show progress.
    """
    texts, device = read(data, settings), pick_device(settings.device)
    encoder = make_encoder(settings.encoder or None, str(device)).fit(texts.train)
    about = dataclasses.asdict(settings) | {"data": texts.fingerprint()}
    if isinstance(encoder, TransformerEncoder):
        about["encoder"] = encoder.version_
    for name in ("seeds", "shuffled", "device"):  # of which a method and seed do not depend
        del about[name]
    open_folder(folder, {"experiment": "civil-comments", **about}, overwrite=overwrite)
    task = make_task(texts, encoder, settings)
    cases, seeds = make_cases(task, settings), range(settings.seed, settings.seed + settings.seeds)
    every = [*cases, *(shuffle(cases) if settings.shuffled else [])]
    runs = train_cases(every, seeds, folder, make_score(task), device=device, progress=progress)
    levels = reference(task)
    shown = {"civil-comments-nll": strips_figure(runs, cases, levels)}
    return Findings(runs, report(runs, cases, task, levels, settings), shown)


# -------------------------------------------------------------------------------- what it shows


class Level(NamedTuple):
    """What a prediction that nobody has to learn scores."""

    title: str
    nll: float
    accuracy: float


def reference(task: Task) -> list[Level]:
    """Score the training rates for every text and, of the stand-in, the probabilities that labels were drawn with."""
    y = task.y.numpy().astype(float)
    known = {"the training rates": np.broadcast_to(task.data.y.numpy().astype(float).mean(0), y.shape)}
    if task.drawn is not None:
        known |= {"the true p(y|x)": task.drawn[1].given_x, "the true p(y|x,a)": task.drawn[1].given_both}
    return [Level(title, *scored(p, y)) for title, p in known.items()]


def scored(p: Floats, y: Floats) -> tuple[float, float]:
    """NLL and accuracy of probabilities, averaged over the labels.

    Examples
    --------
    >>> nll, accuracy = scored(np.array([[0.5, 0.25]]), np.array([[0.0, 0.0]]))
    >>> round(nll, 3), accuracy
    (0.49, 1.0)
    """
    p = np.clip(p, SMALLEST, 1 - SMALLEST)
    return float(-np.where(y > 0, np.log(p), np.log(1 - p)).mean()), float(((p > 0.5) == (y > 0)).mean())


def on_clean(runs: pd.DataFrame) -> pd.DataFrame:
    """The same runs, scored on the clean labels."""
    return runs.assign(nll=runs["clean_nll"], accuracy=runs["clean_accuracy"])


def report(runs: pd.DataFrame, cases: Sequence[Case], task: Task, levels: Sequence[Level], settings: Settings) -> str:
    """Say what was done and what it shows."""
    of = "NLL and accuracy, averaged over the seven labels"
    caption = f"{of}; mean ± standard deviation over {settings.seeds} seeds."
    heading, data, label, compared, clean, control = "Civil Comments", comments(task), "", "", "", ""
    if task.drawn is not None:
        heading, data, label = "Civil Comments, a stand-in", built(task, task.drawn[0]), f"{STAND_IN}. "
        compared = " The paper's numbers are of the real comments: only the order can be compared."
        clean = f"""
## Against the clean labels
{label}{caption} The same predictors, scored on the labels without noise, which no method saw.

{results_table(on_clean(runs), cases, digits=DIGITS, points=POINTS)}
"""
    if settings.shuffled:
        control = f"""
## Is it the privileged information?
{label}The same methods on PI that belongs to other texts: what they gain then is not of PI. Differences are those of PI
to shuffled PI, paired by seed, with 95 % intervals.

{shuffled_table(runs, cases)}
"""
    scale = "; ".join(f"{level.title} {level.nll:.{DIGITS}f} and {percent(level.accuracy)}" for level in levels)
    return f"""\
# {heading}: several labels of a text at once

{data}

{trained(task, settings)}

## Results
{label}{caption}{compared}

{results_table(runs, cases, PUBLISHED, digits=DIGITS, points=POINTS)}

For scale, NLL and accuracy of what need not be learned: {scale}.

In the paper full marginalization and Lopez-Paz have the same accuracy, 97.7833535 % in the source of its table, with a
deviation of zero over ten runs: that of networks which give every comment the same labels, most likely none.

![NLL of every method and seed](civil-comments-nll.svg)

## What the paper says of its rows
{label}Differences are paired by seed, with 95 % intervals over the seeds; "surely" is p < 0.05, without a correction
for their number. "On par" holds where neither difference is sure.

{claims_table(runs, cases, CLAIMS, PUBLISHED, digits=DIGITS, points=POINTS)}
{clean}{control}
## What it shows
{shows(runs, cases, levels)}"""


def shuffled_table(runs: pd.DataFrame, cases: Sequence[Case]) -> str:
    """Write what methods score with shuffled PI, and the differences that PI makes to that."""
    lines = []
    for case in cases:
        if not kind(case.method).uses_privileged:
            continue
        other = shuffled(case.name)
        nll, accuracy = differences(runs, case.name, other)
        mean = runs[runs["method"] == other][list(METRICS)].mean()
        line = {
            "method": case.title,
            "NLL, shuffled": f"{mean['nll']:.{DIGITS}f}",
            "accuracy, shuffled": percent(mean["accuracy"]),
            "NLL, difference": interval(nll, 1, DIGITS),
            "accuracy, points": interval(accuracy, 100, POINTS),
        }
        lines.append(line)
    return markdown_table(pd.DataFrame(lines))


def percent(share: float, digits: int = POINTS) -> str:
    """Write a share in per cent.

    Examples
    --------
    >>> percent(0.97826)
    '97.83 %'
    """
    return f"{100 * share:.{digits}f} %"


def comments(task: Task) -> str:
    """Say what the published data are."""
    return (
        f"The comments of Civil Comments whose identities were annotated, {len(task.data)} to train on and "
        f"{len(task.y)} to test on. y is seven kinds of toxicity, each 1 where at least half of the readers saw it; PI "
        "is the share of other readers who said that a comment mentions each of 24 identities."
    )


def built(task: Task, drawn: Drawn) -> str:
    """Say how the stand-in is made."""
    clean, y = drawn.clean > 0, drawn.y > 0
    return (
        f"{STAND_IN}. The published comments need an account; {len(task.data)} sentences to train on and {len(task.y)} "
        "others to test on take their place. A label is on where a random direction of the sentence's embedding, "
        f"within its {COMPONENTS} leading principal components, exceeds a threshold; the directions share a part, as "
        f"kinds of toxicity do, and {percent(RATES.min(), 0)} to {percent(RATES.max(), 0)} of the sentences have a "
        f"label. PI is {ATTRIBUTES} attributes, each the share of {READERS} readers who see it. Half of the attributes "
        "are likelier in some sentences than in others, by other random directions, as identities are: p(a|x) ≠ p(a). "
        "A third of them put three of the labels on where they are off, with at most the label's own rate; a third "
        f"take three off, at most half of the time; a third do nothing. So {percent(y[~clean].mean(), 0)} of the "
        f"labels that should be off are reported as on, and {percent(1 - y[clean].mean(), 0)} of those that should be "
        "on as off. The test labels are reported in the same way, as those of Civil Comments come from the same "
        "readers; the clean ones have a table of their own."
    )


def trained(task: Task, settings: Settings) -> str:
    """Say how the methods were trained."""
    encoder = f"the frozen encoder {settings.encoder}" if settings.encoder else "TF-IDF reduced by an SVD"
    samples = OPTIONS["full-marginalization"]["samples"]
    return (
        f"x is the text as {encoder} gives it, {task.x.shape[1]} numbers, each standardised; φ is a trainable layer of "
        f"{WIDTH} units (ReLU) on them, where the paper has a Universal Sentence Encoder; towers are {WIDTH}-{WIDTH}. "
        "The paper states no settings for this set, and for CIFAR-10H Adam 0.001, 20 epochs, L2 0.001, distillation at "
        f"T = 3 and λ = 0.5. Here: Adam {settings.learning_rate:g}, {settings.epochs} epochs, L2 {settings.l2:g}, the "
        f"same distillation, batches of {settings.batch_size}. Full marginalization averages over "
        f"{samples} training a's, as the paper's does on ImageNet. PI stands as it is: standardised, zero and mean "
        "imputation would be one method."
    )


def shows(runs: pd.DataFrame, cases: Sequence[Case], levels: Sequence[Level]) -> str:
    """Say what the numbers say."""
    titles = {case.name: case.title for case in cases}
    using = [case.name for case in cases if kind(case.method).uses_privileged]
    nll = runs.groupby("method")["nll"].mean()[list(titles)]
    lines = []
    for metric, sign, what in (("nll", -1, "NLL"), ("accuracy", 1, "Accuracy")):
        pairs = dict.fromkeys(using, "no-pi")
        better, worse = (counted(surely(runs, pairs, metric, side), titles) for side in (sign, -sign))
        lines.append(
            f"{what}: of {len(using)} methods with PI, surely better than No PI: {better}; surely worse: {worse}."
        )
    if shuffled(using[0]) in set(runs["method"]):
        pairs = {name: shuffled(name) for name in using}
        better, worse = (counted(surely(runs, pairs, "nll", side), titles) for side in (-1, 1))
        lines.append(f"In NLL surely better with PI than with shuffled PI: {better}; surely worse: {worse}.")
    best = str(nll.idxmin())
    tram = in_words(*differences(runs, "tram", "no-pi"), DIGITS, POINTS)
    lines.append(
        f"The lowest NLL is that of {titles[best]}, {nll[best]:.{DIGITS}f}; No PI has {nll['no-pi']:.{DIGITS}f}. TRAM "
        f"against No PI: {tram}."
    )
    constant = levels[0].nll
    beaten = [name for name in titles if nll[name] > constant]
    lines.append(
        f"Worse in NLL than the training rates of the labels ({constant:.{DIGITS}f}): {counted(beaten, titles)}."
    )
    if len(levels) > 1:
        _, given_x, given_both = levels
        lines.append(
            f"The attributes tell {given_x.nll - given_both.nll:.{DIGITS}f} nats of a label that the sentence does "
            f"not. No PI is {nll['no-pi'] - given_x.nll:.{DIGITS}f} above the true p(y|x), {titles[best]} "
            f"{nll[best] - given_x.nll:.{DIGITS}f}: no predictor from x alone can gain more."
        )
        lines.append(memorised(runs, nll["no-pi"], given_both))
        clean = on_clean(runs).groupby("method")[list(METRICS)].mean().loc[list(titles)]
        first, sharpest = str(clean["nll"].idxmin()), str(clean["accuracy"].idxmax())
        lines.append(
            f"On clean labels the lowest NLL is that of {titles[first]}, {clean['nll'][first]:.{DIGITS}f} (No PI "
            f"{clean['nll']['no-pi']:.{DIGITS}f}), and the highest accuracy that of {titles[sharpest]}, "
            f"{percent(clean['accuracy'][sharpest])} (No PI {percent(clean['accuracy']['no-pi'])})."
        )
    hold = [verdict(runs, claim).startswith("yes") for claim in CLAIMS]
    lines.append(f"Statements of the paper above that hold here: {sum(hold)} of {len(hold)}.")
    return "\n".join(f"- {line}" for line in lines)


def memorised(runs: pd.DataFrame, no_pi: float, true: Level) -> str:
    """Say what TRAM's conditional head learned, on the labels that it was trained on and on others."""
    own = runs[runs["method"] == "tram"][["given_train_nll", "given_test_nll"]].mean()
    said = (
        f"Given the attributes, TRAM's conditional head has an NLL of {own['given_train_nll']:.{DIGITS}f} on training "
        f"labels and {own['given_test_nll']:.{DIGITS}f} on test labels ({true.title} {true.nll:.{DIGITS}f})"
    )
    if own["given_test_nll"] < no_pi:
        return f"{said}."
    return f"{said}: on new sentences it does no better than No PI, which sees no attributes."


def surely(runs: pd.DataFrame, pairs: Mapping[str, str], metric: str, sign: int) -> list[str]:
    """Methods that surely differ from what each is compared with, to this side."""
    found = {name: difference(runs, name, other, metric) for name, other in pairs.items()}
    return [name for name, one in found.items() if sign * one.mean > 0 and one.p < 0.05]


def counted(names: Sequence[str], titles: Mapping[str, str]) -> str:
    """Count methods, and name them.

    Examples
    --------
    >>> counted(["tram"], {"tram": "TRAM"}), counted([], {})
    ('1 (TRAM)', 'none')
    """
    return f"{len(names)} ({', '.join(titles[name] for name in names)})" if names else "none"


def strips_figure(runs: pd.DataFrame, cases: Sequence[Case], levels: Sequence[Level]) -> Figure:
    """NLL of every method and seed, on the test labels and, where they are known, on the clean ones."""
    panels = {"nll": "NLL on reported labels"}
    if "clean_nll" in runs:
        panels |= {"clean_nll": "NLL on clean labels"}

    def draw(axes: Sequence[Any]) -> None:
        for axis, (metric, label) in zip(axes, panels.items(), strict=True):
            for place, case in enumerate(cases):
                value = runs.loc[runs["method"] == case.name, metric]
                colour = COLOURS["pi" if kind(case.method).uses_privileged else "no-pi"]
                axis.plot(value, place + np.linspace(-0.2, 0.2, len(value)), "o", ms=3.5, color=colour, alpha=0.5)
                axis.plot(value.mean(), place, "|", ms=14, mew=2.5, color=colour)
            names = [case.title.split(" (")[0] for case in cases] if axis is axes[0] else [""] * len(cases)
            axis.set_yticks(range(len(cases)), names)
            axis.invert_yaxis()
            axis.set_xlabel(f"{label} (seeds, and their mean)")
        for level, colour in zip(levels, ("control", "truth"), strict=False):  # x alone does not reach p(y|x,a)
            axes[0].axvline(level.nll, ls="--", lw=1, color=COLOURS[colour], label=level.title)
        for colour, label in (("no-pi", "without PI"), ("pi", "with PI")):
            axes[0].plot([], [], "o", ms=3.5, color=COLOURS[colour], label=label)
        axes[0].figure.legend(loc="outside upper center", ncols=4, fontsize=8)

    return figure(draw, len(panels), figsize=(4.8 * len(panels), 4.8))

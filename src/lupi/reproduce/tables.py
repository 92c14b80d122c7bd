"""The paper's tables: methods and seeds on one task, each pair kept when it has finished, beside published numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from lupi._internal.progress import Steps
from lupi.compare.cache import RUNS, keep, kept
from lupi.compare.statistics import Difference, difference
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import Method, build
from lupi.nn import Parts
from lupi.nn.inference import over_examples
from lupi.reproduce.findings import markdown_table
from lupi.training import Settings, fit_seeds, seed_noise

TITLES = {
    "no-pi": "No PI",
    "zero-imputation": "Zero imputation",
    "mean-imputation": "Mean imputation",
    "full-marginalization": "Full marginalization",
    "heteroscedastic-dropout": "Heteroscedastic dropout (Lambert et al.)",
    "tram": "TRAM",
    "two-step-tram": "Two-step TRAM",
    "het-tram": "Het-TRAM",
    "distillation": "Distillation, no PI",
    "generalized-distillation": "Generalized distillation (Lopez-Paz et al.)",
    "distilled-tram": "Distilled-TRAM",
    "miml-fcn-plus": "MIML-FCN+",
    "tram-plus-plus": "TRAM++",
    "pi-dual": "Pi-DUAL",
    "pi-transition": "PI-transition",
}
"""Rows of a table; two-step TRAM stands in the paper's ablation alone."""
SEEDS_AT_ONCE = 20
"""Seeds that train together."""
METRICS = ("nll", "accuracy")
ONE_NETWORK = ("zero-imputation", "mean-imputation", "full-marginalization")
"""Methods that train the same network q(y | x, a) and differ in how they predict: it is trained once."""


@dataclass(frozen=True)
class Case:
    """A row of a table: what is trained, on what and how.

    Parameters
    ----------
    name, title : str
        `name` for files, of letters, digits and dashes; `title` for readers.
    method : str
        Name of the method.
    parts : Parts
        What its network is made of.
    data : Annotations
        What it trains on, for every seed.
    how : Settings
        How it trains.
    options : mapping
        Options of the method.
    """

    name: str
    title: str
    method: str
    parts: Parts
    data: Annotations
    how: Settings
    options: Mapping[str, Any] = field(default_factory=dict)


Score = Callable[[Case, Method], Mapping[str, Any]]
"""From a trained method to its scores: "nll", "accuracy" as a fraction, other numbers, and arrays to be kept."""


def score_on(x: Tensor, y: Tensor) -> Score:
    """Score the predictor of a method on a test set: classes [n], or labels that are on or off [n, labels]."""

    def score(case: Case, method: Method) -> Mapping[str, Any]:
        output = over_examples(method.predictor(), x)
        true = y.to(output.device)
        likelihood = case.parts.likelihood
        one_class = isinstance(likelihood, Categorical)
        right = output.argmax(-1) == true if one_class else (output > 0) == (true > 0.5)
        return {"nll": float(likelihood.each(output, true).mean()), "accuracy": float(right.double().mean())}

    return score


def file_of(folder: Path, case: str, seed: int) -> Path:
    """Where a finished pair of case and seed is kept."""
    return folder / RUNS / f"{case}-{seed}.npz"


def train_cases(
    cases: Sequence[Case],
    seeds: Sequence[int],
    folder: Path,
    score: Score,
    *,
    device: torch.device,
    progress: bool = False,
) -> pd.DataFrame:
    """Train every case with every seed, the seeds of a case together, and keep the scores of each pair.

    Pairs that are kept in the folder already are not trained again. Rounding and, where a method has any, noise in
    training depend on which seeds train together.

    Parameters
    ----------
    cases, seeds : sequence
        What to train, and the seeds of initial weights, batches and noise.
    folder : Path
        A folder that `lupi.compare.cache.open_folder` has opened.
    score : callable
        From a case and its trained method to scores.
    device : torch.device
        Where to train.
    progress : bool
        Show progress.

    Returns
    -------
    DataFrame
        method (the name of the case), seed, nll, accuracy, other numbers that `score` gives, and seconds (of its group
        of seeds, shared between them).
    """
    rows, last = [], None
    with Steps("methods and seeds", len(cases) * len(seeds), show=progress) as steps:
        for case in cases:
            new = [seed for seed in seeds if kept(file_of(folder, case.name, seed)) is None]
            steps.advance(len(seeds) - len(new), case.title)
            for begin in range(0, len(new), SEEDS_AT_ONCE):
                group = new[begin : begin + SEEDS_AT_ONCE]
                last = train_case(case, group, folder, score, device, last) or last
                steps.advance(len(group), case.title)
            for seed in seeds:
                found = kept(file_of(folder, case.name, seed))
                assert found is not None
                numbers = {name: float(value) for name, value in found.items() if value.ndim == 0}
                rows.append({"method": case.name, "seed": seed, **numbers})
    return pd.DataFrame(rows)


class Trained(NamedTuple):
    """Methods of a case after training, one for each seed."""

    case: Case
    seeds: Sequence[int]
    members: Sequence[Method]

    def has_network_of(self, case: Case, seeds: Sequence[int]) -> bool:
        """Whether another case would train the same networks."""
        same = self.case.parts is case.parts and self.case.data is case.data and self.case.how == case.how
        return same and list(self.seeds) == list(seeds) and case.method in ONE_NETWORK


def train_case(
    case: Case, seeds: Sequence[int], folder: Path, score: Score, device: torch.device, last: Trained | None = None
) -> Trained | None:
    """Train a case with some seeds together, and keep their scores.

    Where the `last` networks are those that this case would train, it takes them. Returns what a next one may take.
    """
    start, members = time.monotonic(), []
    for seed in seeds:
        with seed_noise(seed, torch.device("cpu")):
            members.append(build(case.method, case.parts, **case.options))
    if last is not None and last.has_network_of(case, seeds):
        for member, other in zip(members, last.members, strict=True):
            adopt(member.to(device), other, case.data)
    else:
        fit_seeds(members, [case.data] * len(members), case.how, seeds=seeds, device=device)
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds = (time.monotonic() - start) / len(seeds)
    for seed, member in zip(seeds, members, strict=True):
        keep(file_of(folder, case.name, seed), {**score(case, member), "seconds": seconds})
    return Trained(case, seeds, members) if case.method in ONE_NETWORK else None


def adopt(method: Method, trained: Method, data: Annotations) -> None:
    """Give a method of `ONE_NETWORK` the network of another one, and let it observe the data."""
    method.observe(data)
    own = {name for name, _ in method.named_parameters()}
    network = {name: value for name, value in trained.state_dict().items() if name.split(".")[0] in PARTS}
    assert own <= network.keys()
    method.load_state_dict({**method.state_dict(), **network})
    method.eval()


PARTS = ("trunk", "tower", "conditional")
"""What q(y | x, a) consists of."""


class Published(NamedTuple):
    """A row of the paper's table: means and standard deviations; accuracies in per cent."""

    nll: float
    nll_sd: float
    accuracy: float
    accuracy_sd: float


def results_table(
    runs: pd.DataFrame,
    cases: Sequence[Case],
    published: Mapping[str, Published] | None = None,
    digits: int = 3,
    points: int = 1,
) -> str:
    """Write mean ± standard deviation over the seeds of every case, the paper's numbers beside it where there are any.

    NLLs have so many `digits`, accuracies so many `points`.

    Examples
    --------
    >>> from lupi.likelihoods import Categorical
    >>> nothing = Annotations(torch.zeros(1, 1), torch.zeros(1, dtype=torch.int64), torch.zeros(1, 1), torch.zeros(1))
    >>> parts = Parts(torch.nn.Identity, features=1, privileged=1, outputs=2, likelihood=Categorical())
    >>> runs = pd.DataFrame({"method": ["tram"] * 2, "seed": [0, 1], "nll": [1.0, 1.2], "accuracy": [0.6, 0.7]})
    >>> print(results_table(runs, [Case("tram", "TRAM", "tram", parts, nothing, Settings())]))
    | method | NLL | accuracy, % |
    |---|---|---|
    | TRAM | 1.100 ± 0.141 | 65.0 ± 7.1 |
    """
    lines = []
    for case in cases:
        own = runs[runs["method"] == case.name]
        line = {
            "method": case.title,
            "NLL": f"{own['nll'].mean():.{digits}f} ± {own['nll'].std():.{digits}f}",
            "accuracy, %": f"{100 * own['accuracy'].mean():.{points}f} ± {100 * own['accuracy'].std():.{points}f}",
        }
        if published is not None:
            row = published.get(case.name)
            line["NLL in the paper"] = f"{row.nll:.{digits}f} ± {row.nll_sd:.{digits}f}" if row else ""
            line["accuracy in the paper, %"] = (
                f"{row.accuracy:.{points}f} ± {row.accuracy_sd:.{points}f}" if row else ""
            )
        lines.append(line)
    return markdown_table(pd.DataFrame(lines))


class Claim(NamedTuple):
    """What the paper says of two rows: that `method` is better than `other` or, where `par`, as good."""

    method: str
    other: str
    par: bool = False

    def in_words(self, titles: Mapping[str, str]) -> str:
        """Write it with the titles of the rows."""
        return f"{titles[self.method]} {'on par with' if self.par else 'above'} {titles[self.other]}"


def differences(runs: pd.DataFrame, method: str, other: str) -> tuple[Difference, Difference]:
    """Differences of two cases, paired by seed, in NLL and in accuracy."""
    nll, accuracy = (difference(runs, method, other, metric) for metric in METRICS)
    return nll, accuracy


def verdict(runs: pd.DataFrame, claim: Claim) -> str:
    """Say whether a claim holds; begins with "yes" where it does."""
    return judged(*differences(runs, claim.method, claim.other), par=claim.par)


def in_words(nll: Difference, accuracy: Difference, digits: int = 3, points: int = 1) -> str:
    """Write two differences with their intervals.

    Examples
    --------
    >>> in_words(Difference(-0.1, 0.01, 19), Difference(0.02, 0.01, 19))
    '−0.100 [−0.121, −0.079] in NLL, +2.0 [−0.1, +4.1] points of accuracy'
    """
    return f"{interval(nll, 1, digits)} in NLL, {interval(accuracy, 100, points)} points of accuracy"


def claims_table(
    runs: pd.DataFrame,
    cases: Sequence[Case],
    claims: Sequence[Claim],
    published: Mapping[str, Published] | None = None,
    digits: int = 3,
    points: int = 1,
    heading: str = "the paper",
) -> str:
    """Check what the paper says of pairs of rows: differences paired by seed, with 95 % intervals, and what they say.

    Examples
    --------
    >>> judged(Difference(-0.1, 0.01, 19), Difference(0.01, 0.02, 19), par=False)
    'yes, surely in NLL'
    """
    titles = {case.name: case.title for case in cases}
    lines = []
    for claim in claims:
        nll, accuracy = differences(runs, claim.method, claim.other)
        line = {
            heading: claim.in_words(titles),
            "difference in NLL": interval(nll, 1, digits),
            "in accuracy, points": interval(accuracy, 100, points),
            "here": judged(nll, accuracy, par=claim.par),
        }
        if published is not None:
            known = claim.method in published and claim.other in published
            line["differences in the paper"] = ""
            if known:
                one, other = published[claim.method], published[claim.other]
                change = f"{one.nll - other.nll:+.{digits}f}, {one.accuracy - other.accuracy:+.{points}f}"
                line["differences in the paper"] = change.replace("-", "−")
        lines.append(line)
    return markdown_table(pd.DataFrame(lines))


def interval(found: Difference, scale: float, digits: int) -> str:
    """Write a difference with its 95 % interval."""
    low, high = found.interval()
    numbers = [f"{scale * value:+.{digits}f}" for value in (found.mean, low, high)]
    return f"{numbers[0]} [{numbers[1]}, {numbers[2]}]".replace("-", "−")


def judged(nll: Difference, accuracy: Difference, *, par: bool) -> str:
    """Say whether what the paper claims holds: better in NLL (lower) and in accuracy (higher), or as good."""
    better = {"NLL": -nll.mean > 0, "accuracy": accuracy.mean > 0}
    sure = {name: found.p < 0.05 for name, found in (("NLL", nll), ("accuracy", accuracy))}
    if par:
        if not any(sure.values()):
            return "yes"
        told = [f"{'better' if better[name] else 'worse'} in {name}" for name in better if sure[name]]
        return f"no: surely {' and '.join(told)}"
    if all(better.values()):
        surely = [name for name in better if sure[name]]
        return f"yes, surely in {' and '.join(surely)}" if surely else "yes, not surely"
    if not any(better.values()):
        surely = [name for name in better if sure[name]]
        return f"no, surely worse in {' and '.join(surely)}" if surely else "no, not surely"
    told = [f"{'better' if better[n] else 'worse'} in {n}{'' if sure[n] else ' (not surely)'}" for n in better]
    return ", ".join(told)

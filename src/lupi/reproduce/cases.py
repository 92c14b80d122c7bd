"""Train the rows of a paper's table: methods on one task with several seeds, on the engine of `lupi.compare`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lupi._internal.parallel import Cluster
from lupi.compare.cache import RunFolder
from lupi.compare.engine import Arm, Run, run_arms
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import Method, build
from lupi.nn import Parts
from lupi.nn.inference import over_examples
from lupi.training import Checkpoint, Settings, fit, fit_seeds, seed_noise

SEEDS_AT_ONCE = 20
ONE_NETWORK = ("zero-imputation", "mean-imputation", "full-marginalization")
"""Methods that train the same network q(y | x, a) and differ only in how they predict: it is trained once."""
NETWORK = ("trunk", "tower", "conditional")
"""The modules of q(y | x, a)."""
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
"""Titles of methods in tables; the paper has two-step TRAM only in an ablation."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row of a table: a method, its data and how it trains.

    Parameters
    ----------
    name, title : str
        `name` for files, of letters, digits and dashes; `title` for readers.
    method : str
        Name of the method.
    parts : Parts
        What its network is made of.
    data : Annotations
        Training data, the same for every seed.
    training : Settings
        How it trains.
    options : mapping
        Options of the method.
    """

    name: str
    title: str
    method: str
    parts: Parts
    data: Annotations
    training: Settings
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, method: str, **more: Any) -> Case:
        """Make the case of a method under its own name and title."""
        return cls(name=method, title=TITLES[method], method=method, **more)

    def build(self, seed: int) -> Method:
        """Build the method with the initial weights of a seed."""
        with seed_noise(seed, torch.device("cpu")):
            return build(self.method, self.parts, **self.options)

    def shares_network(self, other: Case) -> bool:
        """Return whether both cases train the same network."""
        same = self.parts is other.parts and self.data is other.data and self.training == other.training
        return same and self.method in ONE_NETWORK and other.method in ONE_NETWORK


Score = Callable[[Case, Method], Mapping[str, Any]]
"""From a trained method to its scores: "nll", "accuracy" as a fraction, other numbers, and arrays to keep."""


def make_score(x: Tensor, y: Tensor) -> Score:
    """Return a function that scores predictors on a test set: classes [n], or multi-label [n, labels]."""

    def score(case: Case, method: Method) -> Mapping[str, Any]:
        output = over_examples(method.predictor(), x)
        true = y.to(output.device)
        likelihood = case.parts.likelihood
        one_class = isinstance(likelihood, Categorical)
        correct = output.argmax(-1) == true if one_class else (output > 0) == (true > 0.5)
        return {"nll": float(likelihood.each(output, true).mean()), "accuracy": float(correct.double().mean())}

    return score


def hash_arrays(*arrays: Any) -> str:
    """Return a hash of arrays or bytes, which tells the data of one run folder from those of another."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(array.tobytes() if isinstance(array, np.ndarray) else array)
    return total.hexdigest()[:16]


def train_cases(
    cases: Sequence[Case],
    seeds: Sequence[int],
    folder: RunFolder,
    score: Score,
    *,
    device: torch.device,
    seeds_at_once: int = SEEDS_AT_ONCE,
    fabric: Any = None,
    cluster: Cluster | None = None,
    progress: bool = False,
) -> list[Run]:
    """Train every case with every seed; pairs that are kept in the folder are not trained again.

    Parameters
    ----------
    cases, seeds : sequence
        What to train, and the seeds of initial weights, batches and noise.
    folder : RunFolder
        From `lupi.compare.cache.open_run_folder`.
    score : callable
        From a case and its trained method to scores.
    device : torch.device
        Where to train.
    seeds_at_once : int
        Seeds that train together. Rounding and, where a method has any, noise in training depend on it.
    fabric : Fabric, optional
        A Lightning Fabric of several devices, on which one seed trains after the other. Only its first process saves
        and returns scores.
    cluster : Cluster, optional
        From `lupi.compare.open_cluster`. Groups of seeds train on the devices of its workers.
    progress : bool
        Whether to show progress.
    """
    if fabric is not None:
        arms = [Arm(name=case.name, train=partial(train_on_fabric, fabric, folder, score, case)) for case in cases]
        return run_arms(arms, seeds, seeds_at_once=1, folder=folder, save=fabric.global_rank == 0, progress=progress)
    train = Trainer(score, device)
    arms = [Arm(name=case.name, train=partial(train, case)) for case in cases]
    if cluster is not None:
        arms = [Arm(name=case.name, train=send_case(case, score, device)) for case in cases]
    return run_arms(arms, seeds, seeds_at_once=seeds_at_once, folder=folder, cluster=cluster, progress=progress)


class Trainer:
    """Train a case with a group of seeds; reuse the networks of the last case if they are the same."""

    def __init__(self, score: Score, device: torch.device) -> None:
        self.score, self.device = score, device
        self.last: tuple[Case, list[int], list[Method]] | None = None

    def __call__(self, case: Case, seeds: Sequence[int]) -> list[Mapping[str, Any]]:
        """Return the scores of each seed."""
        start = time.monotonic()
        methods = [case.build(seed) for seed in seeds]
        if self.last is not None and self.last[0].shares_network(case) and self.last[1] == list(seeds):
            for method, trained in zip(methods, self.last[2], strict=True):
                copy_network(trained, method.to(self.device), case.data)
        else:
            fit_seeds(methods, [case.data] * len(methods), case.training, seeds=seeds, device=self.device)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = (time.monotonic() - start) / len(seeds)
        if case.method in ONE_NETWORK:
            self.last = case, list(seeds), methods
        return [{**self.score(case, method), "seconds": seconds} for method in methods]


def send_case(case: Case, score: Score, device: torch.device) -> partial[list[Mapping[str, Any]]]:
    """Return the training of a case, with what it shares with other cases as arguments, which are sent once."""
    own = {name: value for name, value in vars(case).items() if name not in ("parts", "data")}
    return partial(train_sent, score, device, case.parts, case.data, own)


def train_sent(
    score: Score, device: torch.device, parts: Parts, data: Annotations, own: Mapping[str, Any], seeds: Sequence[int]
) -> list[Mapping[str, Any]]:
    """Train a case on a worker of a cluster."""
    return Trainer(score, device)(Case(parts=parts, data=data, **own), seeds)


def copy_network(trained: Method, method: Method, data: Annotations) -> None:
    """Copy the network of one method of `ONE_NETWORK` to another, and let that observe the data."""
    method.observe(data)
    own = {name for name, _ in method.named_parameters()}
    network = {name: value for name, value in trained.state_dict().items() if name.split(".")[0] in NETWORK}
    assert own <= network.keys()
    method.load_state_dict({**method.state_dict(), **network})
    method.eval()


def train_on_fabric(
    fabric: Any, folder: RunFolder, score: Score, case: Case, seeds: Sequence[int]
) -> list[Mapping[str, Any]]:
    """Train one seed after the other on all devices of a Fabric, with checkpoints; the first process scores."""
    found: list[Mapping[str, Any]] = []
    for seed in seeds:
        start, checkpoint = time.monotonic(), folder.file(case.name, seed).with_suffix(".pt")
        method, settings = case.build(seed), replace(case.training, cuda_graph=False)
        fit(method, case.data, settings, seed=seed, fabric=fabric, checkpoint=Checkpoint(checkpoint))
        found.append({})
        if fabric.global_rank == 0:
            found[-1] = {**score(case, method), "seconds": time.monotonic() - start}
            checkpoint.unlink()
        fabric.barrier()
    return found

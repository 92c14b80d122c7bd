"""Train the rows of a table of the paper: methods on one task with several seeds, with the engine of `lupi.compare`."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lupi.compare import Arm, Run, RunFolder, run_arms
from lupi.data import Annotations
from lupi.likelihoods import Categorical
from lupi.methods import Method, build, kind
from lupi.nn import Parts, over_examples
from lupi.settings import Settings
from lupi.training import Checkpoint, fit, fit_seeds

SEEDS_AT_ONCE = 20
ROWS_AT_ONCE = 1024
ONE_NETWORK = ("zero-imputation", "mean-imputation", "full-marginalization")
"""Methods with the same network q(y | x, a), which differ only in their predictions; it is trained once."""
NETWORK = ("trunk", "tower", "conditional")
"""The modules of q(y | x, a)."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A row of a table: a method, its data and its training settings."""

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
        return cls(name=method, title=kind(method).title, method=method, **more)

    def build(self, seed: int) -> Method:
        """Build the method with the initial weights of a seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return build(self.method, self.parts, **self.options)

    def shares_network(self, other: Case) -> bool:
        """Return whether both cases train the same network."""
        same = self.parts is other.parts and self.data is other.data and self.training == other.training
        return same and self.method in ONE_NETWORK and other.method in ONE_NETWORK


Score = Callable[[Case, Method], Mapping[str, Any]]
"""Maps a trained method to its scores: "nll", "accuracy" as a fraction, other numbers, and arrays to save."""


def make_score(x: Any, y: Tensor, size: int = ROWS_AT_ONCE) -> Score:
    """Return a function that scores predictors on a test set: classes [n], or multi-label [n, labels].

    Predictors see `size` rows of x at a time.
    """

    def score(case: Case, method: Method) -> Mapping[str, Any]:
        output = over_examples(method.predictor(), x, size)
        true = y.to(output.device)
        likelihood = case.parts.likelihood
        one_class = isinstance(likelihood, Categorical)
        correct = output.argmax(-1) == true if one_class else (output > 0) == (true > 0.5)
        nll = likelihood.loss_per_annotation(output, true).mean()
        return {"nll": float(nll), "accuracy": float(correct.double().mean())}

    return score


def hash_arrays(*arrays: Any) -> str:
    """Return a hash of arrays or bytes, to identify the data of a run folder."""
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
    cluster: Any = None,
    every: int = 1000,
    progress: bool = False,
) -> list[Run]:
    """Train every case with every seed. Runs that were saved in the folder are not trained again."""
    one_by_one = fabric is not None or not all(isinstance(case.data.x, Tensor) for case in cases)
    train = Trainer(score, device, fabric, folder if one_by_one else None, every)
    arms = [Arm(name=case.name, train=partial(train, case)) for case in cases]
    if cluster is not None:
        arms = [Arm(name=case.name, train=send_case(case, score, device)) for case in cases]
    runs = run_arms(
        arms,
        seeds,
        seeds_at_once=1 if one_by_one else seeds_at_once,
        folder=folder,
        cluster=cluster,
        save=fabric is None or fabric.global_rank == 0,
        progress=progress,
    )
    train.remove_checkpoints()
    return runs


class Trainer:
    """Train a case with a group of seeds; reuse the networks of the last case if they are the same.

    With a folder for checkpoints, networks are trained one after another. A checkpoint is removed when the next
    network starts, after its own run has been saved.
    """

    def __init__(
        self,
        score: Score,
        device: torch.device,
        fabric: Any = None,
        checkpoints: RunFolder | None = None,
        every: int = 1,
    ) -> None:
        self.score, self.fabric, self.folder, self.every = score, fabric, checkpoints, every
        self.device = device if fabric is None else fabric.device
        self.last: tuple[Case, list[int], list[Method]] | None = None
        self.checkpoints: list[Path] = []

    def __call__(self, case: Case, seeds: Sequence[int]) -> list[Mapping[str, Any]]:
        """Return the scores of each seed; nothing in processes of a Fabric other than the first."""
        start = time.monotonic()
        self.remove_checkpoints()
        methods = [case.build(seed) for seed in seeds]
        if self.last is not None and self.last[0].shares_network(case) and self.last[1] == list(seeds):
            for method, trained in zip(methods, self.last[2], strict=True):
                copy_network(trained, method.to(self.device), case.data)
        elif self.folder is not None:
            for method, seed in zip(methods, seeds, strict=True):
                path = self.folder.file(case.name, seed).with_suffix(".pt")
                where: Any = {"device": self.device} if self.fabric is None else {"fabric": self.fabric}
                fit(method, case.data, case.training, seed=seed, checkpoint=Checkpoint(path, self.every), **where)
                self.checkpoints.append(path)
        else:
            fit_seeds(methods, [case.data] * len(methods), case.training, seeds=seeds, device=self.device)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        seconds = (time.monotonic() - start) / len(seeds)
        if case.method in ONE_NETWORK:
            self.last = case, list(seeds), methods
        first = self.fabric is None or self.fabric.global_rank == 0
        found: list[Mapping[str, Any]]
        found = [{**self.score(case, method), "seconds": seconds} if first else {} for method in methods]
        if self.fabric is not None:
            self.fabric.barrier()
        return found

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints of saved runs."""
        if self.fabric is None or self.fabric.global_rank == 0:
            for path in self.checkpoints:
                path.unlink(missing_ok=True)
        self.checkpoints = []


def send_case(case: Case, score: Score, device: torch.device) -> partial[list[Mapping[str, Any]]]:
    """Return a function that trains a case. What cases share is passed as arguments, which are sent only once."""
    own = {name: value for name, value in vars(case).items() if name not in ("parts", "data")}
    return partial(train_case, score, device, case.parts, case.data, own)


def train_case(
    score: Score, device: torch.device, parts: Parts, data: Annotations, own: Mapping[str, Any], seeds: Sequence[int]
) -> list[Mapping[str, Any]]:
    """Train a case on a worker of a cluster."""
    return Trainer(score, device)(Case(parts=parts, data=data, **own), seeds)


def copy_network(trained: Method, method: Method, data: Annotations) -> None:
    """Copy the network of one method of `ONE_NETWORK` to another method, and let that method observe the data."""
    method.observe(data)
    network = {name: value for name, value in trained.state_dict().items() if name.split(".")[0] in NETWORK}
    method.load_state_dict({**method.state_dict(), **network})
    method.eval()

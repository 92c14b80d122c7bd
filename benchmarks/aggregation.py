"""Aggregate labels without inputs, against Dawid–Skene and majority vote.

``python -m benchmarks.aggregation [DATA]``. The first part times `lupi.crowd.aggregate` on 1 million labels of 200,000
examples by 10,000 annotators, 10 classes, against Dawid–Skene: crowd-kit's where it is installed, and our own. Each
runs in a process of its own on one thread, and its goal is in seconds of the processor, which other programs disturb
less; the memory is the peak of that process. Annotators are right with probabilities from Beta(6, 3), and a twentieth
of them always give the same answer. DATA holds `music_genre` and `sentiment_polarity`
(Rodrigues et al. 2013), whose true labels score the second part, and serve for nothing else. The last part is how many
of the annotators' accuracies the 95 % intervals cover.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from lupi.crowd import Aggregation, Votes, aggregate, dawid_skene, majority_vote

LABELS, EXAMPLES, ANNOTATORS, CLASSES = 1_000_000, 200_000, 10_000, 10
MOST_SECONDS, MOST_GIGABYTES = 60, 2
SETS = {"music_genre": "song", "sentiment_polarity": "sentence"}


def simulate(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Return labels and the true labels of the examples."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(CLASSES, EXAMPLES, p=rng.dirichlet(np.full(CLASSES, 5.0)))
    example, annotator = np.arange(LABELS) % EXAMPLES, rng.integers(ANNOTATORS, size=LABELS)
    right = rng.random(LABELS) < rng.beta(6, 3, ANNOTATORS)[annotator]
    label = np.where(right, truth[example], rng.integers(CLASSES, size=LABELS))
    constant = rng.integers(CLASSES, size=ANNOTATORS)
    label = np.where(annotator < ANNOTATORS // 20, constant[annotator], label)
    return pd.DataFrame({"example": example, "annotator": annotator, "label": label}), truth


def find_consensus(how: str, table: pd.DataFrame) -> pd.Series:
    """Return the consensus by example."""
    if how == "crowd-kit's Dawid–Skene":
        from crowdkit.aggregation import DawidSkene

        renamed = table.rename(columns={"example": "task", "annotator": "worker"})
        consensus: pd.Series = DawidSkene(n_iter=100).fit_predict(renamed)
        return consensus
    if how == "lupi.crowd.aggregate":
        return aggregate(table).consensus.set_index("example")["label"]
    example, examples = pd.factorize(table["example"], sort=True)
    annotator, annotators = pd.factorize(table["annotator"], sort=True)
    label, classes = pd.factorize(table["label"], sort=True)
    votes = Votes(
        example=example.astype(np.int64),
        annotator=annotator.astype(np.int64),
        label=label.astype(np.int64),
        examples=len(examples),
        annotators=len(annotators),
        classes=len(classes),
    )
    best = majority_vote(votes) if how == "majority vote" else dawid_skene(votes)[0].argmax(1)
    return pd.Series(classes[best], examples)


def measure(how: str) -> None:
    """Print seconds, gigabytes and accuracy on the simulated labels."""
    table, truth = simulate()
    start, busy = time.perf_counter(), time.process_time()
    found = find_consensus(how, table).sort_index()
    wall, used = time.perf_counter() - start, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    reached = ""
    if how == "lupi.crowd.aggregate":
        reached = "  goal reached" if used <= MOST_SECONDS and peak <= MOST_GIGABYTES else "  goal not reached"
    accuracy = np.mean(found.to_numpy() == truth)
    print(f"{how:<24} {wall:6.1f} s ({used:.1f} s of the processor) {peak:5.2f} GB, accuracy {accuracy:.4f}{reached}")


def score(folder: Path) -> None:
    """Print the accuracy on sets with true labels."""
    for name, example in SETS.items():
        table = pd.read_parquet(folder / name / "annotations.parquet")
        gold = table.groupby(example)["gold"].first()
        labels = table.rename(columns={example: "example"})[["example", "annotator", "label"]]
        for how in ways():
            found = find_consensus(how, labels).reindex(gold.index)
            print(f"{name:<20} {how:<24} accuracy {np.mean(found.to_numpy() == gold.to_numpy()):.4f}", flush=True)


def cover(name: str, found: Aggregation, accuracy: pd.Series, fewest: int = 1) -> None:
    """Print how many intervals of annotators with a number of labels contain the accuracy, and how much is too high."""
    table = found.annotators.set_index("annotator")
    limits = table[table["labels"] >= fewest]
    true = accuracy.loc[limits.index]
    covered = np.mean((limits["low"] <= true) & (true <= limits["high"]))
    above, gap = np.mean(limits["low"] > true), np.mean(limits["reliability"] - true)
    print(
        f"{name:<44} {len(limits)} annotators: covered {covered:.2f}, too high {above:.2f}, "
        f"reliability - accuracy {gap:+.3f}",
        flush=True,
    )


def simulate_few(each: int, classes: int, seed: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return labels of 600 examples by 30 annotators, and the annotators' accuracies, which are from Beta(6, 2)."""
    rng = np.random.default_rng(seed)
    truth, accuracy = rng.integers(classes, size=600), rng.beta(6, 2, 30)
    example, annotator = np.arange(600).repeat(each), np.argsort(rng.random((600, 30)))[:, :each].ravel()
    wrong = (truth[example] + rng.integers(1, classes, len(example))) % classes
    label = np.where(rng.random(len(example)) < accuracy[annotator], truth[example], wrong)
    return pd.DataFrame({"example": example, "annotator": annotator, "label": label}), pd.Series(accuracy)


def measure_coverage(folder: Path) -> None:
    """Print how often intervals cover, in simulations and on sets with true labels."""
    for each, classes in ((2, 3), (3, 3), (5, 3), (3, 10)):
        for seed in range(3):
            labels, accuracy = simulate_few(each, classes, seed)
            cover(f"{each} labels per example, {classes} classes, seed {seed}", aggregate(labels), accuracy)
    for name, example in SETS.items():
        table = pd.read_parquet(folder / name / "annotations.parquet")
        accuracy = (table["label"] == table["gold"]).groupby(table["annotator"]).mean()
        cover(name, aggregate(table, example=example, annotator="annotator", label="label"), accuracy, 20)


def ways() -> list[str]:
    """Return the names of what is compared."""
    kit = ["crowd-kit's Dawid–Skene"] if importlib.util.find_spec("crowdkit") else []
    return ["lupi.crowd.aggregate", *kit, "Dawid–Skene", "majority vote"]


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--measure"]:
        measure(arguments[1])
        return
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    print(
        f"{LABELS:,} labels, {EXAMPLES:,} examples, {ANNOTATORS:,} annotators, {CLASSES} classes; one thread",
        flush=True,
    )
    for how in ways():
        program = [sys.executable, "-m", "benchmarks.aggregation", "--measure", how]
        subprocess.run(program, env=one_thread, check=True)
    if arguments:
        score(Path(arguments[0]))
        measure_coverage(Path(arguments[0]))


if __name__ == "__main__":
    main(sys.argv[1:])

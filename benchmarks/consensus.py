"""How scores without true labels rank methods, compared with scores on true ones.

``python -m benchmarks.consensus music --data DIR [--encoder FOLDER] [--seeds 3]``. The sets are those of
``benchmarks.auto_tables``, and the digits of `lupi demo`, which need no data. For each seed, some examples are held
out, every method trains on the others, and is scored on the true labels of the test set and, on the held-out examples,
in three ways: on their raw labels; on their consensus, P(true label | labels, x), whose prior is the prediction of an
early-stopped No PI network; and as `lupi compare` scores them (`lupi.compare.held_out`).

Printed for NLL and accuracy: the share of pairs of methods that are ranked as by true labels, among those that differ
by more than 0.01 in NLL or 0.5 points in accuracy on true labels (mean over seeds), and Spearman's rank correlation of
the means over seeds.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from sklearn.model_selection import GroupShuffleSplit

from benchmarks.auto_tables import SETS, Task, read
from lupi import PrivilegedClassifier
from lupi.compare.held_out import correct_for_noise
from lupi.crowd import infer
from lupi.datasets import load_digits_annotated
from lupi.metrics import Posterior, evaluate

DIGITS = {"digits": 1, "digits-3": 3}
"""Number of labels per digit."""
LARGEST = {"judges": 300, "sentiment": 600}
"""Number of training examples to draw at random from large sets."""
HELD_OUT, EPOCHS, PATIENCE = 0.2, 20, 5
FIXED = ("no-pi", "mean-imputation", "tram")
EARLY = ("no-pi", "majority-vote", "dawid-skene", "mean-imputation", "tram", "pi-dual", "pi-transition", "auto")
DIFFERENT = {"nll": 0.01, "accuracy": 0.005}
"""Differences between methods on true labels that count."""


def draw(name: str, task: Task | None, seed: int) -> Task:
    """Return new digits, or a set that was read, or a part of it if it is large; classes are numbered."""
    if task is None:
        digits = load_digits_annotated(DIGITS[name], random_state=seed)
        row, _ = pd.factorize(digits.example)
        first = np.unique(row, return_index=True)[1]
        X, y = digits.X_train[first], digits.y_train
        return Task(X, row, y, digits.privileged, digits.gold_train[first], digits.X_test, digits.y_test)
    classes = np.unique(task.y)
    kept = np.random.default_rng(seed).permutation(len(task.X))[: LARGEST.get(name)]
    own = np.isin(task.row, kept)
    row, places = pd.factorize(task.row[own])
    y, gold, truth = (np.searchsorted(classes, part) for part in (task.y[own], task.gold[places], task.truth))
    return Task(task.X[places], row, y, task.privileged[own].reset_index(drop=True), gold, task.test, truth)


def score(task: Task, seed: int) -> list[dict[str, Any]]:
    """Score every method on true labels, and in three ways on held-out examples."""
    train, test = next(GroupShuffleSplit(1, test_size=HELD_OUT, random_state=seed).split(task.row, groups=task.row))
    who = task.privileged["annotator"].to_numpy()
    back, examples = pd.factorize(task.row[test])

    def fit(method: str, random_state: int, **options: Any) -> PrivilegedClassifier:
        model = PrivilegedClassifier(method, random_state=random_state, **options)
        own = {"privileged": task.privileged.iloc[train], "example": task.row[train]}
        return model.fit(task.X[task.row[train]], task.y[train], **own)

    p = fit("no-pi", 1_000_000 + seed, patience=PATIENCE).predict_proba(task.X[task.row[test]])
    consensus = infer(p, task.y[test], example=back, annotator=who[test]).truth
    share = np.bincount(task.y, minlength=p.shape[1]) / len(task.y)
    every = np.concatenate([test, train])
    priors = np.vstack([p, np.tile(share, (len(train), 1))])
    found = infer(priors, task.y[every], example=task.row[every], annotator=who[every])
    kept = slice(0, len(examples))
    evidence, corrected = correct_for_noise(found.evidence[kept], found.truth[kept].mean(0))
    truths = {"consensus": Posterior(consensus), "through annotators": Posterior(corrected, evidence)}
    rows = []
    arms = [(name, {"epochs": EPOCHS}) for name in FIXED] + [(name, {"patience": PATIENCE}) for name in EARLY]
    for name, how in arms:
        model = fit(name, seed, **how)
        p = model.predict_proba(task.X[examples])
        scored = {"gold": evaluate(task.truth, model.predict_proba(task.test))}
        scored |= {"raw labels": evaluate(task.y[test], p[back])}
        scored |= {way: evaluate(truth, p) for way, truth in truths.items()}
        numbers = {(way, metric): own[metric].value for way, own in scored.items() for metric in DIFFERENT}
        about: dict[Any, Any] = {"method": f"{name}, {next(iter(how))}", "seed": seed}
        rows.append(about | numbers)
    return rows


def agree(gold: Any, other: Any, least: float) -> float:
    """Return the share of pairs in the same order, among those whose scores on true labels differ by `least`."""
    one, two = (np.subtract.outer(part, part)[np.triu_indices(len(part), 1)] for part in (gold, other))
    large = np.abs(one) > least
    return float((np.sign(one) == np.sign(two))[large].mean())


def main() -> None:
    """Print how each way of scoring ranks methods on a set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=[*DIGITS, *SETS])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--encoder", help="folder of a text encoder; TF-IDF by default")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    whole = None if options.set in DIGITS else read(SETS[options.set], options.data, options.encoder)
    runs = pd.DataFrame([row for seed in range(options.seeds) for row in score(draw(options.set, whole, seed), seed)])
    means = runs.groupby("method", sort=False).mean(numeric_only=True)
    print(means.drop(columns="seed").round(3).to_string())
    for way in ("raw labels", "consensus", "through annotators"):
        for metric, least in DIFFERENT.items():
            shares = [
                agree(own["gold", metric].to_numpy(), own[way, metric].to_numpy(), least)
                for _, own in runs.groupby("seed")
            ]
            rank = spearmanr(means["gold", metric], means[way, metric])[0]
            print(
                f"{options.set}, {way}, {metric}: {100 * np.mean(shares):.0f} % of pairs, Spearman {rank:+.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()

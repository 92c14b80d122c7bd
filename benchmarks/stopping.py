"""Early stopping by held-out labels or by their consensus: ``python -m benchmarks.stopping DATA``.

On digits and, if DATA is given, on music genre: a folder ``music_genre`` with ``annotations.parquet`` and
``test.parquet``. Ten seeds; the intervals of differences are paired. On music genre, also the AUROC with which the
networks of ``lupi diagnose`` find wrong labels, three seeds.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from lupi import PrivilegedClassifier
from lupi.compare.statistics import mean_difference
from lupi.crowd import infer
from lupi.datasets import load_digits_annotated
from lupi.diagnose import predict_out_of_fold
from lupi.diagnose.problem import TRAINING
from lupi.metrics import accuracy, nll

SEEDS = 10
Labels = tuple[dict[str, Any], Any, Any]


def read_digits(seed: int) -> Labels:
    """Return the arguments of `fit`, test inputs and their true labels."""
    digits = load_digits_annotated(random_state=seed)
    train = {"X": digits.X_train, "y": digits.y_train, "privileged": digits.privileged}
    return train, digits.X_test, digits.y_test


def read_music(folder: Path) -> Labels:
    """Return the arguments of `fit`, test inputs and their true labels."""
    table, test = pd.read_parquet(folder / "annotations.parquet"), pd.read_parquet(folder / "test.parquet")
    X = table.drop(columns=["song", "annotator", "label", "gold"])
    train = {"X": X, "y": table["label"], "privileged": table[["annotator"]], "example": table["song"]}
    return train, test[X.columns], test["label"]


def score(name: str, stop_on: str, seed: int, train: dict[str, Any], X: Any, y: Any) -> tuple[float, float]:
    """Return accuracy and NLL on true labels."""
    training = {"stop_on": stop_on}
    model = PrivilegedClassifier(name, epochs=100, patience=5, random_state=seed, training=training).fit(**train)
    p, code = model.predict_proba(X), np.searchsorted(model.classes_, np.asarray(y))
    return float(accuracy(code, p).mean()), float(nll(code, p).mean())


def rank_labels(stop_on: str, seed: int, X: Any, y: Any, privileged: Any, example: Any, gold: Any) -> float:
    """Judge labels as `lupi diagnose` does, and return the AUROC of finding those that differ from the true labels."""
    label = np.unique(y, return_inverse=True)[1]
    parameters = {**TRAINING, "batch_size": 32, "training": {"stop_on": stop_on}}
    p, _ = predict_out_of_fold(
        X,
        label,
        privileged=privileged.astype(str),
        example=pd.factorize(example)[0],
        method="pi-transition",
        random_state=seed,
        parameters=parameters,
    )
    inference = infer(p, label, example=np.asarray(example), annotator=np.asarray(privileged["annotator"]))
    return float(roc_auc_score(np.asarray(y) != np.asarray(gold), inference.wrong))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # rare annotators share a column
    sets: dict[str, Callable[[int], Labels]] = {"digits": read_digits}
    if len(sys.argv) > 1:
        music = read_music(Path(sys.argv[1]) / "music_genre")
        sets["music genre"] = lambda _: music
    for title, read in sets.items():
        for name in ("pi-dual", "pi-transition"):
            found = np.array(
                [[score(name, how, seed, *read(seed)) for how in ("labels", "consensus")] for seed in range(SEEDS)]
            )
            for how, (right, loss) in zip(("labels", "consensus"), found.mean(0), strict=True):
                print(f"{title}, {name}, stopped by {how}: {100 * right:.1f} %, NLL {loss:.3f}", flush=True)
            for metric, values in zip(("accuracy", "NLL"), (found[:, 1] - found[:, 0]).T, strict=True):
                change = mean_difference(values)
                low, high = change.interval()
                print(f"  {metric} {change.mean:+.3f} [{low:+.3f}, {high:+.3f}]", flush=True)
    if len(sys.argv) > 1:
        gold = pd.read_parquet(Path(sys.argv[1]) / "music_genre" / "annotations.parquet")["gold"]
        for how in ("labels", "consensus"):
            areas = [rank_labels(how, seed, **music[0], gold=gold) for seed in range(3)]
            print(f"music genre, wrong labels found, stopped by {how}: AUROC {np.mean(areas):.3f}", flush=True)

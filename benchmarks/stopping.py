"""Early stopping by held-out labels or by their consensus: ``python -m benchmarks.stopping DATA``.

On digits and, if DATA is given, on music genre: a folder ``music_genre`` with ``annotations.parquet`` and
``test.parquet``. Ten seeds; the intervals of differences are paired.
"""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lupi import PrivilegedClassifier
from lupi.compare.statistics import mean_difference
from lupi.datasets import load_digits_annotated
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

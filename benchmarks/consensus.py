"""How the consensus of held-out labels ranks methods, compared with true labels.

``python -m benchmarks.consensus DATA [SEEDS]``. DATA holds `music_genre` and `sentiment_polarity` (Rodrigues et al.
2013), each with `annotations.parquet` and, with true labels, `test.parquet`; the digits of `lupi demo` are embedded.
For each seed 20 % of the examples are held out. Every method trains on the others and is scored on the true labels of
the test set, and on the held-out examples in three ways: on their raw labels, on Dawid and Skene's posterior from the
labels alone, and on the consensus as `lupi compare` infers it. The rank correlations over methods are of means over
seeds.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, spearmanr
from sklearn.model_selection import GroupShuffleSplit

from benchmarks.ratings import inputs
from lupi import PrivilegedClassifier
from lupi.crowd import Votes, dawid_skene, infer
from lupi.datasets import load_digits_annotated
from lupi.metrics import Posterior, evaluate

EPOCHS = {"digits": 30, "digits, three labels": 30, "music_genre": 20, "sentiment_polarity": 5}
FIXED = (
    *("no-pi", "majority-vote", "dawid-skene", "mean-imputation", "zero-imputation", "tram"),
    *("pi-dual", "pi-transition", "distillation"),
)
EARLY = ("no-pi", "mean-imputation", "pi-dual", "pi-transition")
WAYS = ("raw labels", "labels alone", "consensus")


def main(folder: Path, seeds: int) -> None:
    warnings.simplefilter("ignore")
    for name in EPOCHS:
        rows = [row for seed in range(seeds) for row in scores(folder, name, seed)]
        table = pd.DataFrame(rows).groupby("method", sort=False).mean()
        print(f"\n{name}\n{table.round(3).to_string()}")
        for way in WAYS:
            for metric in ("nll", "accuracy"):
                pair = table[f"{way} {metric}"], table[f"gold {metric}"]
                print(f"{way}, {metric}: Spearman {spearmanr(*pair)[0]:+.2f}, Kendall {kendalltau(*pair)[0]:+.2f}")


def load(folder: Path, name: str, seed: int) -> tuple[Any, ...]:
    """Return X, labels, privileged information, examples, and X and true labels of the test set."""
    if name.startswith("digits"):
        digits = load_digits_annotated(3 if "three" in name else 1, random_state=seed)
        return digits.X_train, digits.y_train, digits.privileged, digits.example, digits.X_test, digits.y_test
    table, test = (pd.read_parquet(folder / name / f"{part}.parquet") for part in ("annotations", "test"))
    both = pd.concat([table, test], ignore_index=True)
    key = "song" if name == "music_genre" else "sentence"
    X = inputs(both, pd.factorize(both["text"])[0] if "text" in both else np.arange(len(both)))
    classes = np.unique(table["label"])
    y, gold = (np.searchsorted(classes, part["label"]) for part in (table, test))
    return X[: len(table)], y, table[["annotator"]].astype(str), pd.factorize(table[key])[0], X[len(table) :], gold


def scores(folder: Path, name: str, seed: int) -> list[dict[str, Any]]:
    """Score every method on true labels and in three ways on held-out examples."""
    X, y, privileged, example, X_gold, gold = load(folder, name, seed)
    train, test = next(GroupShuffleSplit(1, test_size=0.2, random_state=seed).split(X, groups=example))
    who, of = pd.factorize(privileged["annotator"])[0], pd.factorize(example)[0]
    _, first, back = np.unique(example[test], return_index=True, return_inverse=True)

    def fit(method: str, random_state: int, **options: Any) -> PrivilegedClassifier:
        model = PrivilegedClassifier(method, random_state=random_state, **{"epochs": EPOCHS[name], **options})
        return model.fit(X[train], y[train], privileged=privileged.iloc[train], example=example[train])

    votes = Votes(
        example=of, annotator=who, label=y, examples=of.max() + 1, annotators=who.max() + 1, classes=y.max() + 1
    )
    p = fit("no-pi", 1_000_000 + seed, epochs=50, patience=5).predict_proba(X[test])
    truth = {
        "labels alone": dawid_skene(votes)[0][of[test][first]],
        "consensus": infer(p, y[test], example=back, annotator=who[test]).truth[pd.unique(back).argsort()],
    }
    rows = []
    arms: list[tuple[str, dict[str, int]]] = [(method, {}) for method in FIXED]
    arms += [(method, {"epochs": 50, "patience": 5}) for method in EARLY]
    for method, options in arms:
        model = fit(method, seed, **options)
        p = model.predict_proba(X[test][first])
        found = {"gold": evaluate(gold, model.predict_proba(X_gold)), "raw labels": evaluate(y[test], p[back])}
        found |= {way: evaluate(Posterior(posterior), p) for way, posterior in truth.items()}
        numbers = {f"{way} {metric}": own[metric].value for way, own in found.items() for metric in ("nll", "accuracy")}
        rows.append({"method": method + (" [early stopping]" if options else ""), **numbers})
    return rows


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)

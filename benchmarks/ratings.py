"""Rating scales: grades in order beside classes and numbers: ``python -m benchmarks.ratings DATA [SEEDS] [SET ...]``.

DATA holds `politeness/annotations.parquet` (ratings from 1 to 25) and `convabuse/annotations.parquet` (from 1, fine, to
-3). There are no true grades. For each seed, a quarter of the examples and half of the annotators are held out. `auto`
is trained on the other labels and scored on the labels that held-out annotators gave to held-out examples: the absolute
error from each label and from their mean, and the ranked probability score (RPS), also of probabilities p^(1/1.5),
which are less sure. Texts are encoded with TF-IDF. Intervals are of paired differences over seeds, whose splits
overlap. Two limits are printed: the RPS of the share of each grade among all labels, and half the mean difference
between two labels of an example, the RPS of someone who knows how its labels are distributed.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import t
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from lupi import PrivilegedClassifier, PrivilegedRegressor
from lupi.metrics import find_medians, ranked_probability_score

SETS = ("politeness", "convabuse")
EPOCHS = 30
SOFTER = 1.5
"""Chosen on splits of the training labels of seeds 0 and 1."""


def main(folder: Path, seeds: int, names: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for name in names or SETS:
        runs = pd.DataFrame([row for seed in range(seeds) for row in scores(folder, name, seed)])
        means = runs.groupby("prediction", sort=False).mean().drop(columns="seed")
        print(f"\n{name}, {describe_limits(folder, name)}\n{means.round(3).to_string()}")
        wide = runs.pivot_table(index="seed", columns="prediction", sort=False)
        print("\ngrades minus the others, with 95 % intervals: their mean for the mean label, else their median")
        for metric, other in map(tuple, wide.columns):
            own = "grades, mean" if metric == "MAE, their mean" else "grades, median"
            gap = (wide[metric, own] - wide[metric, other]).to_numpy()
            if other != own:
                half = t.ppf(0.975, len(gap) - 1) * gap.std(ddof=1) / np.sqrt(len(gap))
                print(
                    f"  {metric:<16} {other:<16} {gap.mean():+.3f} [{gap.mean() - half:+.3f}, {gap.mean() + half:+.3f}]"
                )


def read(folder: Path, name: str) -> tuple[pd.DataFrame, Any, Any]:
    """Return the table of a set, its labels and the numbers of its examples."""
    table = pd.read_parquet(folder / name / "annotations.parquet")
    if name == "convabuse":
        table["text"] = table["agent"].fillna("") + " " + table["user"].fillna("")
    return table, table["label"].to_numpy().astype(int), pd.factorize(table["example"])[0]


def describe_limits(folder: Path, name: str) -> str:
    """Return the RPS of someone who knows how the labels of each example are distributed, or those of all."""
    _, y, example = read(folder, name)
    grades, code = np.unique(y, return_inverse=True)
    counts = np.zeros((example.max() + 1, len(grades)))
    np.add.at(counts, (example, code), 1)
    distance = np.abs(np.subtract.outer(np.arange(len(grades)), np.arange(len(grades))))
    size = counts.sum(1)
    own = np.einsum("ij,jk,ik->", counts, distance, counts) / (size * (size - 1)).sum()
    share = counts.sum(0) / counts.sum()
    return f"RPS between {own / 2:.3f} (labels of each example known) and {share @ distance @ share / 2:.3f} (shares)"


def scores(folder: Path, name: str, seed: int) -> list[dict[str, Any]]:
    """Train on some annotators and examples, and score predictions by the labels of the others."""
    table, y, example = read(folder, name)
    who, people = pd.factorize(table["annotator"])
    rng = np.random.default_rng(seed)
    new = np.isin(example, rng.permutation(example.max() + 1)[: (example.max() + 1) // 4])
    others = np.isin(who, rng.permutation(len(people))[: len(people) // 2])
    train, test = np.flatnonzero(~new & ~others), np.flatnonzero(new & others)
    X, privileged = inputs(table, example), table[["annotator"]].astype(str)
    grades, code = np.unique(y, return_inverse=True)
    mean = pd.Series(y[test]).groupby(example[test]).transform("mean").to_numpy()
    of_example = 1 / pd.Series(example[test]).groupby(example[test]).transform("count").to_numpy()

    def fit(model: Any) -> Any:
        return model.fit(X[train], y[train], privileged=privileged.iloc[train], example=example[train])

    def line(prediction: str, found: Any, p: Any = None) -> dict[str, Any]:
        rps = [np.nan, np.nan]
        if p is not None:
            softer = p ** (1 / SOFTER)
            softer /= softer.sum(1, keepdims=True)
            rps = [float(ranked_probability_score(code[test], each).mean()) for each in (p, softer)]
        return {
            "prediction": prediction,
            "seed": seed,
            "MAE, each label": np.abs(found - y[test]).mean(),
            "MAE, their mean": np.average(np.abs(found - mean), weights=of_example),
            "RPS": rps[0],
            "RPS, softer": rps[1],
        }

    options: Any = {"epochs": EPOCHS, "random_state": seed}
    rows = [line("numbers", fit(PrivilegedRegressor(**options)).predict(X[test]))]
    for kind, scale in (("classes", "nominal"), ("grades", grades.tolist())):
        model = fit(PrivilegedClassifier(scale=scale, **options))
        p = np.zeros((len(test), len(grades)))
        p[:, np.searchsorted(grades, model.classes_)] = model.predict_proba(X[test])
        rows.append(line(f"{kind}, argmax", grades[p.argmax(1)], p))
        rows.append(line(f"{kind}, median", grades[find_medians(p)], p))
        rows.append(line(f"{kind}, mean", p @ grades, p))
    return rows


def inputs(table: pd.DataFrame, example: Any) -> Any:
    """Return features of the rows: their own, or TF-IDF of their texts in 256 dimensions."""
    if "text" not in table:
        return table.filter(like="feature").to_numpy()
    first = np.unique(example, return_index=True)[1]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2)).fit_transform(table["text"].iloc[first])
    return TruncatedSVD(256, random_state=0).fit_transform(words)[example]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5, sys.argv[3:])

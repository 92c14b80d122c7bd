"""Annotators and suspicious labels, scored by true labels: ``python -m benchmarks.annotators DATA [SEEDS]``.

DATA holds `music_genre/annotations.parquet` and `sentiment_polarity/annotations.parquet` (Rodrigues et al. 2013), with
the true labels in `gold`, which are used for scoring only. cleanlab's scores are printed where it is installed.

Coverage is the fraction of annotators with 20 labels or more whose share of correct labels lies in the 95 % interval of
`reliability`. That share has a sampling error of its own as an estimate of the probability of a correct label, but the
interval, which comes from the same labels, moves with it: if the truth were known, nearly all shares would be covered.

The epochs were chosen by the probability of held-out noisy labels.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score

from lupi.crowd import infer, summarize_annotators
from lupi.diagnose import predict_out_of_fold

EPOCHS = {"music_genre": 10, "sentiment_polarity": 2}
METHODS = ("no-pi", "tram", "pi-dual", "pi-transition")


def main(folder: Path, seeds: int) -> None:
    rows = [row for name in EPOCHS for seed in range(seeds) for row in scores(folder, name, seed)]
    table = pd.DataFrame(rows, columns=["set", "estimate", "spearman, 5 labels", "spearman, all", "auroc", "coverage"])
    print(table.groupby(["set", "estimate"], sort=False).agg(["mean", "std"]).round(3).to_string())


def scores(folder: Path, name: str, seed: int) -> list[tuple[Any, ...]]:
    table = pd.read_parquet(folder / name / "annotations.parquet")
    example = pd.factorize(table["song" if name == "music_genre" else "sentence"])[0]
    annotator = pd.factorize(table["annotator"])[0]
    classes, label = np.unique(table["label"], return_inverse=True)
    wrong = (table["label"] != table["gold"]).to_numpy()
    row, size = np.arange(len(label)), np.bincount(annotator)
    X = inputs(table, example)

    def mean(value: Any) -> Any:
        return np.bincount(annotator, value) / size

    def line(estimate: str, of_annotator: Any, suspicion: Any, interval: Any = None) -> tuple[Any, ...]:
        true, some = 1 - mean(wrong), size >= 5
        ranks = [spearmanr(of_annotator[rows], true[rows])[0] for rows in (some, size > 0)]
        covered = np.nan
        if interval is not None:
            covered = ((interval[0] <= true) & (true <= interval[1]))[size >= 20].mean()
        return (name, estimate, *ranks, roc_auc_score(wrong, suspicion), covered)

    votes = np.zeros((example.max() + 1, len(classes)))
    np.add.at(votes, (example, label), 1)
    share = votes[example, label] / votes.sum(1)[example]
    lines = [line("majority vote", mean(votes.argmax(1)[example] == label), 1 - share)]
    for method in METHODS:
        p, _ = predict_out_of_fold(
            X,
            label,
            privileged=pd.DataFrame({"annotator": annotator.astype(str)}),
            example=example,
            method=method,
            random_state=seed,
            parameters={"epochs": EPOCHS[name]},
        )
        found = infer(p, label, example=example, annotator=annotator)
        if method == "no-pi":
            lines.append(line("model alone, no-pi", mean(p[row, label]), 1 - p[row, label]))
            lines += [line(*score) for score in cleanlab(p, label, example, annotator)]
        columns = summarize_annotators(found)
        interval = columns["low"], columns["high"]
        lines.append(line(f"{method}, support", columns["support"], 1 - found.others[row, label]))
        lines.append(line(f"{method}, reliability", columns["reliability"], found.wrong, interval))
    return lines


def inputs(table: pd.DataFrame, example: Any) -> Any:
    if "text" not in table:
        return table.filter(like="feature").to_numpy()
    first = np.unique(example, return_index=True)[1]
    words = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, 2)).fit_transform(table["text"].iloc[first])
    return TruncatedSVD(256, random_state=0).fit_transform(words)[example]


def cleanlab(p: Any, label: Any, example: Any, annotator: Any) -> list[tuple[str, Any, Any]]:
    try:
        from cleanlab.multiannotator import get_label_quality_multiannotator
    except ImportError:
        return []
    given = np.full((example.max() + 1, annotator.max() + 1), np.nan)
    given[example, annotator] = label
    first = np.unique(example, return_index=True)[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = get_label_quality_multiannotator(pd.DataFrame(given), p[first], verbose=False)
    stats = result["annotator_stats"].sort_index()
    suspicion = 1 - result["detailed_label_quality"].to_numpy()[example, annotator]
    return [
        ("cleanlab, annotator quality", stats["annotator_quality"].to_numpy(), suspicion),
        ("cleanlab, agreement with consensus", stats["agreement_with_consensus"].to_numpy(), suspicion),
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)

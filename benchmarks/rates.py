"""The share of a class from LLM judges and a few people, over and over: coverage and width of the intervals.

``python -m benchmarks.rates DATA``. DATA holds `civil_judges`. Each of 500 draws takes the human labels of some
comments at random; the share among all human labels is the truth. The predictions are the share of judges with the
verdict "toxic", the mean of their scores of 0 to 9, or a ridge regression of the human labels on all judges' scores. It
is cross-fitted: a comment with a human label is predicted from the other folds, all others by the mean of the folds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_predict

from lupi.crowd import Votes
from lupi.crowd.dependence import measure_dependence
from lupi.crowd.rates import correct_shares, estimate_mean

DRAWS, FOLDS = 500, 5
SIZES = (20, 50, 100, 200)


def main(folder: Path) -> None:
    table = pd.read_parquet(folder / "civil_judges" / "judgements.parquet")
    examples = table.groupby("example").agg(gold=("gold", "first"), verdict=("label", "mean"), score=("score", "mean"))
    gold = examples["gold"].to_numpy(float)
    scores = widen(table, ["score"])
    print(f"{len(gold):,} comments, {gold.mean():.1%} toxic; {DRAWS} draws\n")
    for size in SIZES:
        found: dict[str, list[tuple[float, float, float]]] = {}
        corrected = []
        for seed in range(DRAWS):
            truth = np.full(len(gold), np.nan)
            known = np.random.default_rng(seed).choice(len(gold), size, replace=False)
            truth[known] = gold[known]
            for name, values in {"people alone": 0 * gold, **examples[["verdict", "score"]]}.items():
                found.setdefault(str(name), []).append(estimate_mean(np.asarray(values), truth, share=True))
            fitted = cross_fit(scores, truth, known)
            found.setdefault("regression", []).append(estimate_mean(fitted, truth, share=True))
            verdict, true = examples["verdict"].to_numpy(), np.stack([1 - truth, truth], 1)
            corrected.append(correct_shares(np.stack([1 - verdict, verdict], 1), true)[1])
        alone = np.ptp(np.array(found["people alone"])[:, 1:], axis=1).mean()
        for name, rows in found.items():
            rate, low, high = np.array(rows).T
            error, covered = (
                np.sqrt(np.mean((rate - gold.mean()) ** 2)),
                np.mean((low <= gold.mean()) & (gold.mean() <= high)),
            )
            print(
                f"{size} human labels, {name:<12} covered {covered:.1%}, width {np.mean(high - low):.3f} "
                f"({np.mean(high - low) / alone:.2f} of people alone), error {error:.3f}"
            )
        print(
            f"{size} human labels, Rogan–Gladen error {np.sqrt(np.mean((np.array(corrected) - gold.mean()) ** 2)):.3f}"
        )
    print_dependence(table, gold)
    print(f"the judges' verdicts alone: {examples['verdict'].mean():.1%} toxic")
    print(
        f"correlation with people: verdicts {np.corrcoef(gold, examples['verdict'])[0, 1]:.2f}, "
        f"scores {np.corrcoef(gold, examples['score'])[0, 1]:.2f}, {limit(table, gold):.2f} for the best combination"
    )


def widen(table: pd.DataFrame, values: list[str]) -> np.ndarray:
    """Return the standardized verdicts or scores of all judges, [comments, columns]."""
    wide = table.pivot_table(index="example", columns="annotator", values=values)
    wide = wide.fillna(wide.mean())
    return ((wide - wide.mean()) / wide.std()).to_numpy()


def cross_fit(scores: np.ndarray, truth: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Predict human labels from scores by ridge regressions that did not see the label they predict."""
    prediction, own = np.zeros(len(truth)), np.zeros(len(known))
    for fold in range(FOLDS):
        out = np.arange(len(known)) % FOLDS == fold
        of_fold = RidgeCV(np.logspace(0, 4, 9)).fit(scores[known[~out]], truth[known[~out]]).predict(scores)
        prediction += of_fold / FOLDS
        own[out] = of_fold[known[out]]
    prediction[known] = own
    return prediction


def print_dependence(table: pd.DataFrame, gold: np.ndarray) -> None:
    """Print how many independent votes the judges are worth, by all human labels."""
    example, annotator = pd.factorize(table["example"], sort=True)[0], pd.factorize(table["annotator"])[0]
    votes = Votes(
        example=example,
        annotator=annotator,
        label=table["label"].to_numpy(),
        examples=len(gold),
        annotators=annotator.max() + 1,
        classes=2,
    )
    found = measure_dependence(votes, np.eye(2)[gold.astype(int)])
    assert found is not None
    worth, low, high = found.votes
    right = (table["label"] == table["gold"]).groupby(table["annotator"]).mean()
    print(
        f"{found.size:.1f} judges are worth {worth:.1f} [{low:.1f}, {high:.1f}]; correlation {found.mean:.2f}; "
        f"they are right {right.min():.0%} to {right.max():.0%}"
    )


def limit(table: pd.DataFrame, gold: np.ndarray) -> float:
    """Return the correlation of a regression on all verdicts and scores that learns from all other human labels."""
    model = RidgeCV(np.logspace(0, 4, 9))
    return float(np.corrcoef(cross_val_predict(model, widen(table, ["label", "score"]), gold, cv=10), gold)[0, 1])


if __name__ == "__main__":
    main(Path(sys.argv[1]))

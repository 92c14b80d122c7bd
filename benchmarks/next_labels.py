"""Buy labels one by one, and see whether the order of `next.csv` reaches an accurate consensus with fewer of them.

``python -m benchmarks.next_labels DATA [SEEDS]``. DATA holds `music_genre`, `sentiment_polarity` and `civil_judges`, of
which 1000 comments are used. Each example starts with one of its labels. In each round, a strategy chooses examples,
and one more of the labels that the set has for each is bought. All strategies use the same consensus: that of
`lupi.crowd.infer` with the out-of-fold predictions of a logistic regression on the inputs, trained on majority votes.
It is scored by the true labels, which serve for nothing else. cleanlab's scores are used where it is installed.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

from lupi.crowd import Inference, Votes, majority_vote
from lupi.crowd.inference import infer_votes
from lupi.crowd.next_labels import expected_gains, typical_annotator

ROUNDS = 14
COMMENTS = 1000


def read_set(folder: Path, name: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return labels, with columns example, annotator, label and gold as numbers, and inputs by example."""
    texts: pd.Series | None
    if name == "civil_judges":
        table = pd.read_parquet(folder / name / "judgements.parquet")
        texts = pd.read_parquet(folder / name / "comments.parquet").set_index("example")["text"].head(COMMENTS)
        table = table[table["example"].isin(texts.index)]
        example = pd.Index(texts.index).get_indexer(table["example"])
    else:
        table = pd.read_parquet(folder / name / "annotations.parquet")
        example = pd.factorize(table["song" if name == "music_genre" else "sentence"])[0]
        texts = table.groupby(example)["text"].first() if "text" in table else None
    codes, classes = pd.factorize(table["label"], sort=True)
    annotator = pd.factorize(table["annotator"])[0]
    gold = pd.Index(classes).get_indexer(table["gold"])
    labels = pd.DataFrame({"example": example, "annotator": annotator, "label": codes, "gold": gold})
    if texts is not None:
        vectors = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(texts)
        inputs = TruncatedSVD(100, random_state=0).fit_transform(vectors)
    else:
        features = table.drop(columns=["song", "annotator", "label", "gold"]).select_dtypes("number")
        inputs = features.groupby(example).first().to_numpy()
    return labels, StandardScaler().fit_transform(inputs)


def find_consensus(labels: pd.DataFrame, inputs: np.ndarray, classes: int) -> tuple[Inference, np.ndarray]:
    """Return the inference from some labels, and the predictions that it used."""
    who, annotator = np.unique(labels["annotator"], return_inverse=True)
    votes = Votes(
        example=labels["example"].to_numpy(),
        annotator=annotator,
        label=labels["label"].to_numpy(),
        examples=len(inputs),
        annotators=len(who),
        classes=classes,
    )
    target = majority_vote(votes)
    p = np.full((len(inputs), classes), 1e-3)
    model = LogisticRegression(C=0.01, max_iter=200)
    p[:, np.unique(target)] += cross_val_predict(model, inputs, target, cv=3, method="predict_proba")
    p /= p.sum(1, keepdims=True)
    return infer_votes(votes, p), p


def choose(how: str, labels: pd.DataFrame, found: Inference, p: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the priority of each example."""
    noise = rng.random(len(p))
    if how == "random":
        return noise
    if how == "fewest labels first":
        return noise - np.bincount(labels["example"], minlength=len(p))
    if how == "next.csv":
        return expected_gains(found, typical_annotator(found)) + 1e-9 * noise
    from cleanlab.multiannotator import get_active_learning_scores

    wide = labels.pivot_table(index="example", columns="annotator", values="label").to_numpy()
    with warnings.catch_warnings(action="ignore"):
        return np.asarray(1e-9 * noise - get_active_learning_scores(wide, p)[0])


def replay(how: str, pool: pd.DataFrame, inputs: np.ndarray, seed: int) -> list[tuple[float, float]]:
    """Return shares of labels bought, and the accuracy of the consensus."""
    rng = np.random.default_rng(seed)
    pool = pool.sample(frac=1, random_state=seed).reset_index(drop=True)
    rank = pool.groupby("example").cumcount().to_numpy()  # labels of an example are bought in this order
    gold, example = pool.groupby("example")["gold"].first().to_numpy(), pool["example"].to_numpy()
    bought, classes = rank == 0, int(pool["label"].max()) + 1
    left, curve = np.bincount(example, minlength=len(inputs)) - 1, []
    step = -(-int((~bought).sum()) // ROUNDS)
    while True:
        labels = pool[bought]
        found, p = find_consensus(labels, inputs, classes)
        curve.append((bought.mean(), float(np.mean(found.truth.argmax(1) == gold))))
        if bought.all():
            return curve
        have = np.bincount(example[bought], minlength=len(inputs))
        need = min(step, int((~bought).sum()))
        priority = choose(how, labels, found, p, rng)
        more = np.zeros(len(inputs), int)
        while more.sum() < need:  # one label per example; if that is too few, another round of the same order
            open_ = np.flatnonzero(have + more <= left)
            best = open_[np.argsort(-priority[open_], kind="stable")][: need - more.sum()]
            more[best] += 1
        if how == "random":  # any label that is left
            bought[rng.choice(np.flatnonzero(~bought), need, replace=False)] = True
        else:
            bought |= rank < (have + more)[example]


def main(folder: Path, seeds: int) -> None:
    ways = ["random", "fewest labels first", "next.csv"]
    ways += ["cleanlab"] if importlib.util.find_spec("cleanlab") else []
    for name in ("music_genre", "sentiment_polarity", "civil_judges"):
        pool, inputs = read_set(folder, name)
        print(f"\n{name}: {len(pool):,} labels of {len(inputs):,} examples; mean of {seeds} seeds")
        means = {}
        for how in ways:
            curves = np.array([replay(how, pool, inputs, seed) for seed in range(seeds)])
            means[how] = curves.mean(0)
        final = means["random"][-1, 1]
        for how, curve in means.items():
            reached = curve[curve[:, 1] >= final - 1e-9][0, 0]
            some = " ".join(f"{share:.0%} {accuracy:.3f}" for share, accuracy in curve[::2])
            print(f"{how:<20} reaches {final:.3f} with {reached:.0%} of the labels; {some}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3)

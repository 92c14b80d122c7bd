"""A text model from LLM judges and a few labels of people, beside the judges: ``python -m benchmarks.llm_judges DATA``.

DATA holds `civil_judges`. In each draw, five of the twenty judges have judged 1000 of the comments, and people have
labelled 0, 50, 100 or 200 of these. Text models are scored on the comments of `test.parquet`. Judges have not seen
those, so they are scored on the 2,497 other comments that they judged. Texts are encoded once, by the model in the
folder ``--encoder``, such as all-MiniLM-L6-v2, or with TF-IDF. A judge's probabilities are shares among the comments
that people labelled, with one more of each class. No choice saw the labels that score it.
"""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from lupi import PrivilegedClassifier
from lupi.tabular.text_encoders import make_text_encoder

SIZES = (0, 50, 100, 200)
JUDGES, COMMENTS, EPOCHS = 5, 1000, 20
SMALLEST = 1e-7
Array = np.ndarray[Any, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder", help="folder of a Hugging Face model")
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    texts, verdicts, scores, gold, test = read_judges(options.data)
    encode = make_text_encoder(options.encoder).fit(texts)
    X, T = encode.transform(texts), encode.transform(test["text"].tolist())
    runs = []
    for seed in range(options.draws):
        for size in SIZES:
            rng = np.random.default_rng(seed)  # the same judges and comments for each size, and nested labels of people
            judges = rng.permutation(len(verdicts.T))[:JUDGES]
            order = rng.permutation(len(gold))
            seen, rest = order[:COMMENTS], order[COMMENTS:]
            known = np.where(np.arange(COMMENTS) < size, gold[seen], np.nan)
            V, S = verdicts[:, judges], scores[:, judges]
            found = predict_with_judges(V[seen], V[rest], known)
            for name, p in found:
                runs.append((size, name, *score(p, gold[rest])))
            for name, p in predict_from_texts(X[seen], V[seen], S[seen], known, T, seed):
                runs.append((size, name, *score(p, test["label"].to_numpy())))
            print(f"draw {seed}, {size} labels of people", flush=True)
    frame = pd.DataFrame(runs, columns=["labels of people", "prediction", "accuracy", "NLL"])
    groups = frame.groupby(["prediction", "labels of people"], sort=False)
    for metric, digits in (("accuracy", 1), ("NLL", 3)):
        mean, error = groups[metric].mean(), groups[metric].sem()
        text = mean.map(f"{{:.{digits}f}}".format) + " ± " + error.map(f"{{:.{digits}f}}".format)
        print(f"\n{metric}, mean ± standard error over {options.draws} draws")
        print(text.unstack().fillna("–").to_string())


def read_judges(data: Path) -> tuple[list[str], Array, Array, Array, pd.DataFrame]:
    """Return the comments, the verdicts and scores of the judges, what people say, and the test set.

    Verdicts and scores have a row per comment and a column per judge; the few that are missing are the judge's median.
    """
    folder = data / "civil_judges"
    table = pd.read_parquet(folder / "judgements.parquet")
    comments = pd.read_parquet(folder / "comments.parquet").set_index("example")["text"]
    wide = table.pivot_table(index="example", columns="annotator", values=["label", "score"]).reindex(comments.index)
    verdicts, scores = (wide[name].fillna(wide[name].median()).to_numpy() for name in ("label", "score"))
    gold = table.groupby("example")["gold"].first().reindex(comments.index).to_numpy()
    return comments.tolist(), verdicts, scores, gold, pd.read_parquet(folder / "test.parquet")


def score(p: Array, truth: Array) -> tuple[float, float]:
    """Return the accuracy in % and the NLL of the probability that a comment is toxic."""
    own = np.where(truth == 1, p, 1 - p)
    return 100 * float((own > 0.5).mean()), float(-np.log(own.clip(SMALLEST)).mean())


def predict_with_judges(seen: Array, rest: Array, known: Array) -> Iterator[tuple[str, Array]]:
    """Yield the verdicts of the best judge and of the majority, as probabilities."""
    use = ~np.isnan(known)
    if not use.any():
        yield f"majority of {JUDGES} judges, all called", (rest.sum(1) + 1) / (JUDGES + 2)
        return
    best = int((seen[use] == known[use, None]).mean(0).argmax())
    for name, one, other in (
        ("best judge by these labels, called", seen[:, best], rest[:, best]),
        (f"majority of {JUDGES} judges, all called", seen.mean(1) > 0.5, rest.mean(1) > 0.5),
    ):
        shares = [
            (known[use & (one == verdict)].sum() + 1) / ((use & (one == verdict)).sum() + 2) for verdict in (0, 1)
        ]
        yield name, np.where(other == 1, shares[1], shares[0])


def predict_from_texts(X: Array, V: Array, S: Array, known: Array, T: Array, seed: int) -> Iterator[tuple[str, Array]]:
    """Yield predictions of models that need the text alone."""
    use = ~np.isnan(known)
    majority = np.where(use, known, V.mean(1) > 0.5)
    yield "logistic regression on the majority", logistic(X, majority, T)
    if use.any():
        yield "logistic regression, people alone", logistic(X[use], known[use], T)
        network = PrivilegedClassifier("no-pi", epochs=EPOCHS, random_state=seed).fit(X[use], known[use])
        yield "network, people alone", network.predict_proba(T)[:, 1]
        scale = StandardScaler().fit(S)
        of_scores = LogisticRegression(C=0.1).fit(scale.transform(S[use]), known[use])
        p = np.where(use, known, of_scores.predict_proba(scale.transform(S))[:, 1])
        yield (
            "logistic regression on what people would say, given the scores",
            logistic(np.concatenate([X, X]), np.repeat([0, 1], len(X)), T, np.concatenate([1 - p, p])),
        )
    p = np.where(use, known, S.mean(1) / 9)
    soft = PrivilegedClassifier("no-pi", soft=True, epochs=EPOCHS, patience=5, random_state=seed)
    yield "network, mean score as soft label", soft.fit(X, np.stack([1 - p, p], 1)).predict_proba(T)[:, 1]
    row, judge = np.repeat(np.arange(len(X)), V.shape[1]), np.tile(np.arange(V.shape[1]), len(X))
    privileged = pd.DataFrame({"annotator": judge.astype(str), "score": S.ravel()})
    gold = known[row] if use.any() else None
    for name, columns in (("auto", ["annotator"]), ("auto, score as PI", ["annotator", "score"])):
        model = PrivilegedClassifier(epochs=EPOCHS, random_state=seed)
        model.fit(X[row], V.ravel().astype(int), privileged=privileged[columns], example=row, gold=gold)
        yield name, model.predict_proba(T)[:, 1]


def logistic(X: Array, y: Array, T: Array, weight: Array | None = None) -> Array:
    """Return the predictions of a logistic regression on standardized inputs."""
    scale = StandardScaler().fit(X)
    model = LogisticRegression(C=0.01, max_iter=1000).fit(scale.transform(X), y, sample_weight=weight)
    return np.asarray(model.predict_proba(scale.transform(T))[:, 1])


if __name__ == "__main__":
    main()

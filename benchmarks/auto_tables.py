"""The default beside what one would otherwise use, on published crowd sets with gold test labels.

``python -m benchmarks.auto_tables music --data DIR`` prints the table of a set: the mean and standard deviation of
accuracy and NLL over seeds, and the time of a fit relative to 50 epochs of No PI. DIR holds a folder per set with
``annotations.parquet`` and ``test.parquet``, one row per label (columns: the id of the example, annotator, label, gold,
other privileged columns, and features or a text). Texts are encoded once by the encoder in the folder ``--encoder``.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lupi import PrivilegedClassifier
from lupi.crowd import Votes
from lupi.crowd.confusions import dawid_skene
from lupi.metrics import METRICS
from lupi.tabular.text_encoders import make_text_encoder

EARLY: dict[str, Any] = {"patience": 5}
ROWS: dict[str, dict[str, Any]] = {
    "no-pi, early stopping": {"method": "no-pi", **EARLY},
    "no-pi, early stopping, 5 averaged": {"method": "no-pi", "members": 5, **EARLY},
    "dawid-skene, early stopping": {"method": "dawid-skene", **EARLY},
    "tram, early stopping": {"method": "tram", **EARLY},
    "pi-transition, early stopping": {"method": "pi-transition", **EARLY},
    "crowd-layer, early stopping": {"method": "crowd-layer", **EARLY},
    "geo-crowd-net, early stopping": {"method": "geo-crowd-net", **EARLY},
    "annot-mix, early stopping": {"method": "annot-mix", **EARLY},
    "auto": {"method": "auto"},
}
LOGISTIC, GOLD = "logistic regression on Dawid–Skene labels", "gold labels, early stopping"
SMALLEST = 1e-7


class CrowdSet(NamedTuple):
    """Where a published set is, and what its columns are."""

    folder: str
    example: str
    privileged: tuple[str, ...] = ("annotator",)
    labels: str = "annotations.parquet"
    texts: str | None = None


SETS = {
    "music": CrowdSet("music_genre", "song"),
    "sentiment": CrowdSet("sentiment_polarity", "sentence"),
    "seconds": CrowdSet("sentiment_seconds", "example", ("annotator", "seconds")),
    "judges": CrowdSet("civil_judges", "example", ("annotator", "score"), "judgements.parquet", "comments.parquet"),
}


class Task(NamedTuple):
    """Labels with their examples and privileged columns, gold labels, and a test set."""

    X: np.ndarray[Any, Any]
    row: np.ndarray[Any, Any]
    y: np.ndarray[Any, Any]
    privileged: pd.DataFrame
    gold: np.ndarray[Any, Any]
    test: np.ndarray[Any, Any]
    truth: np.ndarray[Any, Any]


def read(own: CrowdSet, data: Path, encoder: str | None) -> Task:
    """Read a set; its texts become vectors."""
    table = pd.read_parquet(data / own.folder / own.labels)
    if own.texts is not None:
        table = table.merge(pd.read_parquet(data / own.folder / own.texts), on=own.example)
    test = pd.read_parquet(data / own.folder / "test.parquet")
    first = table.drop_duplicates(own.example)
    if "text" in table:
        encode = make_text_encoder(encoder).fit(first["text"].tolist())
        x, t = (encode.transform(part["text"].tolist()) for part in (first, test))
    else:
        features = [name for name in map(str, table) if name.startswith("feature")]
        x, t = (part[features].to_numpy(np.float64) for part in (first, test))
    privileged = table[list(own.privileged)].assign(annotator=table["annotator"].astype(str))
    row = pd.factorize(table[own.example])[0]
    return Task(x, row, table["label"].to_numpy(), privileged, first["gold"].to_numpy(), t, test["label"].to_numpy())


def predict(name: str, task: Task, seed: int) -> tuple[Any, np.ndarray[Any, Any]]:
    """Train a row, and return its classes and its predictions for the test set."""
    if name == LOGISTIC:
        y, classes = pd.factorize(task.y, sort=True)
        who = pd.factorize(task.privileged["annotator"])[0]
        votes = Votes(
            example=task.row,
            annotator=who,
            label=y,
            examples=len(task.X),
            annotators=int(who.max()) + 1,
            classes=len(classes),
        )
        truth = dawid_skene(votes)[0]
        logistic = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=1000))
        logistic.fit(task.X, classes[truth.argmax(1)])
        return logistic.classes_, logistic.predict_proba(task.test)
    if name == GOLD:
        model = PrivilegedClassifier("no-pi", random_state=seed, **EARLY).fit(task.X, task.gold)
    else:
        model = PrivilegedClassifier(random_state=seed, **ROWS[name])
        model.fit(task.X[task.row], task.y, privileged=task.privileged, example=task.row)
    return model.classes_, model.predict_proba(task.test)


def measure(name: str, task: Task, seed: int) -> dict[str, float]:
    """Return accuracy, NLL and the processor time of a row."""
    start = time.process_time()
    classes, p = predict(name, task, seed)
    seconds = time.process_time() - start
    place = {value: number for number, value in enumerate(classes)}
    y = np.array([place.get(value, -1) for value in task.truth])
    of_truth = np.where(y >= 0, p[np.arange(len(y)), y], 0).clip(SMALLEST)
    return {"accuracy": float((p.argmax(1) == y).mean()), "nll": float(-np.log(of_truth).mean()), "seconds": seconds}


def lines(task: Task, seeds: int, names: list[str]) -> Iterator[str]:
    """Yield the lines of the table."""
    start = time.process_time()
    plain = PrivilegedClassifier("no-pi", random_state=0)
    plain.fit(task.X[task.row], task.y, privileged=task.privileged, example=task.row)
    unit = time.process_time() - start
    yield f"| method | accuracy % | {METRICS['nll'].label} | processor time / No PI |"
    yield "|---|---|---|---|"
    for name in names:
        runs = pd.DataFrame([measure(name, task, seed) for seed in range(1 if name == LOGISTIC else seeds)])
        mean, spread = runs.mean(), runs.std(ddof=1).fillna(0)
        accuracy = f"{100 * mean['accuracy']:.1f} ± {100 * spread['accuracy']:.1f}"
        yield f"| {name} | {accuracy} | {mean['nll']:.3f} ± {spread['nll']:.3f} | {mean['seconds'] / unit:.1f} |"


def main() -> None:
    """Print the table of a set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", help="folder of a text encoder; TF-IDF by default")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rows", nargs="*", default=[*ROWS, LOGISTIC, GOLD])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    task = read(SETS[options.set], options.data, options.encoder)
    for line in lines(task, options.seeds, options.rows):
        print(line, flush=True)


if __name__ == "__main__":
    main()

"""Train a small model on the labels of LLM judges and a few people, and serve it without calling a judge.

The judges are simulated, so that the example runs offline and the truth is known. Three judges of two families label
1000 answers as good (1) or bad (0), each with one of two prompt versions, and people label 100 of the answers. The
judges make errors of two kinds: noise, and a taste that the judges of one family share, such as a preference for long
answers, which no majority vote removes. The older prompt is noisier and more lenient. Judges state a confidence and
have a log-probability, which are informative but over-confident.

An annotator is a pair (judge, prompt version). Who gave a label, the stated confidence and the log-probability of the
label are privileged information: nobody knows them for a new answer without calling the judge.

>>> main(seeds=1, answers=60, epochs=1)  # doctest: +ELLIPSIS
accuracy on true labels, %, and how much better auto is [95 % interval]
...
"""

import sys
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit

from lupi import PrivilegedClassifier

FEATURES = 10
PEOPLE_RIGHT = 0.95
TEST = 4000
Array = NDArray[Any]


class Judge(NamedTuple):
    """How a judge errs: its score of an answer is quality + taste · shared direction + noise."""

    family: int
    taste: float
    noise: float


JUDGES = {"alpha-large": Judge(0, 0.8, 0.6), "alpha-small": Judge(0, 0.8, 1.2), "beta": Judge(1, 0.8, 0.9)}
PROMPTS = {"v1": (0.6, 0.5), "v2": (0.0, 0.0)}
"""Noise and leniency that a prompt version adds."""
OVERCONFIDENCE = 3.0
"""Factor of the judges' log-odds."""


def quality(x: Array) -> Array:
    """Return how good answers are; an answer is good if that is positive."""
    return np.asarray(1.2 * x[:, 0] - 0.8 * x[:, 1] + 0.8 * x[:, 2] * x[:, 3] + 0.6 * np.sin(2 * x[:, 4]))


def ask(rng: np.random.Generator, x: Array, judge: str, prompt: Array) -> pd.DataFrame:
    """Return what a judge says about answers, each with a prompt version."""
    how = JUDGES[judge]
    noise, lenient = (np.array([PROMPTS[version][k] for version in prompt]) for k in (0, 1))
    taste = how.taste * np.tanh(x[:, 5 + how.family])  # what the family likes, such as length
    score = quality(x) + taste + lenient + np.hypot(how.noise, noise) * rng.normal(size=len(x))
    p = expit(OVERCONFIDENCE * score)
    label = (score > 0).astype(int)
    own = np.where(label == 1, p, 1 - p)  # of the label that was given: that of "good" would give the label away
    stated = np.select([own > 0.99, own > 0.9, own > 0.7], [100, 95, 90], 80)
    return pd.DataFrame(
        {
            "answer": np.arange(len(x)),
            "annotator": [f"{judge}/{version}" for version in prompt],
            "confidence": stated,
            "logprob": np.log(own),
            "label": label,
        }
    )


def collect(rng: np.random.Generator, x: Array, people: int) -> pd.DataFrame:
    """Return the labels of all judges, with random prompt versions, and those of people for the first answers."""
    judged = [ask(rng, x, judge, rng.choice(list(PROMPTS), len(x))) for judge in JUDGES]
    truth = (quality(x[:people]) > 0).astype(int)
    label = np.where(rng.random(people) < PEOPLE_RIGHT, truth, 1 - truth)
    person = pd.DataFrame({"answer": np.arange(people), "annotator": "person", "label": label})
    return pd.concat([*judged, person], ignore_index=True)  # people have no confidence and no log-probability


def train(method: str, x: Array, table: pd.DataFrame, epochs: int, seed: int) -> PrivilegedClassifier:
    """Train a model on a table of labels."""
    model = PrivilegedClassifier(method, epochs=epochs, random_state=seed)
    privileged = table[["annotator", "confidence", "logprob"]]
    return model.fit(x[table["answer"]], table["label"], privileged=privileged, example=table["answer"])


def train_softly(x: Array, table: pd.DataFrame, epochs: int, seed: int) -> PrivilegedClassifier:
    """Train a model on the judges' probabilities instead; people are certain."""
    own = np.exp(table["logprob"].fillna(0.0))
    good = np.where(table["label"] == 1, own, 1 - own)
    model = PrivilegedClassifier("no-pi", soft=True, epochs=epochs, random_state=seed)
    return model.fit(x[table["answer"]], np.stack([1 - good, good], 1), example=table["answer"])


def score_all(seed: int, answers: int, epochs: int) -> dict[str, float]:
    """Return the accuracy on true labels, in %, of judges that are asked again and of models that need no judge."""
    rng = np.random.default_rng(seed)
    x, new = rng.normal(size=(answers, FEATURES)), rng.normal(size=(TEST, FEATURES))
    table = collect(rng, x, answers // 10)
    truth = quality(new) > 0
    asked = [ask(rng, new, judge, np.full(TEST, "v2"))["label"] == 1 for judge in JUDGES]  # the better prompt
    people = table[table["annotator"] == "person"]
    scores = {
        "best judge": max((answer == truth).mean() for answer in asked),
        "majority vote of the judges": ((np.mean(asked, 0) > 0.5) == truth).mean(),
        "no-pi on people's labels": train("no-pi", x, people, epochs, seed).score(new, truth),
        "no-pi on probabilities": train_softly(x, table, epochs, seed).score(new, truth),
    }
    for method in ("no-pi", "majority-vote", "dawid-skene", "auto"):
        scores[method] = train(method, x, table, epochs, seed).score(new, truth)
    return {name: 100 * float(score) for name, score in scores.items()}


def main(seeds: int = 5, answers: int = 1000, epochs: int = 20) -> None:
    """Print mean accuracies over seeds, and by how much auto is better, with 95 % intervals over seeds."""
    scores = pd.DataFrame([score_all(seed, answers, epochs) for seed in range(seeds)])
    print("accuracy on true labels, %, and how much better auto is [95 % interval]")
    for name, values in scores.items():
        gain = (scores["auto"] - values).to_numpy()
        spread = gain.std(ddof=1) if seeds > 1 else np.nan
        half = spread / np.sqrt(seeds) * stats.t.ppf(0.975, seeds - 1)
        against = f"{gain.mean():+.1f} [{gain.mean() - half:+.1f}, {gain.mean() + half:+.1f}]"
        print(f"{name:28} {values.mean():.1f}  {'' if name == 'auto' else against}".rstrip())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

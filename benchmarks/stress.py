"""The default beside No PI with early stopping, on simulated labels with noise of many kinds.

``python -m benchmarks.stress -o docs/results`` writes stress.md and stress.svg. Every task changes one thing about a
table of 1,000 examples with 20 inputs and one label each, 40 % of them wrong, by 20 annotators who differ.
"""

import argparse
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from lupi import PrivilegedClassifier, PrivilegedRegressor

INPUTS, TESTS = 20, 5000


class Task(NamedTuple):
    """What to simulate."""

    name: str
    examples: int = 1000
    classes: int = 5
    annotators: int = 20
    labels: int = 1
    truth: str = "linear"
    noise: str = "annotator"
    rate: float = 0.4
    privileged: str = "annotator"


TASKS = (
    Task("base"),
    Task("250 examples", examples=250),
    Task("curved truth", truth="curved", examples=2000),
    Task("50 classes", classes=50),
    Task("500 annotators", annotators=500),
    Task("3 labels each", labels=3),
    Task("curved truth, 3 labels each", truth="curved", labels=3),
    Task("no noise", noise="uniform", rate=0.0),
    Task("uniform noise", noise="uniform"),
    Task("noise of two classes", noise="class", rate=0.35),
    Task("noise near boundaries, 3 labels each", noise="boundary", rate=0.3, labels=3),
    Task("60 % spammers", noise="spammers", rate=0.6),
    Task("90 % spammers, 3 labels each", noise="spammers", rate=0.9, labels=3),
    Task("35 % adversaries", noise="adversaries", rate=0.35),
    Task("annotators copy one, 3 labels each", noise="copies", labels=3),
    Task("only junk is privileged", privileged="junk"),
    Task("a copy of the label is privileged", privileged="copy"),
    Task("seconds are privileged", privileged="seconds"),
    Task("real numbers", classes=1),
    Task("real numbers, 3 labels each", classes=1, labels=3),
)


class Data(NamedTuple):
    """Labels with their examples and privileged columns, and a test set."""

    X: NDArray[np.float64]
    example: NDArray[np.int64]
    y: NDArray[Any]
    privileged: pd.DataFrame
    test: NDArray[np.float64]
    truth: NDArray[Any]


def simulate(task: Task, seed: int) -> Data:
    """Draw the labels and the test set of a task."""
    rng = np.random.default_rng(seed)
    n, K, J = task.examples, task.classes, task.annotators
    X = rng.normal(size=(n + TESTS, INPUTS))
    first, second = rng.normal(size=(INPUTS, 24)) / np.sqrt(INPUTS), rng.normal(size=(24, K))
    score = (np.tanh(3 * X @ first) if task.truth == "curved" else X @ first) @ second
    score = 6 * (score - score.mean(0)) / score.std()
    example = np.arange(n).repeat(task.labels)
    who = rng.integers(J, size=len(example))
    if K == 1:
        truth = score[:, 0] / 6
        offset, spread = rng.normal(0, 0.6, J), rng.gamma(1.0, 0.9, J)
        y: NDArray[Any] = truth[example] + offset[who] + spread[who] * rng.normal(size=len(example))
        wrong = np.abs(y - truth[example]) > 0.6
    else:
        truth = (score + rng.gumbel(size=score.shape)).argmax(1)
        y = give_labels(task, rng, score[example], truth[example], who, example)
        wrong = y != truth[example]
    columns: dict[str, Any] = {"annotator": [f"w{j}" for j in who]}
    if task.privileged == "junk":
        columns = {"seconds": rng.lognormal(2, 0.6, len(y)), "confidence": rng.random(len(y))}
    if task.privileged == "copy":
        columns["said"] = [f"c{label}" for label in y]
    if task.privileged == "seconds":
        columns["seconds"] = rng.lognormal(2 - 0.8 * wrong, 0.6)
    return Data(X[:n], example, y, pd.DataFrame(columns), X[n:], truth[n:])


def give_labels(
    task: Task,
    rng: np.random.Generator,
    score: NDArray[np.float64],
    truth: NDArray[np.int64],
    who: NDArray[np.int64],
    example: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the label that each annotator gives."""
    K, J, m = task.classes, task.annotators, len(truth)
    other, following = (truth + rng.integers(1, K, m)) % K, (truth + 1) % K
    chance, bad = rng.random(m), rng.permutation(J) < task.rate * J
    if task.noise == "uniform":
        return np.where(chance < task.rate, other, truth)
    if task.noise == "annotator":
        return np.where(chance < rng.beta(1.5 * task.rate, 1.5 * (1 - task.rate), J)[who], other, truth)
    if task.noise == "class":  # everybody calls the first two classes by the name of the next one
        return np.where((truth < 2) & (chance < 2 * task.rate), following, truth)
    if task.noise == "boundary":  # the runner-up instead of the most probable class, where they are close
        ranked = np.sort(score, 1)
        close = np.exp(-(ranked[:, -1] - ranked[:, -2]))
        likely = np.argsort(score, 1)[:, -2:]
        rival = np.where(likely[:, 0] == truth, likely[:, 1], likely[:, 0])
        return np.where(chance < (task.rate * close / close.mean()).clip(0, 0.9), rival, truth)
    if task.noise == "spammers":  # half of them always give the same label, the others any
        constant = np.where(rng.random(J) < 0.5, rng.integers(K, size=J), -1)[who]
        spam = np.where(constant >= 0, constant, rng.integers(K, size=m))
        return np.where(bad[who], spam, np.where(chance < 0.15, other, truth))
    if task.noise == "adversaries":
        return np.where(bad[who], following, np.where(chance < 0.12, other, truth))
    assert task.noise == "copies"  # four in five repeat what a leader said
    place = np.unique(example, return_index=True)[1]
    lead = np.where(chance[place] < task.rate, other[place], truth[place])[example]
    return np.where((rng.random(J) < 0.8)[who], lead, np.where(chance < 0.1, other, truth))


def measure(task: Task, seed: int) -> dict[str, float]:
    """Return the score and the loss of No PI and of "auto": accuracy % and NLL, or R² and 1 − R²."""
    data, found = simulate(task, seed), {}
    estimator = PrivilegedRegressor if task.classes == 1 else PrivilegedClassifier
    for name, patience in (("no-pi", 5), ("auto", None)):
        model = estimator(name, random_state=seed, patience=patience)
        model.fit(data.X[data.example], data.y, privileged=data.privileged, example=data.example)
        score = float(model.score(data.test, data.truth))
        loss = 1 - score
        if task.classes > 1:
            place = {value: number for number, value in enumerate(model.classes_)}
            p, column = model.predict_proba(data.test), [place.get(value, -1) for value in data.truth]
            given = np.where(np.array(column) >= 0, p[np.arange(len(p)), column], 0).clip(1e-7)
            loss = -float(np.log(given).mean())
        found[f"{name} score"], found[f"{name} loss"] = 100 * score, loss
    return found


def write_page(rows: pd.DataFrame, seeds: int, folder: Path) -> None:
    """Write the page and its figure."""
    lines = [
        "# Noise of many kinds",
        "",
        "Simulated labels with known truth: `auto` beside early-stopped No PI, with the default settings of both.",
        "`benchmarks/stress.py` describes the tasks; each changes one thing about the first. For real numbers, the",
        f"columns are R² in % and 1 − R². Means over {seeds} seeds, each with other data.",
        "",
        "    python -m benchmarks.stress -o docs/results",
        "",
        "![Gain of auto over No PI](stress.svg)",
        "",
        "| task | No PI: accuracy %, NLL | `auto` | gain | change of NLL |",
        "|---|---|---|---|---|",
    ]
    for name, row in rows.iterrows():
        gain, change = row["auto score"] - row["no-pi score"], row["auto loss"] - row["no-pi loss"]
        plain = f"{row['no-pi score']:.1f}, {row['no-pi loss']:.3f}"
        lines.append(
            f"| {name} | {plain} | {row['auto score']:.1f}, {row['auto loss']:.3f} | {gain:+.1f} | {change:+.3f} |"
        )
    (folder / "stress.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 6), sharey=True, layout="constrained")
    place = np.arange(len(rows))[::-1]
    for axis, kind, label in ((left, "score", "accuracy % (R² in %)"), (right, "loss", "NLL (1 − R²)")):
        before, after = rows[f"no-pi {kind}"], rows[f"auto {kind}"]
        axis.hlines(place, before, after, color="0.75", lw=2, zorder=1)
        axis.scatter(before, place, color="0.5", label="No PI, early stopping", zorder=2)
        axis.scatter(after, place, color="C0", label="auto", zorder=2)
        axis.set(xlabel=label)
        axis.grid(axis="x", alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    left.set_yticks(place, rows.index)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(folder / "stress.svg", metadata={"Date": None})


def main() -> None:
    """Run the tasks, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the page and its figure")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows = {}
    for task in TASKS:
        rows[task.name] = pd.DataFrame([measure(task, seed) for seed in range(options.seeds)]).mean()
        print(task.name, rows[task.name].round(3).to_dict(), flush=True)
    write_page(pd.DataFrame(rows).T, options.seeds, options.output)


if __name__ == "__main__":
    main()

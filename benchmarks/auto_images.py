"""Label posteriors and "auto" on images, beside what one would otherwise use.

``python -m benchmarks.auto_images cifar10h --data DIR -o run.csv`` trains MobileNet on CIFAR-10H (or ``cifar10s``) and
writes one row per method and seed. DIR holds ``cifar-10-batches-py``, the weights of MobileNet (``lupi reproduce
cifar10h`` says which), and ``cifar10h-raw.csv`` or ``cifar10s.parquet``. Networks are tested on training images of
CIFAR-10 with their true labels.

"stack" is the mixture that "auto" distils, and "no-pi, 5 averaged" the average of the networks of label-posterior's
first round.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from lupi.compare.statistics import difference
from lupi.data import Annotations, SparseRows
from lupi.methods import Method, build
from lupi.methods.auto import Auto
from lupi.methods.explanation import mix
from lupi.methods.label_posterior import LabelPosterior
from lupi.nn import Parts
from lupi.nn.inference import over_examples
from lupi.settings import Settings
from lupi.tabular import TableEncoder
from lupi.training import fit_seeds
from lupi_paper.datasets import load_cifar10
from lupi_paper.experiments import cifar10h

ROWS = (
    *("auto", "label-posterior", "no-pi", "no-pi, early stopping", "majority-vote", "dawid-skene"),
    *("tram", "pi-transition", "pi-dual", "gold"),
)
PATIENCE, HELD_OUT = 5, 0.1
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Annotations, their true labels for the row "gold", test images, and how to train."""

    data: Annotations
    gold: Tensor
    x: Tensor
    y: Tensor
    parts: Parts
    training: Settings


def read_cifar10h(folder: Path, epochs: int) -> Problem:
    """Read the paper's subsample of CIFAR-10H."""
    settings = cifar10h.Settings(evaluate=10_000, epochs=epochs, learning_rate=3e-4)
    task = cifar10h.read_task(folder, settings)
    return make_problem(folder, settings, task, load_cifar10(folder, 1).y_test)


def read_cifar10s(folder: Path, epochs: int) -> Problem:
    """Read CIFAR-10S: six people per image, with their confidence and reaction time."""
    settings = cifar10h.Settings(evaluate=10_000, epochs=epochs, learning_rate=3e-4)
    images = load_cifar10(folder, 1)
    table = pd.read_parquet(folder / "cifar10s.parquet")
    table = table[table["task"] == "spec_conf"]
    used, row = np.unique(table["cifar10_test_idx"], return_inverse=True)
    columns = pd.DataFrame(
        {
            "annotator": table["annotator_id"].astype(str),
            "seconds": table["reaction_time_ms"] / 1000,
            "trial": table["trial_index"].astype(float),
            "confidence": pd.to_numeric(table["chosen_prob"], errors="coerce"),
        }
    )
    data = Annotations(
        torch.from_numpy(images.X_test[used]),
        torch.from_numpy(row),
        SparseRows.from_matrix(TableEncoder(privileged=True).fit_transform(columns)),
        torch.from_numpy(table["chosen_label"].to_numpy()),
    )
    who = pd.factorize(columns["annotator"])[0]
    x, y = torch.from_numpy(images.X_train), torch.from_numpy(images.y_train)
    task = cifar10h.Task(data, who, np.zeros(0), 0.0, x, y)
    return make_problem(folder, settings, task, images.y_test[used])


def make_problem(folder: Path, settings: cifar10h.Settings, task: cifar10h.Task, gold: Any) -> Problem:
    """Make a problem for the pretrained MobileNet of the experiment on CIFAR-10H."""
    trunk = cifar10h.read_trunk(folder, settings, task.train.x)
    data = replace(task.train, annotator=torch.from_numpy(task.annotator.astype(np.int64)))
    return Problem(
        data=data,
        gold=torch.from_numpy(gold),
        x=task.x,
        y=task.y,
        parts=cifar10h.make_parts(task, trunk),
        training=settings.training(),
    )


READERS: dict[str, Callable[[Path, int], Problem]] = {
    "cifar10h": read_cifar10h,
    "cifar10s": read_cifar10s,
}


def observe_networks(method: LabelPosterior, x: Tensor) -> dict[str, Tensor]:
    """Let a method also predict test images with its cross-fitted networks; return where the averages will be."""
    seen: dict[str, Tensor] = {}
    remember = method.remember

    def remember_more(name: str, networks: Sequence[Method], data: Annotations, fold: Tensor) -> None:
        remember(name, networks, data, fold)
        if name not in method.members:  # a later round
            return
        each = [method.likelihood.moments(over_examples(network.predictor(), x)) for network in networks]
        seen[name] = torch.stack(each).mean(0)

    method.remember = remember_more  # type: ignore[method-assign]
    return seen


def mix_seen(method: LabelPosterior, seen: dict[str, Tensor]) -> np.ndarray[Any, Any]:
    """Return the mixture of the observed predictions, with the method's weights."""
    predictions = [seen[name].double().cpu().numpy() for name in method.members]
    return mix(predictions, method.weights.double().cpu().numpy())


def score(p: Any, y: Any) -> dict[str, float]:
    """Return NLL and accuracy of probabilities."""
    p, y = np.asarray(p, dtype=float).clip(1e-7), np.asarray(y)
    return {"nll": float(-np.log(p[np.arange(len(y)), y]).mean()), "accuracy": float((p.argmax(1) == y).mean())}


def hold_out(data: Annotations, seed: int) -> tuple[Annotations, Annotations]:
    """Hold out a tenth of the annotated examples."""
    example = data.annotated
    order = torch.randperm(len(example), generator=torch.Generator().manual_seed(seed)).to(example.device)
    held = torch.isin(data.row, example[order[: round(HELD_OUT * len(example))]])
    size = round((1 - HELD_OUT) * len(data))  # the same for all seeds, which train together only then
    train = (~held).nonzero().squeeze(1)
    train = torch.cat([train, train])[:size]
    own = held.nonzero().squeeze(1)
    return data.take(train), data.take(torch.cat([own, own, own])[: len(data) - size])


def train_rows(
    problem: Problem, seeds: Sequence[int], names: Sequence[str]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Train every row with all seeds together, and yield its name and scores."""
    data, x, y = problem.data.to(DEVICE), problem.x.to(DEVICE), problem.y.numpy()
    example = data.annotated
    gold = Annotations(
        data.x, example, torch.zeros(len(example), 0, device=DEVICE), problem.gold.to(DEVICE)[example].long()
    )
    cosine = replace(problem.training, schedule="cosine")
    for name in names:
        start = time.monotonic()
        method = {"gold": "no-pi", "no-pi, early stopping": "no-pi"}.get(name, name)
        networks = []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                networks.append(build(method, problem.parts))
        seen = [observe_networks(network, x) if isinstance(network, LabelPosterior) else {} for network in networks]
        if name == "no-pi, early stopping":
            parts = [hold_out(data, seed) for seed in seeds]
            early = replace(problem.training, patience=PATIENCE)
            fit_seeds(
                networks, [a for a, _ in parts], early, validation=[b for _, b in parts], seeds=seeds, device=DEVICE
            )
        elif name == "gold":
            fit_seeds(networks, [gold] * len(networks), cosine, seeds=seeds, device=DEVICE)
        else:
            fit_seeds(networks, [data] * len(networks), problem.training, seeds=seeds, device=DEVICE)
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        seconds = (time.monotonic() - start) / len(seeds)
        found = [torch.softmax(over_examples(network.predictor(), x).float(), -1).cpu().numpy() for network in networks]
        yield name, [{**score(p, y), "seconds": seconds} for p in found]
        posteriors = [network for network in networks if isinstance(network, LabelPosterior)]
        if posteriors:
            row = "stack" if isinstance(posteriors[0], Auto) else "no-pi, 5 averaged"
            pairs = zip(posteriors, seen, strict=True)
            yield row, [{**score(mix_seen(network, own), y), "seconds": seconds} for network, own in pairs]
            print(name, "weights", torch.stack([network.weights for network in posteriors]).mean(0).tolist())
        del networks, posteriors, seen
        torch.cuda.empty_cache()


def main() -> None:
    """Run the experiment."""
    parser = argparse.ArgumentParser()
    parser.add_argument("problem", choices=READERS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--rows", nargs="+", default=ROWS)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    problem = READERS[options.problem](options.data, options.epochs)
    right = (problem.data.y == problem.gold[problem.data.row]).double().mean()
    print(f"{len(problem.data)} labels of {len(problem.data.annotated)} images, {100 * right:.1f} % right", flush=True)
    rows: list[dict[str, Any]] = []
    for name, scores in train_rows(problem, range(options.seeds), options.rows):
        rows += [{"method": name, "seed": seed, **values} for seed, values in enumerate(scores)]
        pd.DataFrame(rows).to_csv(options.output, index=False)
        mean = pd.DataFrame(scores).mean()
        print(f"{name:26} {100 * mean['accuracy']:.2f} {mean['nll']:.4f} {mean['seconds']:.1f} s a seed", flush=True)
    runs = pd.DataFrame(rows)
    print(format_rows(runs))


def format_rows(runs: pd.DataFrame) -> str:
    """Format the means, and the differences from early-stopped No PI with paired 95 % intervals, as Markdown."""
    base = "no-pi, early stopping"
    lines = ["| method | accuracy % | difference | NLL | difference |", "|---|---|---|---|---|"]
    for name, own in runs.groupby("method", sort=False):
        cells = [str(name)]
        for metric, scale, digits in (("accuracy", 100, 1), ("nll", 1, 3)):
            cells.append(f"{scale * own[metric].mean():.{digits}f} ± {scale * own[metric].std():.{digits}f}")
            change = ""
            if base in set(runs["method"]) and name != base:
                gap = difference(runs, str(name), base, metric)
                low, high = gap.interval(0.95)
                change = f"{scale * gap.mean:+.{digits}f} [{scale * low:+.{digits}f}, {scale * high:+.{digits}f}]"
            cells.append(change)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines).replace("-0", "−0").replace("[-", "[−").replace(", -", ", −")


if __name__ == "__main__":
    main()

"""Compare methods on an annotation table, to see whether its privileged information helps.

All methods get the same training and test rows. Seeds train together in groups of a fixed size, and a group that has
finished is kept, so that an interrupted comparison goes on where it stopped, to the same results.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from lupi import __version__
from lupi import methods as known
from lupi._internal.devices import check_device, one_thread
from lupi._internal.files import write_text
from lupi._internal.progress import Steps
from lupi.compare.arms import EARLY, Arm, arms, privileged_of, uses_privileged
from lupi.compare.cache import RUNS, keep, kept, open_folder
from lupi.compare.cases import HELD_OUT, Data, Plan, Rows, make_cases, read, splits
from lupi.compare.engine import BASELINE, summarize, train_together
from lupi.compare.statistics import Uncertainty
from lupi.compare.verdict import verdict
from lupi.estimators import PrivilegedClassifier, PrivilegedRegressor
from lupi.estimators.base import PrivilegedEstimator
from lupi.metrics import BINS, METRICS, Normal, evaluate, reliability
from lupi.serving.tables import resolved, writing
from lupi.tabular.text import content

SEEDS_AT_ONCE = 5
"""Seeds that train together and are kept together; a fixed number, since noise in training depends on it."""
PATIENCE = 5
"""Epochs without a better held-out loss after which the control of No PI stops."""


@dataclass(frozen=True)
class Comparison:
    """What a comparison found.

    Parameters
    ----------
    runs : DataFrame
        One row per method and seed: method, control (whether it is one), seed, the metrics, seconds.
    summary : DataFrame
        One row per method, of `lupi.compare.engine.summarize`, with control.
    verdict : str
        What it shows, in sentences, one per line.
    notes : list of str
        What to know about data and intervals.
    metrics : tuple of str
        Columns of runs and summary; the first is the one that the verdict judges by.
    reliability : DataFrame
        Reliability diagrams: method, low, high, confidence, accuracy, count; empty for regression.
    about : dict
        Options and facts about the data.
    """

    runs: pd.DataFrame
    summary: pd.DataFrame
    verdict: str
    notes: list[str]
    metrics: tuple[str, ...]
    reliability: pd.DataFrame
    about: dict[str, Any]


# -------------------------------------------------------------------------------- runs


def run(
    path: Path,
    arm: Arm,
    plan: Plan,
    data: Data,
    parts: Sequence[tuple[NDArray[Any], NDArray[Any]]],
    seeds: Sequence[int],
) -> None:
    """Train an arm on some splits, together where that is possible, score it, and keep the scores."""
    kind = PrivilegedRegressor if data.task == "regression" else PrivilegedClassifier
    cases = make_cases(data, parts)
    patience = PATIENCE if arm.control == EARLY else None
    parameters = {**plan.settings, "patience": patience, "device": plan.device}
    models, sets = [], []
    for case, seed in zip(cases, seeds, strict=True):
        a, numbers = privileged_of(arm, case, data.kinds, seed)
        models.append(kind(arm.method, numbers=numbers, random_state=seed, **parameters))
        sets.append({"X": case.train.X, "y": case.train.y, "privileged": a, "example": case.train.example})
    with one_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            seconds = train_together(models, sets)
            predictions = [
                predict_test(model, case.test, len(data.classes)) for model, case in zip(models, cases, strict=True)
            ]
        except (ValueError, FloatingPointError) as error:
            raise ValueError(f"Expected {arm.name} to train, but it says: {error}") from error
    arrays: dict[str, NDArray[Any]] = {
        "seed": np.array(seeds),
        "seconds": np.full(len(seeds), seconds),
        "warnings": np.array(sorted({str(one.message) for one in caught}), dtype=str),
    }
    scores = [evaluate(case.test.y, one) for case, one in zip(cases, predictions, strict=True)]
    for metric in scores[0]:
        arrays[f"metric_{metric}"] = np.array([score[metric].value for score in scores])
        rows = [score[metric].rows for score in scores]
        if data.test is not None and rows[0] is not None:
            arrays[f"rows_{metric}"] = np.mean(np.stack([row for row in rows if row is not None]), axis=0)
    if data.task != "regression":
        tables = [reliability(case.test.y, np.asarray(p)) for case, p in zip(cases, predictions, strict=True)]
        arrays["bins"] = np.sum([table[SUMS].to_numpy(float) for table in tables], axis=0)
    keep(path, arrays)


SUMS = ["count", "confidence", "correct"]
"""Columns of a reliability table that are summed over runs."""


def predict_test(model: PrivilegedEstimator, test: Rows, classes: int) -> NDArray[np.float64] | Normal:
    """Predict test rows: probabilities of all classes, or normal distributions."""
    if isinstance(model, PrivilegedRegressor):
        output = model._outputs(test.X).double().numpy()
        variance = output[:, 1] * model.y_scale_**2 if output.shape[1] == 2 else None
        return Normal(model.predict(test.X), variance)
    assert isinstance(model, PrivilegedClassifier)
    p = model.predict_proba(test.X)
    if model.multi_label_:
        return p
    full = np.zeros((len(p), classes))
    full[:, model.classes_] = p  # a rare class may be missing from a training split
    return full


# -------------------------------------------------------------------------------- the whole


def compare_table(
    plan: Plan,
    folder: Path,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    say: Callable[[str], None] = print,
    progress: bool = True,
) -> Comparison:
    """Train every method of a plan with every seed, or go on with that, and say what it shows.

    Parameters
    ----------
    plan : Plan
        What to compare.
    folder : Path
        Keeps what has finished.
    jobs : int
        Groups of seeds at a time, through joblib; the results do not depend on it.
    overwrite : bool
        Whether a comparison of something else in the folder is replaced.
    say : callable
        Takes each choice that was made, as a line.
    progress : bool
        Show progress.

    Examples
    --------
    >>> import tempfile
    >>> table = pd.DataFrame({"x": np.arange(40.0), "worker": list("ab") * 20, "y": list("nnyn") * 10})
    >>> with tempfile.TemporaryDirectory() as name:
    ...     table.to_csv(Path(name, "table.csv"), index=False)
    ...     plan = Plan(Path(name, "table.csv"), ["y"], ["worker"], methods=["tram"], seeds=2, settings={"epochs": 1})
    ...     found = compare_table(plan, Path(name, "run"), progress=False)
    Task: classification (the target is names).
    Inputs: 1 number.
    Privileged: worker (category).
    >>> found.metrics, list(found.summary.index)
    (('accuracy', 'nll', 'brier', 'ece'), ['no-pi', 'tram'])
    """
    check(plan, jobs)
    data = read(plan, say)
    chosen = arms(plan, data.task)
    parts = splits(plan, data)
    about = describe(plan, data, chosen)
    with writing(folder):
        open_folder(folder, about, overwrite=overwrite)
    groups = [range(start, min(start + SEEDS_AT_ONCE, len(parts))) for start in range(0, len(parts), SEEDS_AT_ONCE)]
    files = {(arm, group): folder / RUNS / file_name(arm, group) for arm in chosen for group in groups}
    todo = [(arm, group) for group in groups for arm in chosen if kept(files[arm, group]) is None]
    total = len(chosen) * len(parts)
    done = total - sum(len(group) for _, group in todo)
    if done:
        say(f"Going on: {done} of {total} runs have finished before.")
    work = (
        joblib.delayed(run)(files[arm, group], arm, plan, data, parts[group.start : group.stop], list(group))
        for arm, group in todo
    )
    with Steps("compare", total, show=progress, done=done) as steps:
        for (arm, group), _ in zip(todo, joblib.Parallel(n_jobs=jobs, return_as="generator")(work), strict=True):
            steps.advance(len(group), arm.name)
    return collect(plan, data, chosen, files, about)


def check(plan: Plan, jobs: int) -> None:
    """Look at what can be looked at without the data."""
    for name in plan.methods:
        known.kind(name)
    check_device(plan.device)
    if jobs == 0:
        raise ValueError("Expected `--jobs` to be a number of runs, or -1, but got 0.")
    if plan.folds is not None and plan.test is not None:
        raise ValueError("Expected `--folds` or `--test`, but got both.")
    for name, number in (("--seeds", plan.seeds), ("--folds", plan.folds)):
        if number is not None and number < 2:
            raise ValueError(f"Expected `{name}` to be at least 2, but got {number}.")


def file_name(arm: Arm, group: range) -> str:
    """Name of the file of an arm's group of seeds.

    Examples
    --------
    >>> file_name(Arm("tram", "PI zeros"), range(5, 10))
    'tram-PI-zeros-5-9.npz'
    """
    return f"{arm.name.replace(' [', '-').replace(']', '').replace(' ', '-')}-{group.start}-{group.stop - 1}.npz"


def describe(plan: Plan, data: Data, chosen: Sequence[Arm]) -> dict[str, Any]:
    """Say all that the results depend on."""
    encoder = resolved(plan.text_encoder)
    return {
        "data": data.digest[:16],
        "target": list(data.roles.target),
        "privileged": dict(data.kinds),
        "example": plan.example,
        "inputs": list(data.roles.inputs),
        "kind": sorted(plan.kind),
        "task": data.task,
        "scored on": "test table" if plan.test is not None else "held-out noisy labels",
        "methods": [arm.name for arm in chosen],
        "runs": f"{plan.folds} folds" if plan.folds else f"{plan.seeds} seeds",
        "text encoder": content(Path(encoder)) if encoder and Path(encoder).is_dir() else encoder,
        "device": plan.device,
        **plan.settings,
        "versions": f"lupi {__version__}, torch {torch.__version__}",
    }


def collect(
    plan: Plan, data: Data, chosen: Sequence[Arm], files: Mapping[tuple[Arm, range], Path], about: dict[str, Any]
) -> Comparison:
    """Read everything that was kept, and say what it shows."""
    rows: list[dict[str, Any]] = []
    of_rows: dict[tuple[str, str], list[tuple[int, NDArray[np.float64]]]] = {}
    bins: dict[str, Any] = {}
    warned: dict[str, None] = {}
    for (arm, group), path in files.items():
        found = kept(path)
        if found is None:
            raise ValueError(f"Expected {path} to hold finished runs, but it has gone.")
        scores = {name.removeprefix("metric_"): value for name, value in found.items() if name.startswith("metric_")}
        for place, seed in enumerate(group):
            own = {name: float(value[place]) for name, value in scores.items()}
            seconds = float(found["seconds"][place])
            rows.append({"method": arm.name, "control": bool(arm.control), "seed": seed, **own, "seconds": seconds})
        for name, value in found.items():
            if name.startswith("rows_"):
                of_rows.setdefault((arm.name, name.removeprefix("rows_")), []).append((len(group), value))
        if "bins" in found:
            bins[arm.name] = bins.get(arm.name, 0) + found["bins"]
        warned |= dict.fromkeys(f"{arm.name}: {message}" for message in found["warnings"])
    runs = pd.DataFrame(rows)
    order = [name for name in METRICS if name in runs]
    runs = runs[["method", "control", "seed", *order, "seconds"]]
    if data.test is None:  # see `how_scored`
        order.sort(key=lambda name: name != "accuracy")
    compared = tuple(name for name in order if runs.loc[runs["method"] == BASELINE, name].notna().all())
    overlap = 0.0
    if data.test is None:
        overlap = 1 / (plan.folds - 1) if plan.folds else HELD_OUT / (1 - HELD_OUT)
    averaged = {
        key: np.average([value for _, value in parts], axis=0, weights=[count for count, _ in parts])
        for key, parts in of_rows.items()
    }
    uncertainty = Uncertainty(overlap, averaged, None if data.test is None else data.test.example)
    summary = summarize(runs, compared, uncertainty)
    summary.insert(0, "control", [bool(arm.control) for arm in chosen])
    with_pi = [arm.name for arm in chosen if not arm.control and uses_privileged(arm)]
    controls = [arm.name for arm in chosen if arm.control]
    said = verdict(runs, with_pi, compared[0], controls=controls, uncertainty=uncertainty)
    notes = [*how_scored(plan, data), *data.notes, *warned]
    return Comparison(runs, summary, said, notes, compared, reliability_of(bins), about)


def reliability_of(bins: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """Turn the sums in bins, over all runs of a method, into means; empty bins are left out."""
    edges = np.linspace(0, 1, BINS + 1)
    parts = [pd.DataFrame(columns=["method", "low", "high", "confidence", "accuracy", "count"])]
    for name, sums in bins.items():
        table = pd.DataFrame(sums, columns=SUMS).assign(method=name, low=edges[:-1], high=edges[1:])
        table = table[table["count"] > 0].astype({"count": int})
        means = {"confidence": table["confidence"] / table["count"], "accuracy": table["correct"] / table["count"]}
        parts.append(table.assign(**means)[parts[0].columns])
    return pd.concat(parts[1:], ignore_index=True) if len(parts) > 1 else parts[0]


def how_scored(plan: Plan, data: Data) -> list[str]:
    """Say what the scores and intervals are of."""
    if data.test is not None:
        return [
            f"Scored on {len(data.test.y)} labels of {plan.test}.",
            f"Intervals are over {plan.seeds} seeds of training on one training table, and over the choice of test "
            "examples (ECE: over seeds only); another training table would add to them.",
        ]
    how = f"{plan.folds} folds" if plan.folds else f"{plan.seeds} splits, each holding out {HELD_OUT:.0%}"
    notes = [
        f"Scored on held-out noisy labels, not on true ones (`--test` names a table of those): {how} of "
        f"{len(np.unique(data.train.example))} examples."
    ]
    if data.task != "regression":
        notes.append(
            "The verdict goes by accuracy: NLL on noisy labels punishes methods that predict the true label rather "
            "than the noisy one, such as pi-dual and pi-transition."
        )
    return [
        *notes,
        "Intervals are over the splits, widened because their training parts overlap (Nadeau & Bengio 2003).",
    ]


# -------------------------------------------------------------------------------- output


def format_table(found: Comparison, shown: int = 2) -> str:
    """Write the first metrics of a summary as lines of text, with intervals of the differences to No PI.

    Parameters
    ----------
    found : Comparison
        From `compare_table`.
    shown : int
        Number of metrics.

    Examples
    --------
    >>> runs = pd.DataFrame({"method": ["no-pi", "no-pi", "tram", "tram"], "seed": [0, 1, 0, 1],
    ...                      "nll": [1.0, 2.0, 0.5, 1.25], "seconds": [1.0] * 4})
    >>> found = Comparison(runs, summarize(runs, ["nll"]), "", [], ("nll",), pd.DataFrame(), {})
    >>> print(format_table(found))  # doctest: +NORMALIZE_WHITESPACE
                      NLL      difference [95 % interval]
    no-pi     1.500±0.707
    tram      0.875±0.530         -0.625 [-2.213, +0.963]
    """
    width = max(map(len, found.summary.index)) + 2
    head, lines = f"{'':{width}}", {name: f"{name:{width}}" for name in found.summary.index}
    for metric in found.metrics[:shown]:
        scale, digits = METRICS[metric].scale, METRICS[metric].digits
        head += f"{METRICS[metric].heading:>14}{'difference [95 % interval]':>32}"
        for name, row in found.summary.iterrows():
            mean, sd, gain, low, high = (
                scale * row[metric + part] for part in ("", "_sd", "_difference", "_low", "_high")
            )
            score = f"{mean:.{digits}f}±{sd:.{digits}f}"
            gained = "" if name == BASELINE else f"{gain:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"
            lines[str(name)] += f"{score:>14}{gained:>32}"
    return "\n".join([head, *lines.values()])


def write_results(found: Comparison, folder: Path, facts: Mapping[str, Any]) -> list[Path]:
    """Write results.json, results.csv (a row per run) and summary.csv, each moved into place when it is whole.

    Parameters
    ----------
    found : Comparison
        From `compare_table`.
    folder : Path
        The folder.
    facts : mapping
        More for results.json: command and versions.
    """
    numbers = {
        **facts,
        "about": found.about,
        "seeds": sorted({int(seed) for seed in found.runs["seed"]}),
        "metrics": list(found.metrics),
        "verdict": found.verdict.split("\n"),
        "notes": found.notes,
        "summary": plain_records(found.summary.reset_index()),
        "reliability": plain_records(found.reliability),
        "runs": plain_records(found.runs),
    }
    texts = {
        "results.json": json.dumps(numbers, indent=2) + "\n",
        "results.csv": found.runs.to_csv(index=False),
        "summary.csv": found.summary.to_csv(),
    }
    with writing(folder):
        for name, text in texts.items():
            write_text(folder / name, text)
    return [folder / name for name in texts]


def plain_records(table: pd.DataFrame) -> Any:
    """Rows as JSON holds them: no number is null."""
    return json.loads(table.to_json(orient="records", double_precision=15))

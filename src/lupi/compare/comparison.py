"""Compare methods on a table of annotations, to see whether its privileged information helps.

All methods get the same training and test rows. Seeds train in groups of a fixed size, and finished runs are kept, so
that an interrupted comparison can be resumed with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from lupi import __version__
from lupi._internal.checks import check_jobs
from lupi.compare.arms import SUMS, Variant, list_variants, train_variant
from lupi.compare.cache import open_run_folder
from lupi.compare.engine import Arm, Run, run_arms, to_frame
from lupi.compare.plan import HELD_OUT, Plan, make_splits
from lupi.compare.results import BIN_COLUMNS, Comparison
from lupi.compare.statistics import BASELINE, Uncertainty, summarize
from lupi.compare.verdict import write_verdict
from lupi.crowd import pairwise_agreement
from lupi.metrics import BINS, METRICS
from lupi.tabular.dataset import TableDataset, read_dataset
from lupi.tabular.text import hash_folder, resolve_folder

SEEDS_AT_ONCE = 5


def compare_table(
    plan: Plan,
    folder: Path,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    say: Callable[[str], None] | None = None,
    progress: bool = False,
) -> Comparison:
    """Train every method of a plan with every seed, or resume that, and draw conclusions.

    Parameters
    ----------
    plan : Plan
        What to compare.
    folder : Path
        Folder for finished runs.
    jobs : int
        Groups of seeds to train at a time, through joblib; the results do not depend on it.
    overwrite : bool
        Whether to replace another comparison in the folder.
    say : callable, optional
        Is told each choice that was made, as a sentence.
    progress : bool
        Whether to show progress.

    Examples
    --------
    >>> import tempfile
    >>> from lupi.tabular import TableSpec
    >>> table = pd.DataFrame({"x": np.arange(40.0), "worker": list("ab") * 20, "y": list("nnyn") * 10})
    >>> with tempfile.TemporaryDirectory() as name:
    ...     table.to_csv(Path(name, "table.csv"), index=False)
    ...     spec = TableSpec(table=Path(name, "table.csv"), target=["y"], privileged=["worker"])
    ...     plan = Plan(spec=spec, methods=["tram"], seeds=2, settings={"epochs": 1})
    ...     found = compare_table(plan, Path(name, "run"))
    >>> found.metrics, list(found.summary.index)
    (('accuracy', 'nll', 'brier', 'ece'), ['no-pi', 'tram'])
    """
    check_jobs(jobs)
    data = read_dataset(plan.spec, test=plan.test, device=plan.device)
    if say is not None:
        for choice in data.choices[:3]:  # task, inputs and privileged columns; annotators play no role of their own
            say(choice)
    variants = list_variants(plan, data.task)
    splits = make_splits(plan, data)
    about = describe_plan(plan, data, variants)
    open_run_folder(folder, about, overwrite=overwrite)
    arms = [Arm(name=one.name, train=partial(train_variant, one, plan, data, splits)) for one in variants]
    runs = run_arms(
        arms,
        range(plan.runs),
        seeds_at_once=SEEDS_AT_ONCE,
        keep_groups=True,
        folder=folder,
        jobs=jobs,
        progress=progress,
        say=say,
    )
    return summarize_runs(plan, data, variants, runs, about)


def describe_plan(plan: Plan, data: TableDataset, variants: Sequence[Variant]) -> dict[str, Any]:
    """Return everything that the results depend on."""
    encoder = plan.spec.text_encoder and resolve_folder(plan.spec.text_encoder)
    return {
        "data": data.digest[:16],
        "target": list(data.schema.roles.target),
        "privileged": dict(data.schema.privileged),
        "example": plan.spec.example,
        "inputs": list(data.schema.roles.inputs),
        "kind": dict(sorted(plan.spec.kind.items())),
        "task": data.task,
        "scored on": "test table" if plan.test is not None else "held-out noisy labels",
        "methods": [variant.name for variant in variants],
        "runs": f"{plan.folds} folds" if plan.folds else f"{plan.seeds} seeds",
        "text encoder": hash_folder(Path(encoder)) if encoder and Path(encoder).is_dir() else encoder,
        "device": plan.device,
        **plan.settings,
        "versions": f"lupi {__version__}, torch {torch.__version__}",
    }


def summarize_runs(
    plan: Plan, data: TableDataset, variants: Sequence[Variant], found: Sequence[Run], about: dict[str, Any]
) -> Comparison:
    """Compute differences and their uncertainty from the runs, and draw conclusions."""
    controls = [variant.name for variant in variants if variant.control]
    runs = to_frame(found)
    metrics = [name for name in METRICS if name in runs]
    runs.insert(1, "control", runs["method"].isin(controls))
    runs = runs[["method", "control", "seed", *metrics, "seconds"]]
    if data.test is None:  # see `describe_scoring`
        metrics.sort(key=lambda name: name != "accuracy")
    compared = tuple(name for name in metrics if runs.loc[runs["method"] == BASELINE, name].notna().all())
    sums: dict[tuple[str, str], Any] = {}
    warned: dict[str, None] = {}
    for run in found:
        for name, value in run.values.items():
            if name == "warnings":
                warned |= dict.fromkeys(f"{run.arm}: {message}" for message in value)
            elif np.ndim(value):
                sums[run.arm, name] = sums.get((run.arm, name), 0) + value
    overlap = 0.0
    if data.test is None:
        overlap = 1 / (plan.folds - 1) if plan.folds else HELD_OUT / (1 - HELD_OUT)
    rows = {
        (arm, name.removeprefix("rows_")): value / plan.runs
        for (arm, name), value in sums.items()
        if name.startswith("rows_")
    }
    uncertainty = Uncertainty(overlap, rows, None if data.test is None else data.test.example)
    summary = summarize(runs, compared, uncertainty)
    summary.insert(0, "control", summary.index.isin(controls))
    methods = [variant.name for variant in variants if not variant.control and variant.uses_privileged]
    return Comparison(
        runs=runs,
        summary=summary,
        verdict=write_verdict(runs, methods, compared[0], controls=controls, uncertainty=uncertainty),
        metrics=compared,
        notes=[*describe_scoring(plan, data), *data.notes, *describe_agreement(data), *warned],
        reliability=average_bins({arm: value for (arm, name), value in sums.items() if name == "bins"}),
        about=about,
    )


def average_bins(sums: Mapping[str, NDArray[np.float64]]) -> pd.DataFrame:
    """Turn the sums in the bins of each method into means; empty bins are left out."""
    edges = np.linspace(0, 1, BINS + 1)
    parts = []
    for name, own in sums.items():
        table = pd.DataFrame(own, columns=SUMS).assign(method=name, low=edges[:-1], high=edges[1:])
        table = table[table["count"] > 0].astype({"count": int})
        means = {"confidence": table["confidence"] / table["count"], "accuracy": table["correct"] / table["count"]}
        parts.append(table.assign(**means)[list(BIN_COLUMNS)])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(BIN_COLUMNS))


def describe_scoring(plan: Plan, data: TableDataset) -> list[str]:
    """Say what the scores and intervals are about."""
    if data.test is not None:
        return [
            f"Scored on {len(data.test.y)} labels of {plan.test}.",
            f"Intervals cover {plan.seeds} seeds of training on one training table and the choice of test examples "
            "(ECE: seeds only); another training table would widen them.",
        ]
    how = f"{plan.folds} folds" if plan.folds else f"{plan.seeds} splits, each of which holds out {HELD_OUT:.0%}"
    notes = [
        f"Scored on held-out noisy labels, not on true ones (`test` names a table of those): {how} of "
        f"{len(np.unique(data.train.example))} examples."
    ]
    if data.task != "regression":
        notes.append(
            "The verdict goes by accuracy: NLL on noisy labels punishes methods that predict the true label rather "
            "than the noisy one, such as pi-dual and pi-transition."
        )
    return [*notes, "Intervals cover the splits, and allow for their overlap (Nadeau & Bengio 2003)."]


def describe_agreement(data: TableDataset) -> list[str]:
    """Say how often two labels of one example agree, if they can."""
    if data.task != "classification":
        return []
    share = pairwise_agreement(data.train.y, data.train.example)
    return [] if np.isnan(share) else [f"Two labels of one example agree {100 * share:.0f} % of the time."]

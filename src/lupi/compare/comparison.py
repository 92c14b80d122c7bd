"""Compare methods on a table of annotations, to see whether its privileged information helps.

All methods get the same training and test rows. Seeds are trained in groups of a fixed size, and finished runs are
saved, so that an interrupted comparison can be resumed with the same results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from lupi import __version__
from lupi._internal.checks import check_jobs
from lupi._internal.progress import show_trainings
from lupi.compare.arms import Variant, list_variants, train_variant
from lupi.compare.cache import RunFolder, open_run_folder
from lupi.compare.engine import Arm, Run, map_groups, run_arms
from lupi.compare.held_out import weigh_truths
from lupi.compare.plan import HELD_OUT, SEEDS_AT_ONCE, Plan, Setup, make_splits
from lupi.compare.results import Comparison, conclude
from lupi.compare.statistics import Uncertainty
from lupi.crowd.agreement import describe_agreement
from lupi.estimators.table_estimator import check_trust
from lupi.metrics import METRICS, Posterior, average_bins
from lupi.tabular.pretrained_encoders import hash_folder, resolve_folder
from lupi.tabular.table_data import read_data, read_test

if TYPE_CHECKING:
    from distributed import Client

SAME_RUNS = ("methods", "seeds")
"""Facts in `describe_plan` that do not change a run, so that methods and seeds can be added to a comparison."""


def compare_table(
    plan: Plan,
    folder: Path,
    *,
    jobs: int = 1,
    cluster: Client | None = None,
    overwrite: bool = False,
    notify: Callable[[str], None] | None = None,
    progress: bool = False,
) -> Comparison:
    """Train every method of a plan with every seed, reusing finished runs, and draw conclusions.

    Parameters
    ----------
    plan : Plan
        The plan of the comparison.
    folder : Path
        Folder for finished runs. Those of a comparison that differs only in methods, controls and the number of seeds
        are reused.
    jobs : int
        Number of groups of seeds to train in parallel, with joblib; the results do not depend on it.
    cluster : distributed.Client, optional
        The client of a Dask cluster, whose workers train groups with the same results; this process saves them.
    overwrite : bool
        Whether to replace another comparison in the folder.
    notify : callable, optional
        Called with a sentence for each choice that was made.
    progress : bool
        Whether to show progress.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from lupi.tabular import TableSpec
    >>> table = pd.DataFrame({"x": np.arange(40.0), "worker": list("ab") * 20, "y": list("nnyn") * 10})
    >>> with tempfile.TemporaryDirectory() as name:
    ...     table.to_csv(Path(name, "table.csv"), index=False)
    ...     spec = TableSpec(table=Path(name, "table.csv"), target=["y"], privileged=["worker"])
    ...     plan = Plan(spec=spec, methods=["tram"], seeds=2, settings={"epochs": 1})
    ...     found = compare_table(plan, Path(name, "run"))
    >>> list(found.summary.index)
    ['no-pi', 'no-pi [early stopping]', 'no-pi [5 averaged]', 'tram']
    >>> found.metrics
    ('nll', 'accuracy', 'brier', 'ece')
    """
    check_jobs(jobs)
    data = read_data(plan.spec)
    check_trust(data)
    test = None if plan.test is None else read_test(plan.test, data).load(plan.device)
    data = data.load(plan.device)
    variants = list_variants(plan, data.schema.task, several=data.examples < len(data))
    if plan.sample is not None:
        data = data.sample(plan.sample)
    if notify is not None:
        for choice in data.choices:
            notify(choice)
    setup = Setup(plan=plan, data=data, test=test, splits=make_splits(plan, data, test))
    about = describe_plan(setup, variants)
    with open_run_folder(folder, about, same_runs=SAME_RUNS, overwrite=overwrite) as runs:
        if progress:
            show_work(setup, variants, runs)
        run = partial(
            run_arms,
            seeds=range(plan.runs),
            seeds_at_once=SEEDS_AT_ONCE,
            keep_groups=True,
            folder=runs,
            jobs=jobs,
            cluster=cluster,
            progress=progress,
        )
        if setup.has_annotator_model:
            weighed = run([Arm(name="held-out labels", train=partial(weigh_truths, setup))])
            truth = {seed: Posterior(values["truth"], values["evidence"]) for _, seed, values in weighed}
            setup = replace(setup, truth=truth)
        arms = [Arm(name=variant.name, train=partial(train_variant, variant, setup)) for variant in variants]
        finished = run(arms, notify=notify)
    return summarize_runs(setup, variants, finished, about)


def show_work(setup: Setup, variants: Sequence[Variant], folder: RunFolder) -> None:
    """Print how many networks will be trained, unless all are finished."""
    groups = map_groups(range(setup.plan.runs), SEEDS_AT_ONCE).items()
    if any(not folder.file(one.name, seed, group).exists() for one in variants for seed, group in groups):
        show_trainings(setup.plan.runs * (len(variants) + setup.has_annotator_model), len(setup.data))


def describe_plan(setup: Setup, variants: Sequence[Variant]) -> dict[str, Any]:
    """Return everything that the results depend on."""
    plan, data, test = setup.plan, setup.data, setup.test
    encoders = {kind: name and resolve_folder(name) for kind, name in plan.spec.pretrained.items()}
    return {
        "data": data.digest[:16],
        **({} if test is None else {"test data": test.digest[:16]}),
        **({} if plan.sample is None else {"sample": plan.sample}),
        "target": list(data.schema.roles.target),
        "privileged": dict(data.schema.privileged),
        "annotator": data.schema.annotator,
        "weight": plan.spec.weight,
        "gold": plan.spec.gold,
        "trust": dict(sorted(plan.spec.trust.items())),
        "soft": plan.spec.soft,
        "scale": list(data.classes) if data.schema.ordinal else "nominal",
        "example": plan.spec.example,
        "inputs": list(data.schema.roles.inputs),
        "kind": dict(sorted(plan.spec.kind.items())),
        "task": "multi-label" if data.schema.several else data.schema.task,
        "scored on": "test table"
        if test is not None
        else f"held-out labels{', through a model of annotators' if setup.has_annotator_model else ''}",
        "methods": [variant.name for variant in variants],
        **({"folds": plan.folds} if plan.folds else {"seeds": plan.seeds}),
        **{
            f"{kind} encoder": hash_folder(Path(name)) if name and Path(name).is_dir() else name
            for kind, name in encoders.items()
        },
        "device": plan.device,
        **plan.settings,
        "versions": f"lupi {__version__}, torch {torch.__version__}",
    }


def summarize_runs(setup: Setup, variants: Sequence[Variant], runs: Sequence[Run], about: dict[str, Any]) -> Comparison:
    """Compute the differences between methods with their uncertainty, and draw conclusions."""
    plan, data, test = setup.plan, setup.data, setup.test
    if test is None:
        uncertainty = Uncertainty(overlap=1 / (plan.folds - 1) if plan.folds else HELD_OUT / (1 - HELD_OUT))
    else:
        sums = {metric: add_arrays(runs, f"rows_{metric}") for metric in METRICS}
        rows = {(arm, metric): value / plan.seeds for metric, own in sums.items() for arm, value in own.items()}
        uncertainty = Uncertainty(rows=rows, example=test.group)
    warned = dict.fromkeys(f"{run.arm}: {text}" for run in runs for text in run.values.get("warnings", ()))
    classes = data.schema.task == "classification" and not data.schema.several
    agreement = describe_agreement(data.y, data.group) if classes else []
    return conclude(
        runs,
        [variant.name for variant in variants if not (variant.is_control or variant.is_baseline)],
        baselines=[variant.name for variant in variants if variant.is_baseline],
        controls=[variant.name for variant in variants if variant.is_control],
        first="nll"
        if test is not None or plan.of_labels or setup.has_annotator_model
        else "accuracy",  # see `describe_scoring`
        uncertainty=uncertainty,
        notes=[*describe_scoring(setup), *data.notes, *(test.notes if test else []), *agreement, *warned],
        reliability=average_bins(add_arrays(runs, "bins")),
        about=about,
    )


def add_arrays(runs: Sequence[Run], name: str) -> dict[str, NDArray[np.float64]]:
    """Sum the arrays with a given name over the runs of each arm."""
    sums: dict[str, Any] = {}
    for run in runs:
        if name in run.values:
            sums[run.arm] = sums.get(run.arm, 0) + run.values[name]
    return sums


def describe_scoring(setup: Setup) -> list[str]:
    """Describe what the scores are computed on and what the intervals cover."""
    plan, data, test = setup.plan, setup.data, setup.test
    if test is not None:
        return [
            f"Scored on {len(test):,} labels of {plan.test}.",
            f"Intervals cover {plan.seeds} seeds, which redraw initial weights and batches, and the choice of test "
            "examples (ECE: seeds only). They do not cover another training table.",
        ]
    how = f"{plan.folds} folds" if plan.folds else f"{plan.seeds} splits, each of which holds out {HELD_OUT:.0%}"
    notes = [
        f"Scored on held-out labels, not on true ones (pass a table of those as `test`): {how} of {data.examples:,} "
        "examples."
    ]
    if plan.spec.soft:
        notes.append("Methods learn from soft labels, and are scored on the most probable class of held-out ones.")
    if data.gold is not None:
        notes.append(
            "Methods learn from the known true labels of their training rows, and are scored on those of held-out "
            "examples."
        )
    if setup.has_annotator_model:
        notes.append(
            "NLL is that of an example's labels, given how reliable each annotator is; accuracy is corrected for wrong "
            "labels. Both assume that annotators err independently of each other and of the inputs."
        )
    elif data.schema.several and not plan.of_labels:
        notes.append(
            "The verdict puts accuracy first: on noisy labels, NLL penalizes methods that predict the true label "
            "instead of the noisy one."
        )
    return [*notes, "Intervals cover the splits, and allow for their overlap (Nadeau & Bengio 2003)."]

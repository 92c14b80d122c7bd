"""Estimate how long a comparison on a table takes, and reduce it to fit a time budget."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from lupi.compare.arms import Variant, train_variant
from lupi.compare.budget import QUICK, Estimate, Probe, describe_reduction, fit_budget, measure, probe_size, require
from lupi.compare.cache import ABOUT, read_about
from lupi.compare.consensus import first_rows, infer_consensus, uses_consensus
from lupi.compare.plan import SEEDS_AT_ONCE, Plan, make_splits
from lupi.estimators import PrivilegedClassifier
from lupi.tabular.dataset import TableDataset
from lupi.tabular.sampling import sample_examples
from lupi.training.settings import choose_batch_size


def describe_budget(plan: Plan) -> str | None:
    """Describe the budget of a plan; a comparison with the same budget resumes with the size chosen first."""
    if plan.minutes is None:
        return None
    return f"{plan.minutes:g} minutes for {plan.runs} runs of {plan.sample or 'all'} annotations"


def recall_size(plan: Plan, folder: Path, methods: Sequence[str]) -> Plan | None:
    """Return the plan with the seeds and sample of the comparison in a folder, if its budget and methods are the same.

    Parameters
    ----------
    plan : Plan
        A plan with `minutes`.
    folder : Path
        The folder, which need not exist.
    methods : sequence of str
        The names of all variants.
    """
    old = read_about(folder / ABOUT) or {}
    seeds, sample = plan.seeds if plan.folds else old.get("seeds"), old.get("sample")
    same = old.get("budget") == describe_budget(plan) and old.get("methods") == list(methods)
    if not same or not isinstance(seeds, int) or not isinstance(sample, int | None):
        return None
    return replace(plan, seeds=seeds, sample=sample)


def fit_minutes(plan: Plan, rows: int, estimate: Estimate | None) -> tuple[Plan, str]:
    """Reduce seeds, then annotations, until a plan fits its budget; return the plan and what was reduced.

    Parameters
    ----------
    plan : Plan
        A plan with `minutes`.
    rows : int
        Number of annotations of the table.
    estimate : Estimate or None
        Result of `estimate_plan`.
    """
    assert plan.minutes is not None
    estimate = require(estimate)
    fewest = {"fewest_runs": plan.folds} if plan.folds else {}
    limit = min(rows, plan.sample or rows)
    runs, size = fit_budget(estimate, plan.minutes, runs=plan.runs, rows=limit, **fewest)
    parts = [f"{runs} of {plan.seeds} seeds"] if runs < plan.runs else []
    parts += [f"a sample of {size:,} of {rows:,} annotations"] if size < limit else []
    text = describe_reduction(plan.minutes, parts, estimate.seconds(runs, size))
    return replace(plan, seeds=plan.seeds if plan.folds else runs, sample=size if size < rows else None), text


def estimate_plan(plan: Plan, data: TableDataset, variants: Sequence[Variant], workers: int) -> Estimate | None:
    """Train every variant for a few steps on a small sample, and estimate how long one run of all variants takes.

    Seeds train together, as in the comparison, which takes far less time than one after another.
    """
    batch_size = plan.settings.get("batch_size") or choose_batch_size(len(data.rows))
    small = sample_examples(data, probe_size(len(data.rows), batch_size))
    if small.test is not None:
        small = replace(small, test=small.test.take(np.arange(min(len(small.test.y), len(small.rows)))))
    seeds = range(min(plan.runs, SEEDS_AT_ONCE))

    def train(variant: Variant | None, epochs: int) -> object:
        settings = {**plan.settings, "epochs": epochs, "batch_size": batch_size}
        own = replace(plan, seeds=max(2, len(seeds)), folds=None, minutes=None, settings=settings)
        splits = make_splits(own, small)
        if variant is None:
            return infer_consensus(own, small, splits, seeds)
        truth = None
        if uses_consensus(small):
            held_out = [len(first_rows(small.train.example[splits[seed][1]])) for seed in seeds]
            truth = {seed: np.full((held_out[seed], len(small.classes)), 1 / len(small.classes)) for seed in seeds}
        return train_variant(variant, own, small, splits, truth, seeds)

    every = [*variants, *([None] if uses_consensus(data) else [])]
    probes = [Probe(partial(train, variant), 1 / len(seeds)) for variant in every]
    return measure(probes, epochs=count_epochs(plan), rows=len(small.rows), workers=workers)


def count_epochs(plan: Plan) -> int:
    """Return the maximum number of epochs of a training run."""
    return int(plan.settings.get("epochs") or PrivilegedClassifier().epochs)


def is_quick(plan: Plan, rows: int) -> bool:
    """Return whether a comparison is certain to take less than a minute."""
    return rows * plan.runs * count_epochs(plan) <= QUICK

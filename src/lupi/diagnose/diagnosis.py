"""Diagnose privileged information, annotators and labels, without true labels."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi import methods
from lupi._internal.arrays import Floats
from lupi.crowd import Inference, infer, krippendorff_alpha, summarize_annotators
from lupi.crowd.tables import tabulate_confusions, tabulate_consensus
from lupi.diagnose.columns import measure_columns
from lupi.diagnose.findings import Diagnosis, write_notes
from lupi.diagnose.periods import find_time, measure_periods
from lupi.diagnose.predictions import predict_out_of_fold
from lupi.diagnose.problem import Problem
from lupi.diagnose.rankings import rank_labels, score_rankings
from lupi.tabular.targets import code_gold


def diagnose(problem: Problem, *, jobs: int = 1, progress: bool = False) -> Diagnosis:
    """Diagnose privileged information, annotators and labels.

    Parameters
    ----------
    problem : Problem
        The annotations.
    jobs : int
        Number of networks to train in parallel, with joblib. The results do not depend on it.
    progress : bool
        Whether to show progress.

    Returns
    -------
    Diagnosis
        Tables, notes and the verdict.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, who = rng.integers(2, size=300), rng.choice(["ann", "bob"], size=300)
    >>> label = np.where(who == "bob", rng.integers(2, size=300), truth)  # Bob tosses coins
    >>> A = pd.DataFrame({"who": who, "note": np.where(label, "Y", "N")})
    >>> found = diagnose(Problem(truth[:, None], label, A, annotator=who, folds=2, parameters={"epochs": 10}))
    >>> found.information[["column", "leak"]].head(2)
      column   leak
    0    who  False
    1   note   True
    >>> found.annotators[["annotator", "flagged"]]
      annotator  flagged
    0       bob     True
    1       ann    False
    """
    found = measure_columns(problem, jobs=jobs, progress=progress)
    notes = write_notes(found.information, problem.examples)
    if problem.real or problem.y.ndim > 1:
        notes.append("Annotators and labels can only be ranked for a single target of classes.")
        return replace(found, notes=notes)
    return judge_labels(problem, replace(found, notes=notes), jobs, progress)


def judge_labels(problem: Problem, diagnosis: Diagnosis, jobs: int, progress: bool) -> Diagnosis:
    """Add rankings of labels and annotators and, if there are true labels, the scores of these rankings."""
    columns, method, notes = diagnosis.usable, problem.method, list(diagnosis.notes)
    if not columns and methods.kind(method).uses_privileged:
        method = "no-pi"
        notes.append("All privileged columns leak the label, so annotators and labels were judged by No PI.")
    classes, label = np.unique(problem.y, return_inverse=True)

    def predict(method: str) -> Floats:
        use = columns if methods.kind(method).uses_privileged else []
        return predict_out_of_fold(
            problem.X,
            label,
            privileged=problem.privileged[use] if use else None,
            example=problem.group,
            sample_weight=problem.weight,
            method=method,
            folds=problem.folds,
            random_state=problem.seed,
            parameters={**problem.judging_parameters(), "numbers": problem.encoding(use)},
            jobs=jobs,
            progress=progress,
        )[0]

    p = predict(method) if problem.probabilities is None else np.asarray(problem.probabilities)
    infer_from = partial(infer, p, label, example=problem.group, annotator=problem.annotator, trust=problem.trust)
    gold = None if problem.gold is None else code_gold(problem.gold, classes)
    inferred = infer_from(gold=gold)
    labels, annotators, scores = rank_labels(inferred, classes), None, None
    for name, values in (("annotator", problem.annotator), ("example", problem.example)):
        if values is not None:
            labels.insert(1, name, np.asarray(values)[labels["row"]])
    if problem.annotator is not None:
        annotators = pd.DataFrame(summarize_annotators(inferred))
    if gold is not None:
        no_pi = predict("no-pi")[np.arange(len(label)), label]
        blind = infer_from()
        ranked = None if annotators is None else pd.DataFrame(summarize_annotators(blind))
        scores = score_rankings(blind.votes, gold, blind.wrong, no_pi, ranked)
        if annotators is not None:
            annotators["confidence_baseline"] = inferred.votes.mean_by_annotator(no_pi)
        known = 0 if inferred.votes.gold is None else int((inferred.votes.gold >= 0).sum())
        notes.append(
            f"The true labels of {known:,} of {problem.examples:,} examples anchor what is said about annotators and "
            "labels. No network is trained on them, and the scores are those of rankings that do not know them."
        )
    if annotators is not None:
        order = ["support", "reliability", "labels"]
        annotators = annotators.sort_values(order, kind="stable", ignore_index=True)
        notes.append(
            "Annotators are ranked by `support`, which beat majority vote on two real data sets. The interval is that "
            "of `reliability`, given the model. It covered about 90 % in simulation, and on those data sets 75 to "
            "95 % of the shares of correct labels of annotators with 20 labels or more."
        )
    alpha = krippendorff_alpha(label, problem.group)
    if not np.isnan(alpha):
        notes.append(f"Krippendorff's α of the labels is {alpha:.2f}: 1 is perfect agreement, 0 is chance.")
    if problem.probabilities is not None:
        notes.append("Annotators and labels were judged by the probabilities that were given.")
    time = find_time(problem.privileged)
    first = np.unique(inferred.votes.example, return_index=True)[1]
    ids = first if problem.example is None else np.asarray(problem.example)[first]
    return replace(
        diagnosis,
        annotators=annotators,
        labels=labels,
        consensus=tabulate_consensus(inferred, ids, classes),
        confusions=None if annotators is None else tabulate_confusions(inferred, inferred.names, classes),
        balance=count_classes(inferred, classes),
        periods=None if time is None else measure_periods(problem.privileged[time], 1 - inferred.wrong),
        alpha=alpha,
        scores=scores,
        notes=notes,
    )


def count_classes(inference: Inference, classes: NDArray[Any]) -> pd.DataFrame:
    """Return the frequency of each class among labels, and its expected frequency among true labels."""
    labels, examples = np.bincount(inference.votes.label, minlength=len(classes)), inference.truth.sum(0)
    shares = {"share": labels / labels.sum(), "examples": examples, "true_share": examples / examples.sum()}
    return pd.DataFrame({"class": classes, "labels": labels, **shares})

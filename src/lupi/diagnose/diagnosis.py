"""Diagnose privileged information, annotators and labels, without true labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lupi import methods
from lupi.crowd import infer
from lupi.diagnose.annotators import rank_annotators, score_annotators
from lupi.diagnose.columns import ColumnFindings, measure_columns
from lupi.diagnose.labels import rank_labels, score_labels
from lupi.diagnose.predictions import predict_out_of_fold
from lupi.diagnose.problem import TRAINING, Floats, Problem
from lupi.diagnose.wording import write_notes, write_verdict
from lupi.tabular.encoding import as_text


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnosis(ColumnFindings):
    """The findings of a diagnosis.

    Parameters
    ----------
    verdict : str
        The answers in words, as paragraphs.
    notes : list of str
        Caveats and advice.
    information : DataFrame
        One row per privileged column, one for all columns together that do not leak, and one for these columns
        shuffled over the rows, which tell nothing. The columns are column; estimate, low, high, what it tells about the
        label beyond the inputs, in nats; share of the held-out loss; alone, the share of the label that it explains on
        its own; known, the share of rows whose value also occurs in other examples; leak, whether it gives the label
        away; how.
    loss : float
        Held-out loss without privileged information.
    control : Information, optional
        What the columns together tell beyond the same columns shuffled.
    capacity : Capacity, optional
        Whether the network is large enough.
    annotators : DataFrame, optional
        The columns of `lupi.crowd.summarize_annotators`, the least supported annotator first.
    labels : DataFrame, optional
        row, example, annotator, given, likely and wrong, the probability that the label is wrong; the most suspicious
        label first.
    scores : DataFrame, optional
        Scores of both rankings by true labels: of, estimate, score, value, count.
    """

    verdict: str
    notes: list[str]
    annotators: pd.DataFrame | None = None
    labels: pd.DataFrame | None = None
    scores: pd.DataFrame | None = None

    def numbers(self) -> pd.DataFrame:
        """Return all numbers except those of single annotators and labels: part, name, quantity, value."""
        rows: list[tuple[str, str, str, Any]] = [("information", "(none)", "loss", self.loss)]
        for line in self.information.to_dict("records"):
            rows += [("information", line["column"], str(name), line[name]) for name in line if name != "column"]
        if self.control is not None:
            rows += [("information", "(beyond shuffled)", *item) for item in asdict(self.control).items()]
        if self.capacity is not None:
            facts = asdict(self.capacity) | {"width": self.capacity.width[0], "wider": self.capacity.wider[0]}
            rows += [("capacity", "", name, value) for name, value in facts.items()]
        if self.annotators is not None:
            rows.append(("annotators", "", "count", len(self.annotators)))
            rows.append(("annotators", "", "flagged", int(self.annotators["flagged"].sum())))
        rows += [("labels", "", name, value) for name, value in self.label_counts().items()]
        if self.scores is not None:
            for line in self.scores.to_dict("records"):
                rows.append((f"score of {line['of']}", line["estimate"], line["score"], line["value"]))
        return pd.DataFrame(rows, columns=["part", "name", "quantity", "value"])

    def label_counts(self) -> dict[str, float]:
        """Return the number of labels, of those that look wrong, and the expected number of wrong labels."""
        if self.labels is None:
            return {}
        wrong = self.labels["wrong"]
        return {"count": len(wrong), "look wrong": int((wrong > 0.5).sum()), "expected wrong": float(wrong.sum())}


def diagnose(problem: Problem, *, jobs: int = 1, progress: bool = False) -> Diagnosis:
    """Diagnose privileged information, annotators and labels.

    Parameters
    ----------
    problem : Problem
        The annotations.
    jobs : int
        Number of parallel trainings, through joblib. The results do not depend on it.
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
    problem.check()
    measured = measure_columns(problem, jobs=jobs, progress=progress)
    notes = write_notes(measured.information, problem.examples)
    tables: dict[str, Any] = {}
    if problem.real or problem.y.ndim > 1:
        notes.append("Annotators and labels can only be ranked for a single target of classes.")
    else:
        tables = judge_labels(problem, measured.honest, notes, jobs, progress)
    verdict = write_verdict(measured, tables.get("annotators"), tables.get("labels"))
    return Diagnosis(verdict=verdict, notes=notes, **vars(measured), **tables)


def judge_labels(
    problem: Problem, columns: Sequence[str], notes: list[str], jobs: int, progress: bool
) -> dict[str, pd.DataFrame]:
    """Rank labels and annotators and, if there are true labels, score both rankings; add notes."""
    method = problem.method
    if not columns and methods.kind(method).uses_privileged:
        method = "no-pi"
        notes.append("No privileged column is left to learn from, so labels were judged by No PI.")
    classes, label = np.unique(problem.y, return_inverse=True)

    def predict(method: str) -> Floats:
        use = list(columns) if methods.kind(method).uses_privileged else []
        return predict_out_of_fold(
            problem.X,
            label,
            privileged=problem.privileged[use] if use else None,
            example=problem.group,
            method=method,
            folds=problem.folds,
            random_state=problem.seed,
            parameters={
                **TRAINING,
                "batch_size": min(32, problem.batch_size),
                **problem.parameters,
                "numbers": problem.encoding(use),
            },
            jobs=jobs,
            progress=progress,
        )[0]

    found = infer(predict(method), label, example=problem.group, annotator=problem.annotator)
    labels = rank_labels(found, classes)
    for name, values in (("annotator", problem.annotator), ("example", problem.example)):
        if values is not None:
            labels.insert(1, name, np.asarray(values)[labels["row"]])
    tables = {"labels": labels}
    if problem.annotator is not None:
        tables["annotators"] = rank_annotators(found)
    if problem.gold is not None:
        no_pi = predict("no-pi")[np.arange(len(label)), label]
        gold = code_gold(problem.gold, classes)
        scores = [score_labels(found.votes, gold, found.wrong, no_pi)]
        if problem.annotator is not None:
            table = tables["annotators"].set_index("annotator").loc[list(found.names)]
            scores.append(score_annotators(found.votes, gold, table, no_pi))
            confidence = pd.Series(found.votes.mean_by_annotator(no_pi), table.index)
            order = list(tables["annotators"]["annotator"])
            tables["annotators"]["confidence_baseline"] = confidence.loc[order].to_numpy()
        tables["scores"] = pd.concat(scores, ignore_index=True)
        notes.append("True labels were used to score the rankings, and for nothing else.")
    if problem.annotator is not None:
        notes.append(
            "Annotators are ranked by `support`, which beat majority vote on two real data sets. The interval is that "
            "of `reliability`, given the model. It covered 93 % in simulation, but only 62–81 % of the annotators' "
            "agreement with true labels on those data sets, since annotators' errors are correlated."
        )
    return tables


def code_gold(gold: Any, classes: NDArray[Any]) -> Floats:
    """Return true labels as class numbers: NaN where missing, −1 where they are none of the classes."""
    numbers = {as_text(name): number for number, name in enumerate(classes)}
    values = np.asarray(gold, dtype=object)
    return np.array([np.nan if pd.isna(value) else numbers.get(as_text(value), -1) for value in values])

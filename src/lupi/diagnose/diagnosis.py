"""Whether privileged information is worth having, and which annotators and labels to distrust, without true labels.

Information: the held-out loss of q(y | x) less that of q(y | x, a), for each privileged column and for all together;
training stops when the loss of further held-out labels does, since networks that overfit make the gap anything.

Leaks: see `lupi.diagnose.leaks`. What leaks is left out of everything that follows.

Capacity: a network four times as wide is trained on the same folds. If its held-out conditional loss is lower, by more
than an interval and a hundredth, the network is too small to use what the privileged information says; the paper's
ablation finds that TRAM no longer helps at a quarter of the width. A wider network also learns faster, so this holds
where training stops by itself, not where it is cut short.

Annotators and labels: see `lupi.crowd.reliability` and `lupi.diagnose.suspicion`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from sklearn.model_selection import GroupKFold

from lupi import methods
from lupi._internal.devices import one_thread
from lupi._internal.progress import Steps
from lupi.crowd.reliability import annotators, infer
from lupi.diagnose.leaks import GIVEN, Alone, advice, alone, leak, value_codes
from lupi.diagnose.scores import of_annotator, score_annotators, score_labels
from lupi.diagnose.suspicion import out_of_fold, suspicious_labels
from lupi.tabular.encoding import as_text
from lupi.theory.information import STEPS, Information, cross_entropy_gap, held_out_losses

Floats = NDArray[np.float64]

FEWEST_EXAMPLES = 20
FEW_EXAMPLES = 1000
"""With fewer, how well networks fit may count as much as the interval."""
WIDTH, WIDER = (64, 64), 4
TRAINING: Mapping[str, Any] = {"epochs": 100, "patience": 5, "validation_fraction": 0.2, "learning_rate": 1e-3}
"""Training ends when the loss of held-out noisy labels has not fallen for so many epochs."""
TOGETHER, SHUFFLED = "(all together)", "(shuffled)"
"""Rows of the table of information that are no columns."""


@dataclass(frozen=True)
class Capacity:
    """Held-out loss given inputs and privileged information, of the network and of a wider one."""

    width: tuple[int, ...]
    loss: float
    wider: tuple[int, ...]
    wider_loss: float
    gain: float
    """How much lower the wider network's loss is, with its interval."""
    low: float
    high: float
    too_small: bool

    def __str__(self) -> str:
        what = (
            "The network is too small to benefit in full"
            if self.too_small
            else "The network seems large enough: a wider one is not clearly better"
        )
        return (
            f"{what} (held-out loss given the privileged information {self.loss:.4f} at width {self.width[0]}, "
            f"{self.wider_loss:.4f} at {self.wider[0]}; gain {self.gain:.4f} [{self.low:.4f}, {self.high:.4f}])."
        )


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What a diagnosis found.

    Parameters
    ----------
    verdict : str
        The answers in words, as paragraphs.
    notes : list of str
        What to keep in mind.
    information : DataFrame
        One row per privileged column, one for those together that do not leak, and one for these shuffled over the
        rows, which tell nothing: column; estimate, low, high, what it tells of the label beyond the inputs, in nats;
        share of the held-out loss; alone, the share of the label that it explains without inputs; known, the share of
        rows whose value other examples have too; leak, whether it gives the label away; how.
    loss : float
        Held-out loss without privileged information.
    control : Information, optional
        What the columns together tell beyond the same columns shuffled, which are as many features that tell nothing.
    capacity : Capacity, optional
        Whether the network is large enough.
    annotators : DataFrame, optional
        As `lupi.crowd.reliability.annotators` with `low` and `high`, the least supported first.
    labels : DataFrame, optional
        row, example, annotator, given, likely and wrong, the probability that it is; the most suspicious first.
    scores : DataFrame, optional
        By true labels: of, estimate, score, value, count.
    """

    verdict: str
    notes: list[str]
    information: pd.DataFrame
    loss: float
    control: Information | None = None
    capacity: Capacity | None = None
    annotators: pd.DataFrame | None = None
    labels: pd.DataFrame | None = None
    scores: pd.DataFrame | None = None

    def numbers(self) -> pd.DataFrame:
        """Return all numbers but those of single annotators and labels: part, name, quantity, value."""
        rows: list[tuple[str, str, str, Any]] = [("information", "(none)", "loss", self.loss)]
        for line in self.information.to_dict("records"):
            rows += [("information", line["column"], str(name), line[name]) for name in line if name != "column"]
        if self.control is not None:
            control = asdict(self.control)
            rows += [("information", "(beyond shuffled)", name, control[name]) for name in ("estimate", "low", "high")]
        if self.capacity is not None:
            facts = asdict(self.capacity) | {"width": self.capacity.width[0], "wider": self.capacity.wider[0]}
            rows += [("capacity", "", name, value) for name, value in facts.items()]
        if self.annotators is not None:
            rows.append(("annotators", "", "count", len(self.annotators)))
            rows.append(("annotators", "", "flagged", int(self.annotators["flagged"].sum())))
        if self.labels is not None:
            wrong = self.labels["wrong"]
            rows += [("labels", "", name, v) for name, v in (("count", len(wrong)), ("look wrong", sum(wrong > 0.5)))]
            rows.append(("labels", "", "expected wrong", float(wrong.sum())))
        if self.scores is not None:
            for line in self.scores.to_dict("records"):
                rows.append((f"score of {line['of']}", line["estimate"], line["score"], line["value"]))
        return pd.DataFrame(rows, columns=["part", "name", "quantity", "value"])


@dataclass(frozen=True, eq=False)
class Problem:
    """Annotations to diagnose, and how.

    Parameters
    ----------
    X : DataFrame or array
        Inputs, one row per label.
    y : array
        Labels; two-dimensional of 0 and 1 where there are several targets.
    privileged : DataFrame
        Privileged columns.
    kinds : mapping, optional
        Their kinds, "number" or "category"; by default numbers are numbers.
    example : array, optional
        Ids: rows with equal ids are one example.
    annotator : array, optional
        Who gave each label.
    gold : array, optional
        True labels, some of which may be missing, for scoring only.
    real : bool
        Whether y is real numbers rather than classes.
    method : str
        The method whose out-of-fold predictions judge annotators and labels.
    folds, seed : int
        Number of folds, and the seed of folds, initial weights and batches.
    parameters : mapping
        Parameters of the estimators.
    """

    X: Any
    y: NDArray[Any]
    privileged: pd.DataFrame
    kinds: Mapping[str, str] = field(default_factory=dict)
    example: Any = None
    annotator: Any = None
    gold: Any = None
    real: bool = False
    method: str = "pi-transition"
    folds: int = 5
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def group(self) -> NDArray[np.int64]:
        """Number of each row's example."""
        ids = np.arange(len(self.y)) if self.example is None else np.asarray(self.example)
        return pd.factorize(ids, use_na_sentinel=False)[0].astype(np.int64)

    @property
    def fold(self) -> NDArray[np.int64]:
        """Number of the fold that holds out each row in `lupi.theory.information.held_out_losses`."""
        numbers, group = np.empty(len(self.y), dtype=np.int64), self.group
        split = GroupKFold(self.folds, shuffle=True, random_state=self.seed).split(group, groups=group)
        for number, (_, rest) in enumerate(split):
            numbers[rest] = number
        return numbers

    @property
    def batch(self) -> int:
        """Batch size: small data need small batches, or training ends before the networks have learned."""
        return max(8, len(self.y) * (self.folds - 1) // self.folds // STEPS)

    def gain(self, one: Floats, other: Floats) -> Information:
        """How much lower the other held-out losses are, with the wider of two intervals.

        One counts examples as independent, and one folds, whose networks are trained apart: it holds how training
        varies too, where that is more.
        """
        by_example, by_fold = (cross_entropy_gap(one, other, example=ids) for ids in (self.group, self.fold))
        return max(by_example, by_fold, key=lambda found: found.high)

    def kind(self, column: str) -> str:
        """Kind of a privileged column."""
        dtype = self.privileged[column].dtype
        number = is_numeric_dtype(dtype) and not is_bool_dtype(dtype)
        return self.kinds.get(column, "number" if number else "category")

    def losses(self, columns: Sequence[str], *, width: int = 1, shuffled: bool = False) -> Floats:
        """Held-out losses given inputs and some privileged columns, by a network so many times as wide."""
        A = self.privileged[list(columns)] if columns else None
        if A is not None and shuffled:
            order = np.random.default_rng(self.seed).permutation(len(A))
            A = A.iloc[order].set_axis(A.index)
        given = {**TRAINING, "batch_size": self.batch, "training": {}, **self.parameters}
        wide = {name: tuple(width * n for n in given.get(name, WIDTH)) for name in ("hidden", "tower")}
        numbers = {"numbers": self.numbers(columns)} if columns else {}
        with one_thread():
            return held_out_losses(
                self.X,
                self.y,
                A,
                example=self.group,
                folds=self.folds,
                parameters={**given, **wide, **numbers},
                seed=self.seed,
                real=self.real,
            )

    def numbers(self, columns: Sequence[str]) -> dict[str, str]:
        """How privileged columns are encoded."""
        return {name: "quantile" if self.kind(name) == "number" else "category" for name in columns}


def diagnose(problem: Problem, *, jobs: int = 1, progress: bool = False) -> Diagnosis:
    """Diagnose privileged information, annotators and labels.

    Parameters
    ----------
    problem : Problem
        The annotations.
    jobs : int
        Trainings at a time, through joblib; the results do not depend on it.
    progress : bool
        Show progress.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth, who = rng.integers(2, size=300), rng.choice(["ann", "bob"], size=300)
    >>> label = np.where(who == "bob", rng.integers(2, size=300), truth)  # Bob tosses coins
    >>> A = pd.DataFrame({"who": who, "note": np.where(label, "Y", "N")})
    >>> problem = Problem(truth[:, None], label, A, annotator=who, folds=2, parameters={"epochs": 10})
    >>> found = diagnose(problem)
    >>> found.information[["column", "leak"]].head(2)
      column   leak
    0    who  False
    1   note   True
    >>> found.annotators[["annotator", "flagged"]]
      annotator  flagged
    0       bob     True
    1       ann    False
    """
    check(problem)
    columns = [str(name) for name in problem.privileged]
    first = trained(problem, [(), *((name,) for name in columns)], jobs, progress, [{}] * (1 + len(columns)))
    marginal, group = first[0], problem.group
    codes = target_codes(problem)
    own = {
        name: alone(problem.privileged[name], problem.kind(name), codes, group, folds=problem.folds) for name in columns
    }
    lines = [line(problem, name, marginal, losses, own[name]) for name, losses in zip(columns, first[1:], strict=True)]
    kept = [row["column"] for row in lines if not row["leak"]]
    control = capacity = None
    if kept:
        wanted: list[dict[str, Any]] = [*([{}] if len(kept) > 1 else []), {"width": WIDER}, {"shuffled": True}]
        *together, wide, shuffled = trained(problem, [tuple(kept)] * len(wanted), jobs, progress, wanted)
        conditional = together[0] if together else first[1 + columns.index(kept[0])]
        lines.append(line(problem, TOGETHER, marginal, conditional))
        lines.append(line(problem, SHUFFLED, marginal, shuffled))
        control = problem.gain(shuffled, conditional)
        capacity = judged(problem, conditional, wide)
    information = pd.DataFrame(lines)
    notes = remarks(problem, information)
    found: dict[str, Any] = {}
    if problem.real or problem.y.ndim > 1:
        notes.append("Annotators and suspicious labels need one target of classes, so they were left out.")
    else:
        found = distrusted(problem, kept, notes, jobs, progress)
    text = verdict(information, control, capacity, found.get("annotators"), found.get("labels"))
    return Diagnosis(text, notes, information, float(marginal.mean()), control, capacity, **found)


def check(problem: Problem) -> None:
    """Refuse what cannot be diagnosed."""
    methods.kind(problem.method)
    if not len(problem.privileged.columns):
        raise ValueError("Expected privileged columns to diagnose, but got none.")
    examples = int(problem.group.max()) + 1
    if examples < FEWEST_EXAMPLES:
        raise ValueError(f"Expected at least {FEWEST_EXAMPLES} examples to diagnose, but got {examples}.")
    if not 2 <= problem.folds <= examples // 2:
        raise ValueError(f"Expected `folds` to be from 2 to {examples // 2}, but got {problem.folds}.")


# -------------------------------------------------------------------------------- information


def trained(
    problem: Problem,
    sets: Sequence[Sequence[str]],
    jobs: int,
    progress: bool,
    options: Sequence[Mapping[str, Any]],
) -> list[Floats]:
    """Held-out losses of sets of privileged columns."""
    work = [joblib.delayed(problem.losses)(own, **more) for own, more in zip(sets, options, strict=True)]
    done = []
    with Steps("information", len(work), show=progress) as steps:
        for own, losses in zip(sets, joblib.Parallel(n_jobs=jobs, return_as="generator")(work), strict=True):
            steps.advance(1, "in " + (", ".join(own) or "no privileged column"))
            done.append(losses)
    return done


def target_codes(problem: Problem) -> NDArray[np.int64]:
    """Labels as numbers; real ones as ten bins of equal size."""
    if problem.real:
        return value_codes(pd.Series(problem.y), "number", 10)
    if problem.y.ndim > 1:
        return problem.y.astype(np.int64)
    return np.unique(problem.y, return_inverse=True)[1].astype(np.int64)


def line(
    problem: Problem, name: str, marginal: Floats, conditional: Floats, own: Alone | None = None
) -> dict[str, Any]:
    """Row of the table of information."""
    gain = problem.gain(marginal, conditional)
    share = np.nan if problem.real else gain.estimate / float(marginal.mean())
    how = ""
    if own is not None:
        # Losses of bins and densities of real numbers cannot be compared.
        better = not problem.real and problem.gain(marginal, own.losses).low > 0
        how = leak(own.share, share, better)
    return {
        "column": name,
        "estimate": gain.estimate,
        "low": gain.low,
        "high": gain.high,
        "share": share,
        "alone": np.nan if own is None else own.share,
        "known": np.nan if own is None else own.known,
        "leak": bool(how),
        "how": how,
    }


def judged(problem: Problem, conditional: Floats, wide: Floats) -> Capacity:
    """Compare the held-out losses of the network and a wider one."""
    gain = problem.gain(conditional, wide)
    loss, wide_loss = float(conditional.mean()), float(wide.mean())
    width = tuple(problem.parameters.get("hidden", WIDTH))
    matters = problem.real or gain.estimate > 0.01 * loss
    wider = tuple(WIDER * n for n in width)
    return Capacity(width, loss, wider, wide_loss, gain.estimate, gain.low, gain.high, bool(gain.low > 0 and matters))


def remarks(problem: Problem, information: pd.DataFrame) -> list[str]:
    """Say what to do about leaks and ids, and what the intervals leave out."""
    notes = []
    for row in information.to_dict("records"):
        if row["leak"]:
            notes.append(advice(row["column"], row["how"], row["alone"]))
        elif row["known"] < 0.1:
            notes.append(
                f"Column {row['column']!r} has a value of its own in nearly every example, so it can tell nothing of "
                f"others: leave it out, `--ignore {row['column']}`, or give it as a number."
            )
        elif row["column"] == TOGETHER and row["share"] >= GIVEN:
            notes.append("The privileged columns together settle the label: look for what gives it away.")
    notes.append(
        "The intervals of information hold how held-out examples and the trainings of the folds vary. They leave out "
        "what all networks miss; what the shuffled columns seem to tell gives an idea of that."
    )
    examples = int(problem.group.max()) + 1
    if examples < FEW_EXAMPLES:
        notes.append(f"With {examples} examples this misfit may be as large as the intervals: read them with care.")
    return notes


# -------------------------------------------------------------------------------- annotators and labels


def distrusted(problem: Problem, kept: Sequence[str], notes: list[str], jobs: int, progress: bool) -> dict[str, Any]:
    """Annotators and labels to distrust and, where there are true labels, how good these lists are."""
    method = problem.method
    if not kept and methods.kind(method).uses_privileged:
        method = "no-pi"
        notes.append("No privileged column is left to learn from, so labels were judged by No PI.")
    classes, label = np.unique(problem.y, return_inverse=True)

    def predicted(method: str) -> Floats:
        use = list(kept) if methods.kind(method).uses_privileged else []
        return out_of_fold(
            problem.X,
            label,
            privileged=problem.privileged[use] if use else None,
            example=problem.group,
            method=method,
            folds=problem.folds,
            random_state=problem.seed,
            parameters={
                **TRAINING,
                "batch_size": min(32, problem.batch),
                **problem.parameters,
                "numbers": problem.numbers(use),
            },
            jobs=jobs,
            progress=progress,
        )[0]

    found = infer(predicted(method), label, example=problem.group, annotator=problem.annotator)
    labels = suspicious_labels(found, classes).rename(columns={"label": "given", "probable": "likely"})
    for name, values in (("annotator", problem.annotator), ("example", problem.example)):
        if values is not None:
            labels.insert(1, name, np.asarray(values)[labels["row"]])
    result: dict[str, Any] = {"labels": labels}
    table = annotators(found).rename(columns={"lower": "low", "upper": "high"})
    if problem.gold is not None:
        no_pi = predicted("no-pi")[np.arange(len(label)), label]
        gold = true_codes(problem.gold, classes)
        scores = [score_labels(found.votes, gold, labels.sort_values("row")["wrong"].to_numpy(), no_pi)]
        if problem.annotator is not None:
            ordered = table.set_index("annotator").loc[list(found.names)]
            scores.append(score_annotators(found.votes, gold, ordered, no_pi))
            confidence = pd.Series(of_annotator(found.votes, no_pi), ordered.index)
            table["confidence_baseline"] = confidence.loc[list(table["annotator"])].to_numpy()
        result["scores"] = pd.concat(scores, ignore_index=True)
        notes.append("True labels were used to score the lists, and for nothing else.")
    if problem.annotator is not None:
        result["annotators"] = table.sort_values("support", kind="stable", ignore_index=True)
        notes.append(
            "Annotators are ranked by `support`, which was ahead of majority vote on two real sets. The interval is of "
            "`reliability`, given the model; it covered 93 % in simulation, but only 62–81 % of the annotators' "
            "agreement with true labels on those sets, since annotators err together."
        )
    return result


def true_codes(gold: Any, classes: NDArray[Any]) -> Floats:
    """True labels as numbers of classes: NaN where missing, −1 where they are none of the classes."""
    values = np.asarray(gold, dtype=object)
    place = {as_text(name): number for number, name in enumerate(classes)}
    return np.array([np.nan if pd.isna(value) else place.get(as_text(value), -1) for value in values])


# -------------------------------------------------------------------------------- words


def verdict(
    information: pd.DataFrame,
    control: Information | None,
    capacity: Capacity | None,
    annotators: pd.DataFrame | None = None,
    labels: pd.DataFrame | None = None,
) -> str:
    """Say whether the privileged information is worth having, who to look at and how many labels look wrong."""
    leaks = [repr(name) for name in information.loc[information["leak"], "column"]]
    left_out = f"Leave out {', '.join(leaks)}: {'it gives' if len(leaks) == 1 else 'they give'} the label away. "
    parts = [(left_out if leaks else "") + worth(information, control)]
    if capacity is not None:
        parts.append(str(capacity))
    if annotators is not None:
        flagged = annotators.loc[annotators["flagged"], "annotator"].tolist()
        who = ", ".join(map(str, flagged[:5])) + (", …" if len(flagged) > 5 else "")
        parts.append(
            f"{len(flagged)} of {len(annotators)} annotators are flagged as less reliable than the rest: look first at "
            f"the labels of {who}."
            if flagged
            else f"None of {len(annotators)} annotators stands out as less reliable than the rest."
        )
    if labels is not None:
        look_wrong = int((labels["wrong"] > 0.5).sum())
        parts.append(f"{look_wrong:,} of {len(labels):,} labels ({100 * look_wrong / len(labels):.0f} %) look wrong.")
    return "\n\n".join(parts)


def worth(information: pd.DataFrame, control: Information | None) -> str:
    """Say whether the privileged information is worth having: beyond a blank, and beyond itself shuffled."""
    if control is None:
        return "No privileged information is left that could be worth having."
    rows = {row["column"]: row for row in information.to_dict("records")}
    together = rows[TOGETHER]
    share = "" if np.isnan(together["share"]) else f", {100 * together['share']:.0f} % of the held-out loss"
    number = f"{together['estimate']:.3f} nats [{together['low']:.3f}, {together['high']:.3f}] of the label{share}"
    if together["low"] > 0 and control.low > 0:
        own = {
            name: row["estimate"] for name, row in rows.items() if name not in (TOGETHER, SHUFFLED) and not row["leak"]
        }
        most = f"; most is in {max(own, key=own.__getitem__)!r}" if len(own) > 1 else ""
        return (
            f"This privileged information is worth having: beyond the inputs it tells {number}{most}. "
            "`lupi compare` says whether a method makes a better model of it."
        )
    if together["low"] > 0 and control.high > 0:
        return (
            f"This privileged information may be worth having: beyond the inputs it tells {number}, but beyond itself "
            f"shuffled {control}, which may be nothing."
        )
    what = f"beyond the inputs it tells {number}, and beyond itself shuffled {control}"
    if together["high"] <= 0 or control.high <= 0:
        return f"This privileged information is not worth having: {what}."
    return f"It is not shown that this privileged information is worth having: {what}."
